import { describe, expect, it, vi } from 'vitest';

import { type Amount, describeAmount, Gauge, leftMs } from '../../../../src/lib/time/gauge.ts';

function gauge(totalBytes: number | null = null, isEstimate = false) {
  let nowMs = 1000;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  return {
    of: new Gauge(totalBytes, isEstimate),
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}

describe('a gauge', () => {
  it('has no speed at first', () => {
    const { of, pass } = gauge(100);
    of.add(10);
    pass(100);
    expect(of.amount()).toEqual({ doneBytes: 10, totalBytes: 100, isEstimate: false, bytesPerSecond: null });
  });

  it('shows the speed of the last seconds, not of the whole time', () => {
    const { of, pass } = gauge();
    for (let second = 0; second < 20; second += 1) {
      pass(1000);
      of.add(1000);
    }
    expect(of.amount().bytesPerSecond).toBeCloseTo(1000);
    for (let second = 0; second < 5; second += 1) {
      pass(1000);
      of.add(50_000);
    }
    expect(of.amount().bytesPerSecond).toBeCloseTo(50_000);
  });

  it('slows down while nothing arrives', () => {
    const { of, pass } = gauge();
    pass(1000);
    of.add(1000);
    pass(9000);
    expect(of.amount().bytesPerSecond).toBe(100);
    pass(90_000);
    expect(of.amount().bytesPerSecond).toBe(10);
  });

  it('counts nothing twice that starts again', () => {
    const { of, pass } = gauge();
    pass(3000);
    of.reach(900_000);
    pass(1000);
    of.reach(1000);
    expect(of.amount()).toMatchObject({ doneBytes: 1000, bytesPerSecond: null });
    pass(1000);
    of.reach(3000);
    expect(of.amount().bytesPerSecond).toBe(2000);
  });

  it('prefers a known size to that of the last time', () => {
    const { of } = gauge(500, true);
    expect(of.amount()).toMatchObject({ totalBytes: 500, isEstimate: true });
    of.reach(10, null);
    expect(of.amount()).toMatchObject({ totalBytes: 500, isEstimate: true });
    of.reach(20, 700);
    expect(of.amount()).toMatchObject({ totalBytes: 700, isEstimate: false });
  });
});

describe('an amount in words', () => {
  const AMOUNT: Amount = { doneBytes: 512e6, totalBytes: 2e9, isEstimate: false, bytesPerSecond: 41e6 };

  it.each<[Partial<Amount>, string]>([
    [{}, '512 MB of 2.0 GB, 41.0 MB/s, 36 s left'],
    [{ isEstimate: true }, '512 MB of about 2.0 GB, 41.0 MB/s, 36 s left'],
    [{ totalBytes: null }, '512 MB, 41.0 MB/s'],
    [{ bytesPerSecond: null }, '512 MB of 2.0 GB'],
    [{ bytesPerSecond: 0 }, '512 MB of 2.0 GB, 0 B/s'],
    // The last archive was smaller than this one.
    [{ isEstimate: true, totalBytes: 400e6 }, '512 MB, 41.0 MB/s'],
  ])('%j is %s', (fields, text) => {
    expect(describeAmount({ ...AMOUNT, ...fields })).toBe(text);
  });

  it('has no estimated end if nothing moves', () => {
    expect(leftMs({ ...AMOUNT, bytesPerSecond: 0 })).toBeNull();
    expect(leftMs({ ...AMOUNT, doneBytes: 3e9 })).toBe(0);
  });
});
