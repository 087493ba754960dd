import { waitAtMost } from '../../lib/concurrency/shared-work.ts';
import { MirrorError } from '../../lib/errors/errors.ts';

/** One call of a database that has no answer for so long, in milliseconds, has failed: a server that hangs must not hang a pass. */
export const CALL_TIMEOUT_MS = 5000;

/** All that is read or written at once, by as many calls as it takes, has so long, in milliseconds. */
const WORK_TIMEOUT_MS = 60_000;

/** A connection that nothing is done with for so long, in milliseconds, is closed: passes are minutes apart. */
export const IDLE_TIMEOUT_MS = 10_000;

/** A store that failed is left alone for so long, so that a pass does not wait for it again and again. */
const PAUSE_MS = 60_000;

/** Runs a call on the store. @throws MirrorError `state.unavailable` */
export type Attempt = <T>(call: () => Promise<T>) => Promise<T>;

/** Hears of the store's failures: once when they begin, and once when a call succeeds again. */
export interface StoreListener {
  readonly onFailed: (error: MirrorError) => void;
  readonly onRecovered: () => void;
}

/** Makes the way to a store that may be gone: every call has its time, and after a failure the next ones fail at once. */
export function createAttempt({ onFailed, onRecovered }: StoreListener): Attempt {
  let failedAtMs = Number.NEGATIVE_INFINITY;
  let failure: MirrorError | null = null;
  return async (call) => {
    if (failure !== null && performance.now() - failedAtMs < PAUSE_MS) throw failure;
    try {
      const result = await inTime(call, WORK_TIMEOUT_MS);
      if (failure !== null) onRecovered();
      failure = null;
      return result;
    } catch (error) {
      if (error instanceof MirrorError) throw error;
      failedAtMs = performance.now();
      const isFirst = failure === null;
      failure = unavailable(error);
      if (isFirst) onFailed(failure);
      throw failure;
    }
  };
}

/** Runs a call that must come to its end in time. @throws what it throws, and an Error when it does not answer */
export async function inTime<T>(call: () => Promise<T>, timeoutMs = CALL_TIMEOUT_MS): Promise<T> {
  const ended = await waitAtMost(
    call().then((result) => ({ result })),
    timeoutMs,
  );
  if (ended === null) throw new Error('it does not answer');
  return ended.result;
}

function unavailable(cause: unknown): MirrorError {
  // Where a name has several addresses and none is reached, only the errors of each say why.
  const error: unknown = cause instanceof AggregateError ? cause.errors[0] : cause;
  const message = error instanceof Error ? error.message : String(error);
  return new MirrorError('state.unavailable', `The state store fails: ${message.replace(/\.$/, '')}.`, {
    cause,
    hint: 'Check the setting state. Nothing is lost meanwhile: what it would remember is found out again.',
  });
}
