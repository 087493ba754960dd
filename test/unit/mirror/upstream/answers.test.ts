import { Readable } from 'node:stream';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { type BodyBounds, readBody } from '../../../../src/mirror/upstream/answers.ts';

const BOUNDS: BodyBounds = {
  maxBytes: 1e9,
  leastBytes: 64 * 1024,
  tooLarge: () => new MirrorError('contents.too_large', 'too large'),
  tooSlow: (durationMs) => new MirrorError('service.timeout', `too slow: ${durationMs}`),
};

describe('a body', () => {
  it.each([
    [100, 0, false],
    [101, 0, true],
    [70, 30, false],
    [70, 31, true],
  ])('of %i bytes after %i with a limit of 100 is too large: %s', async (sizeBytes, before, isTooLarge) => {
    const body = Readable.from([Buffer.alloc(60), Buffer.alloc(sizeBytes - 60)]);
    const read = takeAll(body, { ...BOUNDS, maxBytes: 100 }, 0, before);
    if (isTooLarge) await expect(read).rejects.toMatchObject({ code: 'contents.too_large' });
    else expect(await read).toBe(sizeBytes);
  });

  describe('that arrives slowly', () => {
    beforeEach(() => void vi.useFakeTimers());
    afterEach(() => {
      expect(vi.getTimerCount()).toBe(0);
    });

    it.each([
      ['only within its time, if all of it must arrive', 64 * 1024, 0, Number.POSITIVE_INFINITY, true],
      ['for any time, if it makes progress', 8 * 1024, 0, 64 * 1024, false],
      ['for a limited time, if it hardly makes progress', 1, 0, 64 * 1024, true],
      ['slowly, if its reader is slow', 1, 999, 64 * 1024, false],
    ])('may be read %s', async (_what, bytesASecond, ownMs, leastBytes, isBrokenOff) => {
      const body = new Readable({ read: () => {} });
      const read = takeAll(body, { ...BOUNDS, leastBytes }, ownMs).catch((error: unknown) => error);
      for (let second = 0; second < 60 && !body.destroyed; second += 1) {
        await vi.advanceTimersByTimeAsync(1000 - ownMs);
        body.push(Buffer.alloc(bytesASecond));
        await vi.advanceTimersByTimeAsync(ownMs);
      }
      expect(body.destroyed).toBe(isBrokenOff);
      body.push(null);
      await vi.advanceTimersByTimeAsync(1000);
      if (isBrokenOff) expect(await read).toMatchObject({ message: 'too slow: 10000' });
      else expect(await read).toBe(60 * bytesASecond);
    });
  });
});

/** Reads a whole body. @param ownMs the reader's time for each piece @returns the number of bytes */
async function takeAll(body: Readable, bounds: BodyBounds, ownMs = 0, beforeBytes = 0): Promise<number> {
  let sizeBytes = 0;
  for await (const piece of readBody({ body, patience: { timeoutMs: 1000 } }, bounds, beforeBytes)) {
    sizeBytes += piece.length;
    if (ownMs > 0) await new Promise((resolve) => void setTimeout(resolve, ownMs));
  }
  return sizeBytes;
}
