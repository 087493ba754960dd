import type { ListenAddress } from '../../config/addresses.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { createSerialQueue } from '../../lib/concurrency/serial-queue.ts';
import { type BackOffPolicy, backOffDelayMs } from '../../lib/time/back-off.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import type { EventSink } from '../../app/events.ts';
import { createMetrics } from '../metrics/metrics.ts';
import { isLoopback } from '../../lib/http/access.ts';
import { type Access, createWebServer, serveRoutes, type WebServer } from './server.ts';
import { standbyRoutes } from './standby-routes.ts';
import type { StatusService } from '../status/status-service.ts';

/** Status page, health and metrics, served. */
export interface HttpSide {
  /** Takes in what happens, after the status has. */
  readonly sink: EventSink;
  /** Tries at once what failed before; nothing else. */
  readonly tryAgain: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** How often those who watch the page are told that pulls have moved on, in milliseconds. */
const MOVING_EVERY_MS = 2000;

/** When an address that cannot be listened on is tried again. */
const TRY_AGAIN: BackOffPolicy = { firstDelayMs: 30_000, maxDelayMs: 5 * 60_000 };

/**
 * Serves what the status says, where `http.listen` says, if it does. Where it cannot listen there, it says so and tries again
 * until it can: the mirror matters more than its page.
 * @param askForPass called when a program elsewhere wants a pass; null where none is made for it
 * @param policy when it tries again
 * @throws MirrorError `http.unusable` when the page is not there
 */
export async function startHttp(
  current: () => SettingsFor<never>,
  status: Pick<StatusService, 'report' | 'liveness' | 'isBusy'>,
  emit: EventSink,
  askForPass: (() => void) | null = null,
  policy = TRY_AGAIN,
): Promise<HttpSide> {
  const { listen } = current().http;
  const nothing = (): Promise<void> => Promise.resolve();
  if (listen === null) return { sink: () => {}, tryAgain: nothing, close: nothing };
  const metrics = createMetrics();
  const server = await createWebServer({
    report: status.report,
    liveness: status.liveness,
    renderMetrics: metrics.render,
    now: () => performance.now(),
    ...accessOf(current, askForPass, emit),
  });
  const listening = await startListening(server, listen, current, emit, policy);
  const moving = setInterval(() => status.isBusy() && server.notify(), MOVING_EVERY_MS);
  moving.unref();
  return {
    sink: (event) => {
      metrics.sink(event);
      server.notify();
    },
    tryAgain: listening.tryNow,
    close: async () => {
      clearInterval(moving);
      await listening.giveUp();
      await server.close();
    },
  };
}

/**
 * Answers for an instance that stands by: it is healthy, and not ready.
 * @param reason gives a sentence that says what it waits for
 */
export async function startStandbyHttp(
  current: () => SettingsFor<never>,
  reason: () => string,
  emit: EventSink,
): Promise<Pick<HttpSide, 'close'>> {
  const { listen } = current().http;
  if (listen === null) return { close: () => Promise.resolve() };
  const server = serveRoutes(accessOf(current, null, emit), () => standbyRoutes(reason));
  const listening = await startListening(server, listen, current, emit, TRY_AGAIN);
  return {
    close: async () => {
      await listening.giveUp();
      await server.close();
    },
  };
}

function accessOf(current: () => SettingsFor<never>, ask: (() => void) | null, emit: EventSink): Access {
  return {
    token: () => current().http.token?.reveal() ?? null,
    allowedHosts: () => current().http.allowedHosts,
    polls: { token: () => current().http.pollToken?.reveal() ?? null, ask },
    emit,
  };
}

/** Listens, now or as soon as that can be done. */
async function startListening(
  server: WebServer,
  place: ListenAddress,
  current: () => SettingsFor<never>,
  emit: EventSink,
  policy: BackOffPolicy,
): Promise<Trying> {
  const listening = untilDone(
    async () => {
      const { address } = await server.listen(place);
      emit({ name: 'http.listening', address });
      if (current().http.token === undefined && !isOwnMachine(place))
        emit({ name: 'http.unprotected', address });
    },
    (error) => emit({ name: 'http.unavailable', ...eventFailure(error) }),
    policy,
  );
  await listening.tryNow();
  return listening;
}

/** Whether nobody but this machine reaches an address. */
function isOwnMachine({ host }: ListenAddress): boolean {
  return isLoopback(host) || host === 'localhost';
}

/** Something that is tried until it is done once. */
interface Trying {
  /** Tries now, unless it is done or given up. Never rejects. */
  readonly tryNow: () => Promise<void>;
  /** Tries no more; resolves when nothing is under way. */
  readonly giveUp: () => Promise<void>;
}

/** Repeats work until it succeeds. @param onFailure receives each failure, but not the same one twice in a row */
function untilDone(
  work: () => Promise<void>,
  onFailure: (error: unknown) => void,
  policy: BackOffPolicy,
): Trying {
  let failures = 0;
  let told = '';
  let isOver = false;
  let timer: NodeJS.Timeout | undefined;
  const attempts = createSerialQueue();
  const attempt = async (): Promise<void> => {
    if (isOver) return;
    clearTimeout(timer);
    try {
      await work();
      isOver = true;
    } catch (error) {
      failures += 1;
      const { message } = eventFailure(error);
      if (message !== told) onFailure(error);
      told = message;
      if (!isOver) timer = setTimeout(() => void tryNow(), backOffDelayMs(policy, failures, Math.random()));
    }
  };
  const tryNow = (): Promise<void> => attempts.run(attempt);
  return {
    tryNow,
    giveUp: async () => {
      isOver = true;
      clearTimeout(timer);
      await attempts.done();
    },
  };
}
