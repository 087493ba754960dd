import type { Bytes } from '../http/library.ts';
import { RequestError } from '../http/request-error.ts';

/**
 * Gives bytes that a program of its own makes, when there is a place for it.
 * @param open starts the program; called when it has a place, which is free again when its bytes have ended or are given up
 * @throws RequestError 503 when as many wait as may, before the first bytes
 */
export type Readers = (signal: AbortSignal, open: () => Bytes) => Bytes;

/** Each takes some megabytes, and keeps them for as long as its reader takes. */
const AT_ONCE = 64;
const WAITING_AT_MOST = 256;

/** Makes a limit on how many read at once; the others wait in the order they came. */
export function createReaders(places = AT_ONCE, waitingAtMost = WAITING_AT_MOST): Readers {
  let free = places;
  const waiting = new Set<() => void>();

  async function enter(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (free > 0) {
      free -= 1;
      return;
    }
    if (waiting.size >= waitingAtMost) {
      // Without Retry-After: clients take that for the service as a whole (RFC 9110, section 15.6.4).
      throw new RequestError(503, 'busy', 'too many are reading at the moment: try again soon');
    }
    await new Promise<void>((resolve, reject) => {
      waiting.add(resolve);
      const giveUp = (): void => {
        // The place may be given already; then it is left as any other.
        if (waiting.delete(resolve)) reject(new Error('the client is gone', { cause: signal.reason }));
      };
      signal.addEventListener('abort', giveUp, { once: true });
    });
  }

  function leave(): void {
    const [next] = waiting;
    if (next === undefined) {
      free += 1;
      return;
    }
    // The place is handed over, so `free` is not touched here.
    waiting.delete(next);
    next();
  }

  return async function* read(signal, open) {
    await enter(signal);
    try {
      yield* open();
    } finally {
      leave();
    }
  };
}
