import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { createBandwidth, fullBucket, pieceBytes, refill } from '../../../../src/mirror/upstream/pace.ts';

const NEVER = new AbortController().signal;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

describe('a bucket', () => {
  it('saves a quarter of a second’s worth, and no more', () => {
    const full = fullBucket(1000, 0);
    expect(full.savedBytes).toBe(250);
    expect(refill(full, 60_000).savedBytes).toBe(250);
    expect(refill({ ...full, savedBytes: 0 }, 100).savedBytes).toBe(100);
    expect(refill({ ...full, savedBytes: 10, atMs: 100 }, 0)).toMatchObject({ savedBytes: 10, atMs: 0 });
  });

  it('gives pieces that it can hold', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e9 }), fc.integer({ min: 1, max: 1e9 }), (rate, wanted) => {
        const piece = pieceBytes(fullBucket(rate, 0), wanted);
        expect(piece).toBeGreaterThan(0);
        expect(piece).toBeLessThanOrEqual(Math.min(wanted, fullBucket(rate, 0).savedBytes));
      }),
    );
  });
});

/** Takes pieces again and again, and counts them. */
function takeOn(take: (sizeBytes: number) => Promise<void>, sizeBytes: number): { bytes: number } {
  const taken = { bytes: 0 };
  const goOn = async (): Promise<void> => {
    for (;;) {
      await take(sizeBytes);
      taken.bytes += sizeBytes;
    }
  };
  void goOn().catch(() => {});
  return taken;
}

describe('a limit', () => {
  it('that is none lets everything through', async () => {
    const { isLimited, take } = createBandwidth(null);
    expect(isLimited).toBe(false);
    await take(1e12, NEVER);
  });

  it('is kept to, but for what was saved up', async () => {
    const abort = new AbortController();
    const { isLimited, take } = createBandwidth(1_000_000);
    expect(isLimited).toBe(true);
    const taken = takeOn((sizeBytes) => take(sizeBytes, abort.signal), 65_536);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(taken.bytes).toBeLessThanOrEqual(10_250_000);
    expect(taken.bytes).toBeGreaterThan(9_900_000);
    abort.abort();
  });

  it('is shared evenly, whatever pieces are taken', async () => {
    const abort = new AbortController();
    const { take } = createBandwidth(1_000_000);
    const sizes = [8192, 65_536, 10_000_000];
    const all = sizes.map((size) => takeOn((sizeBytes) => take(sizeBytes, abort.signal), size));
    await vi.advanceTimersByTimeAsync(90_000);
    for (const { bytes } of all) expect(bytes).toBeGreaterThan(29_000_000);
    abort.abort();
  });

  it('keeps nobody waiting whose piece is small, however great the others’ are', async () => {
    const abort = new AbortController();
    const { take } = createBandwidth(1_000_000);
    const others = Array.from({ length: 5 }, () => take(1e9, abort.signal).catch(() => {}));
    const startedAtMs = performance.now();
    const small = take(1000, NEVER);
    await vi.advanceTimersByTimeAsync(1000);
    await small;
    expect(performance.now() - startedAtMs).toBeLessThanOrEqual(1000);
    abort.abort();
    await Promise.all(others);
  });

  it('is left by those who are gone, and takes nothing for them', async () => {
    const gone = new AbortController();
    const { take } = createBandwidth(1000);
    const left = take(1e9, gone.signal);
    gone.abort(new Error('the pass is over'));
    await expect(left).rejects.toMatchObject({ code: 'pass.abandoned' });
    await expect(take(1, gone.signal)).rejects.toMatchObject({ code: 'pass.abandoned' });
    const other = take(250, NEVER);
    await vi.advanceTimersByTimeAsync(250);
    await other;
  });

  it('may be as small as a byte a second', async () => {
    const { take } = createBandwidth(1);
    const taken = take(3, NEVER);
    await vi.advanceTimersByTimeAsync(3000);
    await taken;
  });
});
