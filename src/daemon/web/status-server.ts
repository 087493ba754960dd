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
  /** Takes in what happens, after the status has. */
  readonly sink: EventSink;
  readonly close: () => Promise<void>;
}

/** How often those who watch the page are told that pulls have moved on, in milliseconds. */
const MOVING_EVERY_MS = 2000;

/** When an address that cannot be listened on is tried again, in milliseconds. */
const TRY_AGAIN_MS = 10_000;

const NOTHING_SERVED: HttpSide = { sink: () => {}, close: () => Promise.resolve() };

/**
 * Serves what the status says, where `http.listen` says, if it does. Where it cannot listen there, it says so and tries again
 * until it can: the mirror matters more than its page.
 * @param askForPass called when a program elsewhere wants a pass; null where none is made for it
 * @param tryAgainMs how long after a failure to listen it tries again, in milliseconds
 * @throws MirrorError `http.unusable` when the page is not there
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
 * Answers for an instance that stands by: it is healthy, and not ready.
 * @param reason gives a sentence that says what it waits for
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

/** Has a server listen, now or as soon as that can be done. The same failure twice in a row is said once. @returns ends it */
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
