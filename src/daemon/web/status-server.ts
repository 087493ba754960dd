import type { EventSink } from '../../app/events.ts';
import type { ListenAddress } from '../../config/addresses.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { isLoopback } from '../../lib/http/access.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import { createMetrics } from '../metrics/metrics.ts';
import type { StatusService } from '../status/status-service.ts';
import type { Access } from './handler.ts';
import { standbyRoutes } from './routes.ts';
import { createWebServer, serveRoutes, type WebServer } from './server.ts';

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
  const server = await createWebServer({
    report: status.report,
    liveness: status.liveness,
    renderMetrics: metrics.render,
    ...accessOf(current, askForPass),
    emit,
  });
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
  let told = '';
  let timer: NodeJS.Timeout | undefined;
  let attempt = Promise.resolve();
  const again = (): void => {
    attempt = tryToListen();
  };
  const tryToListen = async (): Promise<void> => {
    try {
      const { address } = await server.listen(place);
      emit({ name: 'http.listening', address });
      if (current().http.token === undefined && !isOwnMachine(place))
        emit({ name: 'http.unprotected', address });
    } catch (error) {
      const failure = eventFailure(error);
      if (failure.message !== told) emit({ name: 'http.unavailable', ...failure });
      told = failure.message;
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

/** Whether only this machine reaches an address. */
function isOwnMachine({ host }: ListenAddress): boolean {
  return isLoopback(host) || host === 'localhost';
}
