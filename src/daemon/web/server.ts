import { isIPv6 } from 'node:net';

import type { EventSink } from '../../app/events.ts';
import { loadPage } from '../../lib/http/page-files.ts';
import { createHttpServer, type ListenPlace, type ServerPatience } from '../../lib/http/server.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import { type Access, type Context, handle } from './handler.ts';
import { createRoutes, type Route, type Sources } from './routes.ts';
import { createEventStreams } from './streams.ts';

export interface WebServerOptions extends Sources, Access {
  /** Another folder of the status page, for tests. */
  readonly program?: string;
  readonly emit: EventSink;
}

/** The HTTP server of the daemon: status page, health, metrics, and requests for a pass. */
export interface WebServer {
  /**
   * Starts to answer. After a failure it may be called again.
   * @returns the address to open, and the port
   * @throws MirrorError `http.unusable` if it cannot listen there now
   */
  readonly listen: (place: ListenPlace) => Promise<{ address: string; port: number }>;
  /** Notifies the open pages of a change. Cheap: it may be called with every event. */
  readonly notify: () => void;
  /** Stops at once: open connections and event streams are cut. */
  readonly close: () => Promise<void>;
}

/** Event streams send something more often. */
const PATIENCE: ServerPatience = { requestMs: 15_000, idleMs: 60_000 };

/** Time until the same failure is reported again, in milliseconds: it may have ended and begun again. */
const TELL_AGAIN_MS = 3_600_000;

const SETTING = { name: 'http.listen', example: '127.0.0.1:9480', canBeOff: true };

/**
 * Reads the page and makes the server, which does nothing before `listen` is called.
 * @throws MirrorError `http.unusable` if the page is missing
 */
export async function createWebServer(options: WebServerOptions): Promise<WebServer> {
  const page = await loadPage(
    'daemon/page',
    'the status page',
    'Install workbook-mirror again; with http.listen off it runs without the page.',
    options.program,
  );
  return serveRoutes(options, options.emit, createRoutes(page, options));
}

/** Makes a server of some paths, which does nothing before `listen` is called. */
export function serveRoutes(access: Access, emit: EventSink, routes: ReadonlyMap<string, Route>): WebServer {
  const onFailure = tellOnce(emit);
  const streams = createEventStreams();
  const server = createHttpServer(PATIENCE, SETTING, (error) => onFailure(null, error));
  let ownHost = '';
  const context: Context = {
    ...access,
    routes,
    streams,
    allowedHosts: () => [ownHost, ...access.allowedHosts()],
    onFailure,
  };
  server.node.on('request', (request, response) => void handle(context, request, response));
  return {
    listen: async (place) => {
      ownHost = place.host;
      const port = await server.listen(place);
      return { address: `http://${isIPv6(ownHost) ? `[${ownHost}]` : ownHost}:${port}/`, port };
    },
    notify: streams.notify,
    close: async () => {
      streams.close();
      await server.close();
    },
  };
}

/**
 * Logs failed replies, each failure at most once an hour: this event makes pages send requests immediately,
 * which fail again.
 */
function tellOnce(emit: EventSink): (path: string | null, error: unknown) => void {
  let told = '';
  let againAtMs = 0;
  return (path, error) => {
    const failure = eventFailure(error);
    if (failure.message === told && performance.now() < againAtMs) return;
    told = failure.message;
    againAtMs = performance.now() + TELL_AGAIN_MS;
    emit({ name: 'http.failed', path, ...failure });
  };
}
