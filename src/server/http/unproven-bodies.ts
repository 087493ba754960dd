import type { IncomingMessage } from 'node:http';

import type { Bytes } from './library.ts';
import { readBody } from './request-body.ts';
import { RequestError } from './request-error.ts';
import { bodyOf } from './request-stream.ts';

/** Reads bodies of which it is not known yet whether their senders may ask at all, in bounded memory. */
export interface UnprovenBodies {
  /**
   * Reads the whole of a body, and has it proved.
   * @param prove throws for one whose sender may not ask; it is to give up when the signal says so
   * @throws RequestError 400 for one that breaks off, 408 for one that takes too long, 413 for more than the limit, 503 for one that had to make room for others; what `prove` throws
   */
  readonly read: (
    body: IncomingMessage,
    limitBytes: number,
    prove: (bytes: Buffer, signal: AbortSignal) => Promise<void>,
  ) => Promise<Buffer>;
}

/** How much is read at once, and for how long. */
export interface UnprovenLimits {
  readonly bodiesAtOnce: number;
  /** In milliseconds. */
  readonly timeMs: number;
}

function cut(status: number, code: string, message: string): RequestError {
  return new RequestError(status, code, message, { connection: 'close' });
}

/**
 * Makes a reader of such bodies. The one that takes longest makes room for a new one: whoever sends bodies by halves keeps
 * nobody out who sends a whole one.
 */
export function createUnprovenBodies({ bodiesAtOnce, timeMs }: UnprovenLimits): UnprovenBodies {
  // In the order in which they began.
  const readings = new Set<AbortController>();

  function makeRoom(): void {
    for (const oldest of readings) {
      if (readings.size < bodiesAtOnce) return;
      readings.delete(oldest);
      oldest.abort(cut(503, 'busy', 'too many signed requests came at once: send this one again'));
    }
  }

  return {
    async read(body, limitBytes, prove) {
      makeRoom();
      const reading = new AbortController();
      readings.add(reading);
      const late = cut(
        408,
        'timeout',
        `the body of this request must be here within ${timeMs / 1000} seconds`,
      );
      const timer = setTimeout(() => reading.abort(late), timeMs);
      try {
        const bytes = await readBody(unlessAborted(body, reading.signal), limitBytes);
        // Here, so that what is held in memory meanwhile is counted.
        await prove(bytes, reading.signal);
        return bytes;
      } finally {
        clearTimeout(timer);
        readings.delete(reading);
      }
    },
  };
}

/** Gives the bytes of a body, until the signal says otherwise. The body stays open, so that it can be answered. */
async function* unlessAborted(body: IncomingMessage, signal: AbortSignal): Bytes {
  const chunks = bodyOf(body)[Symbol.asyncIterator]();
  for (;;) {
    const chunk = await nextUnlessAborted(chunks, signal);
    if (chunk.done === true) return;
    yield chunk.value;
  }
}

/** Listens for one chunk only: what is left behind for each of them would be as much as an attacker likes. */
function nextUnlessAborted(
  chunks: AsyncIterator<Uint8Array>,
  signal: AbortSignal,
): Promise<IteratorResult<Uint8Array>> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    const heard = (): void => signal.removeEventListener('abort', onAbort);
    void chunks.next().then(resolve, reject).finally(heard);
  });
}
