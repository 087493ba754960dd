import { isIPv6 } from 'node:net';

import { shareWork } from '../../lib/concurrency/shared-work.ts';
import { loadPage } from '../../lib/http/page-files.ts';
import { createHttpServer, type ListenPlace, type ServerLimits } from '../../lib/http/server.ts';

import { eventFailure } from '../../mirror/pass/events.ts';
import type { EventSink } from '../../app/events.ts';
import { type Context, handle } from './handler.ts';
import type { PollAccess } from './poll-requests.ts';
import { createRoutes, type Route, type Sources } from './routes.ts';
import { createEventStreams } from './streams.ts';

/** Who is answered, and who hears of what fails. */
export interface Access {
  /** The token in force, asked for with every request; null for none. */
  readonly token: () => string | null;
  /** Names under which it is answered without a token, beside its own, asked for with every request. */
  readonly allowedHosts: () => readonly string[];
  readonly polls: PollAccess;
  readonly emit: EventSink;
}

export interface WebServerOptions extends Sources, Access {
  /** Another folder than the program's to read the status page from, for tests. */
  readonly program?: string;
  /** The clock, in milliseconds since any time. */
  readonly now: () => number;
}

/** The HTTP server of the daemon: status page, health, metrics, and who asks for a pass. */
export interface WebServer {
  /**
   * Starts to answer. Where that failed it may be asked for again.
   * @returns the address to open, and the port
   * @throws MirrorError `http.unusable` where it cannot listen there now
   */
  readonly listen: (place: ListenPlace) => Promise<{ address: string; port: number }>;
  /** Tells the open pages that something changed. Cheap: it may be called with every event. */
  readonly notify: () => void;
  /** Stops at once: open connections and event streams are cut. */
  readonly close: () => Promise<void>;
}

/** Replies are made from a report of at most this age, in milliseconds. */
const REPORT_AGE_MS = 1000;

const LIMITS: ServerLimits = {
  timeouts: {
    headersTimeout: 10_000,
    requestTimeout: 15_000,
    keepAliveTimeout: 5000,
    connectionsCheckingInterval: 5000,
  },
  // Event streams send more often.
  idleMs: 60_000,
  // Well above the event streams; more than this are none that help anyone. What is not kept is for those who ask for health.
  connections: { most: 200, mostKept: 150 },
};

const SETTING = { name: 'http.listen', example: '127.0.0.1:9480', canBeOff: true };

/**
 * Reads the page and makes the server, which does nothing before `listen` is called.
 * @throws MirrorError `http.unusable` when the page is not there
 */
export async function createWebServer(options: WebServerOptions): Promise<WebServer> {
  const page = await loadPage(
    'daemon/page',
    'the status page',
    'Install workbook-mirror again; with http.listen off it runs without the page.',
    options.program,
  );
  const report = shareWork(options.report, REPORT_AGE_MS, options.now);
  return serveRoutes(options, (onReply) => createRoutes(page, { ...options, report }, onReply));
}

/**
 * Makes a server of some paths, which does nothing before `listen` is called.
 * @param makeRoutes is given what is to be called when a reply was made that may fail
 */
export function serveRoutes(
  { token, allowedHosts, polls, emit }: Access,
  makeRoutes: (onReply: () => void) => ReadonlyMap<string, Route>,
): WebServer {
  const failures = createFailureNotes(emit);
  const streams = createEventStreams();
  const server = createHttpServer(LIMITS, SETTING, (error) => failures.note(null, error));
  let ownHost = '';
  const context: Context = {
    routes: makeRoutes(failures.clear),
    streams,
    polls,
    connections: server.connections,
    token,
    ownNames: () => [ownHost, ...allowedHosts()],
    onFailure: failures.note,
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

/** Tells the log of replies that failed. */
interface FailureNotes {
  /** @param path of the request; null where there was none */
  readonly note: (path: string | null, error: unknown) => void;
  /** Notes that replies succeed again. */
  readonly clear: () => void;
}

/**
 * Makes notes that tell of the same failure once, until something was answered: pages ask again at once when they hear that
 * something happened, and such a note is something that happens.
 */
function createFailureNotes(emit: EventSink): FailureNotes {
  let told = '';
  return {
    note: (path, error) => {
      const failure = eventFailure(error);
      if (failure.message === told) return;
      told = failure.message;
      emit({ name: 'http.failed', path, ...failure });
    },
    clear: () => {
      told = '';
    },
  };
}
