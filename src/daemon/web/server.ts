import { isIPv6 } from 'node:net';

import type { EventSink } from '../../app/events.ts';
import type { ListenAddress } from '../../config/addresses.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { isLoopback } from '../../lib/http/access.ts';
import { loadPage } from '../../lib/http/page-files.ts';
import { createHttpServer, type ListenPlace, type ServerPatience } from '../../lib/http/server.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import { createMetrics } from '../metrics/metrics.ts';
import type { StatusService } from '../status/status-service.ts';
import { type Access, type Context, handle } from './handler.ts';
import { createRoutes, type Route, type Sources, standbyRoutes } from './routes.ts';
import { createEventStreams } from './streams.ts';

export interface WebServerOptions extends Sources, Access {
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
const REPORT_AGAIN_MS = 3_600_000;

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
  );
  return serveRoutes(options, options.emit, createRoutes(page, options));
}

/** Makes a server of some paths, which does nothing before `listen` is called. */
function serveRoutes(access: Access, emit: EventSink, routes: ReadonlyMap<string, Route>): WebServer {
  const onFailure = reportOnce(emit);
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
function reportOnce(emit: EventSink): (path: string | null, error: unknown) => void {
  let reported = '';
  let againAtMs = 0;
  return (path, error) => {
    const failure = eventFailure(error);
    if (failure.message === reported && performance.now() < againAtMs) return;
    reported = failure.message;
    againAtMs = performance.now() + REPORT_AGAIN_MS;
    emit({ name: 'http.failed', path, ...failure });
  };
}

/** Status page, health and metrics, served. */
export interface HttpSide {
  /** Receives events, after the status. */
  readonly sink: EventSink;
  readonly close: () => Promise<void>;
}

/** Interval of notifications about the progress of pulls, in milliseconds. */
const MOVING_EVERY_MS = 2000;

/** Time until an unusable address is tried again, in milliseconds. */
const TRY_AGAIN_MS = 10_000;

const NOTHING_SERVED: HttpSide = { sink: () => {}, close: () => Promise.resolve() };

/**
 * Serves the status at `http.listen`, if set. If it cannot listen there, it reports this and tries again
 * until it can: the mirror matters more than its page.
 * @param askForPass called when another program requests a pass; null to refuse such requests
 * @param tryAgainMs time between attempts to listen, in milliseconds
 * @throws MirrorError `http.unusable` if the page is missing
 */
export async function startHttp(
  current: () => SettingsFor<never>,
  status: Pick<StatusService, 'report' | 'liveness' | 'isBusy'>,
  emit: EventSink,
  askForPass: (() => void) | null = null,
  tryAgainMs = TRY_AGAIN_MS,
): Promise<HttpSide> {
  const { listen } = current().http;
  if (listen === null) return NOTHING_SERVED;
  const metrics = createMetrics();
  const { report, liveness } = status;
  const sources = { report, liveness, renderMetrics: metrics.render };
  const server = await createWebServer({ ...sources, ...accessOf(current, askForPass), emit });
  const stopListening = await keepListening(server, listen, current, emit, tryAgainMs);
  const moving = setInterval(() => status.isBusy() && server.notify(), MOVING_EVERY_MS).unref();
  return {
    sink: (event) => {
      metrics.sink(event);
      server.notify();
    },
    close: async () => {
      clearInterval(moving);
      await stopListening();
    },
  };
}

/**
 * Answers for an instance on standby, which is healthy but not ready.
 * @param reason gives a sentence with the reason for waiting
 */
export async function startStandbyHttp(
  settings: SettingsFor<never>,
  reason: () => string,
  emit: EventSink,
): Promise<Pick<HttpSide, 'close'>> {
  const { listen } = settings.http;
  if (listen === null) return NOTHING_SERVED;
  const current = (): SettingsFor<never> => settings;
  const server = serveRoutes(accessOf(current, null), emit, standbyRoutes(reason));
  return { close: await keepListening(server, listen, current, emit, TRY_AGAIN_MS) };
}

function accessOf(current: () => SettingsFor<never>, askForPass: Access['askForPass']): Access {
  return {
    token: () => current().http.token?.reveal() ?? null,
    allowedHosts: () => current().http.allowedHosts,
    pollToken: () => current().http.pollToken?.reveal() ?? null,
    askForPass,
  };
}

/** Starts a server, now or as soon as possible. Repeated failures are reported once. @returns a function that ends it */
async function keepListening(
  server: WebServer,
  place: ListenAddress,
  current: () => SettingsFor<never>,
  emit: EventSink,
  tryAgainMs: number,
): Promise<() => Promise<void>> {
  let isClosed = false;
  let reported = '';
  let timer: NodeJS.Timeout | undefined;
  let attempt = Promise.resolve();
  const again = (): void => {
    attempt = tryToListen();
  };
  const tryToListen = async (): Promise<void> => {
    try {
      const { address } = await server.listen(place);
      emit({ name: 'http.listening', address });
      const isOwnMachine = isLoopback(place.host) || place.host === 'localhost';
      if (current().http.token === undefined && !isOwnMachine) emit({ name: 'http.unprotected', address });
    } catch (error) {
      const failure = eventFailure(error);
      if (failure.message !== reported) emit({ name: 'http.unavailable', ...failure });
      reported = failure.message;
      if (!isClosed) timer = setTimeout(again, tryAgainMs).unref();
    }
  };
  again();
  await attempt;
  return async () => {
    isClosed = true;
    clearTimeout(timer);
    await attempt;
    await server.close();
  };
}
