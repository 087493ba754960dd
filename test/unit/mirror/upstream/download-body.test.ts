import { Readable } from 'node:stream';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { type BodyBounds, watchBody } from '../../../../src/mirror/upstream/download.ts';
import { readWhole } from '../../../../src/mirror/upstream/answers.ts';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';

const URL_OF_LIST = new URL('https://service.example/api/repos');

function bounds(fields: Partial<BodyBounds> = {}): BodyBounds {
  return {
    maxBytes: 100,
    stallTimeoutMs: 1000,
    tooLarge: () => new MirrorError('contents.too_large', 'too large'),
    tooSlow: (durationMs) => new MirrorError('service.timeout', `too slow: ${durationMs}`),
    ...fields,
  };
}

/** Takes a body as that of an answer in JSON is taken. */
async function takeWhole(body: Readable, maxAnswerBytes: number): Promise<number> {
  const giveBack = (): void => {};
  const answer = {
    status: 200,
    headers: {},
    url: URL_OF_LIST,
    body,
    giveBack,
    keyPair: 'single',
    cached: null,
  } as const;
  const limits = { maxAnswerBytes, stallTimeoutMs: 1000 };
  return readWhole(answer, limits, (pieces) => Buffer.concat(pieces).length);
}

/** Takes a body as a download does. @returns how many bytes there were */
async function takeWatched(body: Readable, given: BodyBounds): Promise<number> {
  const meter = watchBody(body, given);
  let sizeBytes = 0;
  try {
    for await (const piece of body as AsyncIterable<Buffer>) {
      meter.came(piece.length);
      sizeBytes += piece.length;
    }
    return sizeBytes;
  } finally {
    meter.stop();
  }
}

describe('a body', () => {
  it.each([
    [100, false],
    [101, true],
  ])('of %i bytes where 100 are allowed is too large: %s', async (sizeBytes, isTooLarge) => {
    const body = (): Readable => Readable.from([Buffer.alloc(60), Buffer.alloc(sizeBytes - 60)]);
    const read: unknown = await takeWhole(body(), 100).catch((error: unknown) => error);
    const led: unknown = await takeWatched(body(), bounds()).catch((error: unknown) => error);
    if (!isTooLarge) expect([read, led]).toEqual([sizeBytes, sizeBytes]);
    else
      expect([read, led]).toMatchObject([
        { code: 'service.answer_too_large' },
        { code: 'contents.too_large' },
      ]);
  });

  describe('that comes slowly', () => {
    beforeEach(() => void vi.useFakeTimers());
    afterEach(() => void vi.useRealTimers());

    it('has ten times the longest silence in all, if it is JSON', async () => {
      const body = new Readable({ read: () => {} });
      const read = takeWhole(body, 1e9).catch((error: unknown) => error);
      for (let second = 0; second < 9; second += 1) {
        body.push('.');
        await vi.advanceTimersByTimeAsync(999);
      }
      expect(body.destroyed).toBe(false);
      await vi.advanceTimersByTimeAsync(1100);
      expect(await read).toMatchObject({
        code: 'service.timeout',
        message: expect.stringContaining('not whole after 10s') as string,
      });
    });

    it.each([
      ['as long as it likes, if it moves', 8 * 1024, 0, false],
      ['not as long as it likes, if it hardly moves', 1, 0, true],
      ['slowly, if it is we who hardly take it', 64, 999, false],
      ['not as slowly as it likes, if we take half of the time', 1024, 500, true],
    ])('may be downloaded %s', async (_what, bytesASecond, ownMs, isBrokenOff) => {
      const body = new Readable({ read: () => {} });
      const meter = watchBody(body, bounds({ maxBytes: 1e9 }));
      let error: unknown = null;
      body.on('error', (reason) => {
        error = reason;
      });
      for (let second = 0; second < 60 && !body.destroyed; second += 1) {
        meter.came(bytesASecond);
        const own = meter.excuse(new Promise((resolve) => void setTimeout(resolve, ownMs)));
        await vi.advanceTimersByTimeAsync(ownMs);
        await own;
        await vi.advanceTimersByTimeAsync(1000 - ownMs);
      }
      expect(body.destroyed).toBe(isBrokenOff);
      if (isBrokenOff) expect(error).toMatchObject({ code: 'service.timeout' });
      meter.stop();
      expect(vi.getTimerCount()).toBe(0);
    });

    it('may be waited for as long as it takes to be ready for more', async () => {
      const body = new Readable({ read: () => {} }).on('error', () => {});
      const meter = watchBody(body, bounds({ maxBytes: 1e9 }));
      const own = meter.excuse(new Promise((resolve) => void setTimeout(resolve, 100_000)));
      await vi.advanceTimersByTimeAsync(100_000);
      await own;
      expect(body.destroyed).toBe(false);
      await vi.advanceTimersByTimeAsync(20_000);
      expect(body.destroyed).toBe(true);
      meter.stop();
    });

    it.each([
      ['all but a moment', 5, false],
      ['nine tenths', 1000, false],
      ['less than nine tenths', 1100, true],
    ])('is not judged by a time of which we took %s', async (_what, beforeMs, isBrokenOff) => {
      const body = new Readable({ read: () => {} }).on('error', () => {});
      const meter = watchBody(body, bounds({ maxBytes: 1e9 }));
      await vi.advanceTimersByTimeAsync(beforeMs);
      const own = meter.excuse(new Promise((resolve) => void setTimeout(resolve, 10_000)));
      await vi.advanceTimersByTimeAsync(10_000);
      await own;
      expect(body.destroyed).toBe(isBrokenOff);
      meter.stop();
    });

    it('counts what came in the tries before for its size', () => {
      const meter = watchBody(new Readable({ read: () => {} }), bounds(), 60);
      meter.came(40);
      expect(() => meter.came(1)).toThrow('too large');
      meter.stop();
    });
  });
});
