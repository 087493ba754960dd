import { Readable } from 'node:stream';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { type BodyBounds, watchBody } from '../../../../src/mirror/upstream/body.ts';
import { readWhole } from '../../../../src/mirror/upstream/json.ts';
import {
  extendPause,
  pauseLeftMs,
  type PauseMemory,
  waitOut,
} from '../../../../src/mirror/upstream/retries.ts';
import { clockProblem, readRows, serviceTimeMs } from '../../../../src/mirror/upstream/repositories.ts';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { HOUR_MS, MINUTE_MS, NOW_MS } from '../../../support/builders.ts';

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
  const answer = { status: 200, headers: {}, url: URL_OF_LIST, body, keyPlace: 'first' } as const;
  const pieces = await readWhole(answer, { maxAnswerBytes, stallTimeoutMs: 1000 });
  return Buffer.concat(pieces).length;
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
        message: expect.stringContaining('not whole after 10 s') as string,
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

describe('a pause', () => {
  it.each([
    ['that is over', NOW_MS - 1, 0],
    ['that is on', NOW_MS + 5000, 5000],
    ['of the whole day that is the most', NOW_MS + 24 * HOUR_MS, 24 * HOUR_MS],
    ['reckoned by a clock that was ahead', NOW_MS + 24 * HOUR_MS + 1, 0],
    ['that was never asked for', null, 0],
    ['of which nothing is known', undefined, 0],
  ])('%s', (_what, pausedUntilMs, leftMs) => {
    const memory: PauseMemory = pausedUntilMs === undefined ? {} : { pausedUntilMs };
    expect(pauseLeftMs(memory, NOW_MS)).toBe(leftMs);
  });

  it('grows and never shrinks', () => {
    const memory: PauseMemory = {};
    expect(extendPause(memory, 0, NOW_MS)).toBe(false);
    expect(extendPause(memory, 5000, NOW_MS)).toBe(true);
    expect(extendPause(memory, 3000, NOW_MS + 1000)).toBe(false);
    expect(memory.pausedUntilMs).toBe(NOW_MS + 5000);
  });

  it('reckoned by a clock that was ahead gives way to a real one', () => {
    const memory: PauseMemory = { pausedUntilMs: NOW_MS + 1000 * HOUR_MS };
    expect(extendPause(memory, 5000, NOW_MS)).toBe(true);
    expect(memory.pausedUntilMs).toBe(NOW_MS + 5000);
  });

  it('that grows while it is waited for is waited for to its new end', async () => {
    const memory: PauseMemory = { pausedUntilMs: Date.now() + 20 };
    const startMs = Date.now();
    setTimeout(() => extendPause(memory, 60, Date.now()), 10);
    await waitOut(memory, 1000, URL_OF_LIST, new AbortController().signal);
    expect(Date.now() - startMs).toBeGreaterThanOrEqual(65);
  });

  it('that is too long is not waited for, and is said to last until when', async () => {
    const untilMs = Date.now() + 60_000;
    const waited = waitOut({ pausedUntilMs: untilMs }, 59_000, URL_OF_LIST, new AbortController().signal);
    const error: unknown = await waited.catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'service.busy' });
    expect((error as MirrorError).message).toContain(new Date(untilMs).toISOString().slice(0, 16));
    expect((error as MirrorError).retryAfterMs).toBeGreaterThan(59_000);
  });

  it('is left when the pass is abandoned', async () => {
    const abort = new AbortController();
    const waited = waitOut({ pausedUntilMs: Date.now() + 60_000 }, 90_000, URL_OF_LIST, abort.signal);
    abort.abort();
    await expect(waited).rejects.toMatchObject({ code: 'pass.abandoned' });
  });
});

describe('the service’s clock', () => {
  it.each([
    ['Sun, 06 Nov 1994 08:49:37 GMT', 784_111_777_000],
    ['Sunday, 06-Nov-94 08:49:37 GMT', 784_111_777_000],
    ['Sun Nov  6 08:49:37 1994', 784_111_777_000],
    ['1994-11-06T08:49:37Z', null],
    ['Sun, 99 Nov 1994 08:49:37 GMT', null],
    ['now', null],
    ['', null],
    ['5', null],
    [undefined, null],
  ])('given as %j', (header, expected) => {
    expect(serviceTimeMs(header)).toBe(expected);
  });

  it.each([
    [0, null],
    [10 * MINUTE_MS, null],
    [-10 * MINUTE_MS, null],
    [11 * MINUTE_MS, "the service's clock is about 10 minutes ahead of this machine's"],
    [-61 * MINUTE_MS, "the service's clock is about 60 minutes behind this machine's"],
    [-3 * HOUR_MS, "the service's clock is about 3 hours behind this machine's"],
    [366 * 24 * HOUR_MS, "the service's clock is about 366 days ahead of this machine's"],
  ])('that differs by %i ms', (differenceMs, problem) => {
    expect(clockProblem(NOW_MS + differenceMs, NOW_MS)).toBe(problem);
    for (const jitterMs of [-900, 900]) {
      if (problem !== null) expect(clockProblem(NOW_MS + differenceMs + jitterMs, NOW_MS)).toBe(problem);
    }
  });
});

describe('rows of the list of repositories', () => {
  const good = { id: '1', name: 'a', full_name: 'a', url: null, created_at: null };
  const other = { ...good, id: '2', name: 'b', full_name: 'b' };

  it.each<[string, unknown]>([
    ['null', null],
    ['a number', 7],
    ['a text', 'a'],
    ['a list', [good]],
    ['nothing in it', {}],
    ['a number for an id', { ...other, id: 3 }],
    ['null for a name', { ...other, full_name: null }],
    ['no name', { ...other, name: undefined }],
    ['an empty name', { ...other, full_name: '' }],
    ['a list for an address', { ...other, url: [] }],
    ['an id of two lines', { ...other, id: '2\nmain' }],
    ['a huge id', { ...other, id: 'x'.repeat(5000) }],
    ['a huge name', { ...other, full_name: 'x/'.repeat(5000) }],
  ])('with %s: that one is malformed, and no other', (_what, bad) => {
    const read = readRows([good, bad, { ...other, id: '9' }]);
    expect(read.repositories.map(({ id }) => id)).toStrictEqual(['1', '9']);
    expect(read.isComplete).toBe(false);
    expect(read.problems).toStrictEqual(['1 rows of the list of repositories are malformed']);
  });

  it.each<[string, Record<string, unknown>]>([
    ['prototype names', { id: '__proto__', name: 'constructor', full_name: '__proto__' }],
    ['control characters in names', { id: '2', name: 'b\u0000\u001b[2J', full_name: 'b\u0000\u001b[2J' }],
    ['paths that lead up', { id: '..', name: '..', full_name: '../../etc' }],
    ['half a character', { id: '2', name: '\ud800', full_name: '\ud800' }],
    ['a malformed time', { ...other, created_at: 'yesterday' }],
  ])('with %s are rows like others', (_what, row) => {
    const read = readRows([good, row]);
    expect(read).toMatchObject({ isComplete: true, problems: [] });
    expect(read.repositories).toHaveLength(2);
  });

  it('that occur twice count once', () => {
    expect(readRows([good, other, { ...good }])).toMatchObject({
      repositories: [{ id: '1' }, { id: '2' }],
      isComplete: true,
      problems: [],
    });
  });

  it('that give one id two names count not at all, and prove nothing', () => {
    const rows = [good, other, { ...good, full_name: 'elsewhere' }];
    const read = readRows(rows);
    expect(read.repositories.map(({ id }) => id)).toStrictEqual(['2']);
    expect(read.isComplete).toBe(false);
    expect(read.problems).toHaveLength(1);
    expect(readRows(rows.toReversed())).toStrictEqual(read);
  });

  it('that give one id two addresses count the same in whatever order they come', () => {
    const rows = [good, { ...good, url: 'https://a' }, { ...good, url: 'https://b' }];
    expect(readRows(rows)).toStrictEqual(readRows(rows.toReversed()));
  });
});
