import { describe, expect, it } from 'vitest';

import {
  Bandwidth,
  type Continuation,
  extendPause,
  pauseLeftMs,
  type PauseMemory,
  Tries,
  waitOut,
  withinLimitAtMs,
} from '../../../../src/mirror/upstream/pace.ts';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { HOUR_MS, NOW_MS } from '../../../support/builders.ts';

const URL_OF_LIST = new URL('https://service.example/api/repos');

describe('the tries of a request', () => {
  const POLICY = { retries: 2, maxRetryDelayMs: 4000 };
  const broken = new MirrorError('contents.interrupted', 'It broke off.');

  function continuation(): Continuation & { at: number } {
    return {
      at: 0,
      headers: () => ({}),
      resumesAtBytes() {
        return this.at;
      },
    };
  }

  it('end after so many failures', () => {
    const tries = new Tries(POLICY);
    expect([tries.next(broken, 0), tries.next(broken, 0), tries.next(broken, 0)]).toStrictEqual([
      { delayMs: 250, fromBytes: 0 },
      { delayMs: 500, fromBytes: 0 },
      null,
    ]);
  });

  it('do not end as long as each gets further', () => {
    const download = continuation();
    const tries = new Tries(POLICY, download);
    for (let times = 1; times <= 100; times += 1) {
      download.at = times * 65_536;
      expect(tries.next(broken, 0)).toStrictEqual({ delayMs: 250, fromBytes: download.at });
    }
    download.at += 65_535;
    expect(tries.next(broken, 0)).toMatchObject({ delayMs: 250 });
    expect(tries.next(broken, 0)).toMatchObject({ delayMs: 500 });
    expect(tries.next(broken, 0)).toBeNull();
  });

  it('end where each begins anew, however far it gets', () => {
    const download = continuation();
    const tries = new Tries({ ...POLICY, retries: 4 }, download);
    const found = Array.from({ length: 5 }, (_, index) => {
      download.at = index % 2 === 0 ? 200_000 : 0;
      return tries.next(broken, 0) !== null;
    });
    expect(found).toEqual([true, true, true, true, true]);
    expect(tries.next(broken, 0)).toBeNull();
  });

  it.each([
    ['none are wanted', { ...POLICY, retries: 0 }, broken],
    [
      'the service wants to be left alone for long',
      POLICY,
      new MirrorError('service.busy', '', { retryAfterMs: 4001 }),
    ],
    ['the error stays', POLICY, new MirrorError('contents.too_large', '')],
    ['the error is a defect', POLICY, new Error('defect')],
  ])('are one when %s', (_when, policy, error) => {
    const download = continuation();
    download.at = 65_536;
    expect(new Tries(policy, download).next(error, 0)).toBeNull();
  });

  it('wait as long as the service wants', () => {
    const busy = new MirrorError('service.busy', '', { retryAfterMs: 3000 });
    expect(new Tries(POLICY).next(busy, 0)).toStrictEqual({ delayMs: 3000, fromBytes: 0 });
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

describe('a limit of the bandwidth', () => {
  it('is kept to, but for what was saved up', () => {
    let [freeAtMs, nowMs, takenBytes] = [0, 1_000_000, 0];
    for (const pieceBytes of [65_536, 8192, 20_000, 1]) {
      const endMs = nowMs + 10_000;
      for (const startBytes = takenBytes; ; takenBytes += pieceBytes) {
        freeAtMs = withinLimitAtMs(freeAtMs, 1_000_000, pieceBytes, nowMs);
        nowMs = Math.max(nowMs, freeAtMs);
        if (nowMs < endMs) continue;
        expect(takenBytes - startBytes).toBeLessThanOrEqual(10_250_000);
        expect(takenBytes - startBytes).toBeGreaterThan(9_900_000);
        break;
      }
      nowMs += 60_000;
    }
  });

  it('is left by those who are gone', async () => {
    const gone = new AbortController();
    const bandwidth = new Bandwidth(1);
    const left = bandwidth.take(1e6, gone.signal);
    gone.abort(new Error('the pass is over'));
    await expect(left).rejects.toMatchObject({ code: 'pass.abandoned' });
    await expect(bandwidth.take(1, gone.signal)).rejects.toMatchObject({ code: 'pass.abandoned' });
  });
});
