import { isIPv6 } from 'node:net';

import type { EventSink, MirrorEvent } from '../../app/events.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { isLoopback } from '../../lib/http/access.ts';
import { loadPage } from '../../lib/http/page-files.ts';
import { createHttpServer, type ListenPlace, type ServerPatience } from '../../lib/http/server.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import { createMetrics } from '../metrics/metrics.ts';
import type { StatusService } from '../status/status-service.ts';
import { type Context, handle } from './handler.ts';
import { createRoutes, standbyRoutes } from './routes.ts';
import { createEventStreams } from './streams.ts';

/** Event streams send something more often. */
const PATIENCE: ServerPatience = { requestMs: 15_000, idleMs: 60_000 };

/** Time until the same failure is reported again, in milliseconds: it may have ended and begun again. */
const REPORT_AGAIN_MS = 3_600_000;

/** Interval of notifications about the progress of pulls, in milliseconds. */
const MOVING_EVERY_MS = 2000;

/** Time until an unusable address is tried again, in milliseconds. */
const TRY_AGAIN_MS = 10_000;

const NOTHING_SERVED = { sink: (): void => {}, close: (): Promise<void> => Promise.resolve() };

/**
 * Serves the status at `http.listen`, if set. If it cannot listen there, it reports this and tries again
 * until it can: the mirror matters more than its page.
 * @param askForPass called when another program requests a pass; null to refuse such requests
 * @param tryAgainMs time between attempts to listen, in milliseconds
 * @throws MirrorError `http.unusable` if the page is missing
 */
export async function startHttp(
  current: () => SettingsFor<never>,
  status: Pick<StatusService, 'report' | 'changes' | 'liveness' | 'isBusy'>,
  emit: EventSink,
  askForPass: (() => void) | null = null,
  tryAgainMs = TRY_AGAIN_MS,
) {
  const { listen } = current().http;
  if (listen === null) return NOTHING_SERVED;
  const page = await loadPage('daemon/page', 'the status page');
  const metrics = createMetrics();
  const routes = createRoutes(page, status, metrics.render);
  const server = createWebServer(() => current().http, routes, askForPass, emit);
  const close = await keepListening(server, listen, emit, tryAgainMs);
  const moving = setInterval(() => status.isBusy() && server.notify(), MOVING_EVERY_MS).unref();
  return {
    /** Receives events, after the status. */
    sink: (event: MirrorEvent): void => {
      metrics.sink(event);
      server.notify();
    },
    close: async (): Promise<void> => {
      clearInterval(moving);
      await close();
    },
  };
}

/**
 * Answers for an instance on standby, which is healthy but not ready.
 * @param reason gives a sentence with the reason for waiting
 */
export async function startStandbyHttp(
  { http }: SettingsFor<never>,
  reason: () => string,
  emit: EventSink,
): Promise<{ readonly close: () => Promise<void> }> {
  if (http.listen === null) return NOTHING_SERVED;
  const server = createWebServer(() => http, standbyRoutes(reason), null, emit);
  return { close: await keepListening(server, http.listen, emit, TRY_AGAIN_MS) };
}

type WebServer = ReturnType<typeof createWebServer>;

/** Makes a server of some paths, which does nothing before `listen` is called. */
export function createWebServer(
  http: Context['http'],
  routes: Context['routes'],
  askForPass: Context['askForPass'],
  emit: EventSink,
) {
  const onFailure = reportOnce(emit);
  const streams = createEventStreams();
  const server = createHttpServer(PATIENCE, 'http.listen', (error) => onFailure(null, error));
  let ownHost = '';
  const context: Context = { http, ownHost: () => ownHost, routes, streams, askForPass, onFailure };
  server.node.on('request', (request, response) => void handle(context, request, response));
  return {
    /**
     * Starts to answer. After a failure it may be called again.
     * @returns the address to open, the port, and whether other machines can reach it without a token
     * @throws MirrorError `http.unusable` if it cannot listen there now
     */
    listen: async (place: ListenPlace) => {
      ownHost = place.host;
      const port = await server.listen(place);
      const address = `http://${isIPv6(ownHost) ? `[${ownHost}]` : ownHost}:${port}/`;
      const isOwnMachine = isLoopback(ownHost) || ownHost === 'localhost';
      return { address, port, isUnprotected: http().token === undefined && !isOwnMachine };
    },
    /** Notifies the open pages of a change. Cheap: it may be called with every event. */
    notify: streams.notify,
    /** Stops at once: open connections and event streams are cut. */
    close: async (): Promise<void> => {
      streams.close();
      await server.close();
    },
  };
}

/**
 * Logs failed replies, each failure at most once an hour: this event makes pages send requests immediately,
 * which fail again.
 */
function reportOnce(emit: EventSink): Context['onFailure'] {
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

/** Starts a server, now or as soon as possible. Repeated failures are reported once. @returns a function that ends it */
async function keepListening(
  server: WebServer,
  place: ListenPlace,
  emit: EventSink,
  tryAgainMs: number,
): Promise<() => Promise<void>> {
  let isClosed = false;
  let reported = '';
  let timer: NodeJS.Timeout | undefined;
  const tryToListen = async (): Promise<void> => {
    try {
      const { address, isUnprotected } = await server.listen(place);
      emit({ name: 'http.listening', address });
      if (isUnprotected) emit({ name: 'http.unprotected', address });
    } catch (error) {
      const failure = eventFailure(error);
      if (failure.message !== reported) emit({ name: 'http.unavailable', ...failure });
      reported = failure.message;
      if (!isClosed) timer = setTimeout(() => void (attempt = tryToListen()), tryAgainMs).unref();
    }
  };
  let attempt = tryToListen();
  await attempt;
  return async () => {
    isClosed = true;
    clearTimeout(timer);
    await attempt;
    await server.close();
  };
}
