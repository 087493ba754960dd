import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { startTicker, type Ticker } from '../../../../src/daemon/triggers/ticker.ts';

const START_MS = Date.parse('2026-03-02T08:00:00.000Z');
const EVERY_FIVE = { schedule: '*/5 * * * *', timezone: 'UTC' };

let ticks: string[] = [];
let nextRuns: string[] = [];

function started(times = EVERY_FIVE): Ticker {
  return startTicker(
    times,
    () => ticks.push(new Date().toISOString().slice(11, 19)),
    (nextAtMs) => nextRuns.push(new Date(nextAtMs).toISOString().slice(11, 19)),
  );
}

beforeEach(() => {
  ticks = [];
  nextRuns = [];
  vi.useFakeTimers({ now: START_MS });
});

afterEach(() => {
  vi.useRealTimers();
});

describe('a ticker', () => {
  it('ticks once at each time of its schedule', () => {
    const ticker = started();
    vi.advanceTimersByTime(15 * 60_000);
    ticker.stop();
    expect(ticks).toEqual(['08:05:00', '08:10:00', '08:15:00']);
    expect(nextRuns).toEqual(['08:05:00', '08:10:00', '08:15:00', '08:20:00']);
  });

  it('ticks soon after the time of day was set, forward or back', () => {
    const ticker = started();
    vi.advanceTimersByTime(60_000);
    vi.setSystemTime(START_MS + 3 * 3_600_000 + 60_000);
    vi.advanceTimersByTime(10_000);
    expect(ticks).toEqual(['11:01:10']);
    vi.setSystemTime(START_MS);
    vi.advanceTimersByTime(10_000);
    ticker.stop();
    expect(ticks).toEqual(['11:01:10', '08:00:10']);
    expect(nextRuns.at(-1)).toBe('08:05:00');
  });

  it('stays stopped when settings are taken afterwards, and keeps no process from its end', async () => {
    const ticker = started();
    const { take } = await ticker.prepare({ schedule: '* * * * *', timezone: 'UTC' });
    ticker.stop();
    take();
    expect(vi.getTimerCount()).toBe(0);
    vi.advanceTimersByTime(600_000);
    expect(ticks).toEqual([]);
    expect(nextRuns).toEqual(['08:05:00']);
  });
});
