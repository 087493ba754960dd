import { createServer, type Server } from 'node:http';
import { isIPv6 } from 'node:net';

import { limitConnections } from '../../lib/http/connections.ts';
import { cutUnreadBodies } from '../../lib/http/unread-bodies.ts';
import type { EventSink } from '../../mirror/pass/events.ts';
import type { Liveness } from '../status/readiness.ts';
import type { DaemonReport } from '../status/report.ts';
import { listenError } from '../../lib/http/listen-error.ts';
import { loadAssets } from './assets.ts';
import { createFailureNotes } from './failure-notes.ts';
import { type Context, handle } from './handler.ts';
import { createRoutes, type RenderedMetrics } from './routes.ts';
import { shareWork } from '../../lib/concurrency/shared-work.ts';
import { createEventStreams } from './streams.ts';

/** What the server is made from. */
export interface WebServerOptions {
  readonly report: () => Promise<DaemonReport>;
  /** Answers at once, also while the disk hangs. */
  readonly liveness: () => Liveness;
  /** Writes the metrics for the same report that the other answers are made from. */
  readonly renderMetrics: (report: DaemonReport) => Promise<RenderedMetrics>;
  /** The token in force, asked for with every request; null for none. */
  readonly token: () => string | null;
  /** Names under which it is answered without a token, beside its own, asked for with every request. */
  readonly allowedHosts: () => readonly string[];
  /** The folders that hold the files of the status page. */
  readonly pageFolders: readonly string[];
  /** The clock, in milliseconds since any time. */
  readonly now: () => number;
  readonly emit: EventSink;
}

/** The HTTP server of the daemon: status page, health, metrics. It only reads. */
export interface WebServer {
  /**
   * Starts to answer. Where that failed it may be asked for again.
   * @param where a name, or an address without brackets; and a port, 0 for a free one
   * @returns the address to open, and the port
   * @throws MirrorError `http.unusable` where it cannot listen there now
   */
  readonly listen: (where: { host: string; port: number }) => Promise<{ address: string; port: number }>;
  /** Tells the open pages that something changed. Cheap: it may be called with every event. */
  readonly notify: () => void;
  /** Stops at once: open connections and event streams are cut. */
  readonly close: () => Promise<void>;
}

/** Answers are made from a report of at most this age, in milliseconds. */
const REPORT_AGE_MS = 1000;
/** How long a client may take to send the head of a request, and all of it, in milliseconds. */
const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 15_000;
/** A connection on which nothing moves for so long is cut; event streams send more often. */
const IDLE_TIMEOUT_MS = 60_000;
const KEEP_ALIVE_TIMEOUT_MS = 5000;
/** Well above the event streams; more connections than this are none that help anyone. */
const MOST_CONNECTIONS = 200;
/** So many of them are answered whatever others want; the rest is for those who ask for health. */
const MOST_KEPT = 150;

/**
 * Reads the page and makes the server; it does nothing before it is told to listen.
 * @throws MirrorError `http.unusable` when the page is not there
 */
export async function createWebServer(options: WebServerOptions): Promise<WebServer> {
  const routes = createRoutes(await loadAssets(options.pageFolders), options.renderMetrics);
  const streams = createEventStreams();
  const report = shareWork(options.report, REPORT_AGE_MS, options.now);
  const failures = createFailureNotes(options.emit);
  const server = createServer({
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    connectionsCheckingInterval: KEEP_ALIVE_TIMEOUT_MS,
  });
  server.timeout = IDLE_TIMEOUT_MS;
  const connections = limitConnections(server, { most: MOST_CONNECTIONS, mostKept: MOST_KEPT });
  cutUnreadBodies(server);
  let ownHost = '';
  const context: Context = {
    routes,
    report,
    liveness: options.liveness,
    streams,
    connections,
    token: options.token,
    ownNames: () => [ownHost, ...options.allowedHosts()],
    failures,
  };
  server.on('request', (request, response) => void handle(context, request, response));
  return {
    listen: async ({ host, port }) => {
      ownHost = host;
      await listenOn(server, host, port);
      // A connection that cannot be accepted, for want of file descriptors, is no reason to end the daemon.
      server.on('error', (error) => failures.note(null, error));
      const bound = boundTo(server);
      return { address: `http://${isIPv6(host) ? `[${host}]` : host}:${bound.port}/`, port: bound.port };
    },
    notify: streams.notify,
    close: async () => {
      streams.close();
      const closed = new Promise<void>((resolve) => {
        // The error says that it was not listening.
        server.close(() => resolve());
      });
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Where it listens is one setting. */
const SETTING = { name: 'http.listen', example: '127.0.0.1:9480', canBeOff: true };

function listenOn(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => reject(listenError(error, { host, port }, SETTING));
    server.once('error', fail);
    server.listen({ host, port }, () => {
      server.off('error', fail);
      resolve();
    });
  });
}

function boundTo(server: Server): { address: string; port: number } {
  const bound = server.address();
  return bound === null || typeof bound === 'string' ? { address: '', port: 0 } : bound;
}
