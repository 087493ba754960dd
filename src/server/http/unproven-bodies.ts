import type { IncomingMessage } from 'node:http';

import { unlessAborted } from '../../lib/concurrency/concurrency.ts';
import { bodyOf, readBody } from '../../lib/http/request-body.ts';
import { RequestError } from '../../lib/http/request-error.ts';
import type { Bytes } from './library.ts';

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
 * Makes a reader of such bodies. The oldest one makes room for a new one, so that half-sent bodies keep no whole one
 * out.
 */
export function createUnprovenBodies({ bodiesAtOnce, timeMs }: UnprovenLimits): UnprovenBodies {
  // In the order in which they began.
  const limits = new Set<AbortController>();

  function makeRoom(): void {
    for (const oldest of limits) {
      if (limits.size < bodiesAtOnce) return;
      limits.delete(oldest);
      oldest.abort(cut(503, 'busy', 'too many signed requests came at once: send this one again'));
    }
  }

  return {
    async read(body, limitBytes, prove) {
      makeRoom();
      const limit = new AbortController();
      limits.add(limit);
      const late = cut(
        408,
        'timeout',
        `the body of this request must be here within ${timeMs / 1000} seconds`,
      );
      const timer = setTimeout(() => limit.abort(late), timeMs);
      try {
        const bytes = await readBody(bytesUnlessAborted(body, limit.signal), limitBytes);
        // Here, so that what is held in memory meanwhile is counted.
        await prove(bytes, limit.signal);
        return bytes;
      } finally {
        clearTimeout(timer);
        limits.delete(limit);
      }
    },
  };
}

/** Gives the bytes of a body, until the signal says otherwise. The body stays open, so that it can be answered. */
async function* bytesUnlessAborted(body: IncomingMessage, signal: AbortSignal): Bytes {
  const chunks = bodyOf(body)[Symbol.asyncIterator]();
  for (;;) {
    const chunk = await unlessAborted(chunks.next(), signal);
    if (chunk.done === true) return;
    yield chunk.value;
  }
}
