import { beforeEach, describe, expect, it, vi } from 'vitest';

import { startTicker, type Ticker } from '../../../../src/daemon/triggers/ticker.ts';
import { HOUR_MS } from '../../../support/builders.ts';

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

  it('ticks at new times once they are set, and no longer at the old ones', () => {
    const ticker = started();
    ticker.take({ schedule: '*/10 * * * *', timezone: 'UTC' });
    vi.advanceTimersByTime(15 * 60_000);
    ticker.stop();
    expect(ticks).toEqual(['08:10:00']);
  });

  it('stays stopped when settings change later, and does not keep the process running', () => {
    const ticker = started();
    ticker.stop();
    ticker.take({ schedule: '* * * * *', timezone: 'UTC' });
    expect(vi.getTimerCount()).toBe(0);
    vi.advanceTimersByTime(600_000);
    expect(ticks).toEqual([]);
    expect(nextRuns).toEqual(['08:05:00']);
  });
});

/** The times at which a schedule ticks within some hours. */
function ticksWithin(schedule: string, timezone: string, from: string, hours: number): string[] {
  vi.setSystemTime(new Date(from));
  const found: string[] = [];
  const ticker = startTicker(
    { schedule, timezone },
    () => found.push(new Date().toISOString()),
    () => {},
  );
  vi.advanceTimersByTime(hours * HOUR_MS);
  ticker.stop();
  return found.map((tick) => tick.slice(0, 19));
}

/** In Berlin the clocks go from 2 to 3 at 01:00 UTC, and back from 3 to 2 at 01:00 UTC; in New York at 07:00 and 06:00 UTC. */
describe('when the clocks change', () => {
  it.each([
    ['not at all on the day that skips its hour', 'Europe/Berlin', 2, '2026-03-28T22:00', 36, '30T00:30'],
    ['once on the day that has its hour twice', 'America/New_York', 1, '2026-11-01T04:00', 20, '01T05:30'],
  ])('a daily schedule occurs %s: %s', (_when, zone, hour, from, hours, time) => {
    for (const expression of [`30 ${hour} * * *`, `0 30 ${hour} * * *`]) {
      const ticks = ticksWithin(expression, zone, `${from}:00Z`, hours);
      expect(ticks.map((tick) => tick.slice(8, 16))).toEqual([time]);
    }
  });

  it.each([
    ['* in spring', 'Europe/Berlin', '03-28T23:59', '00:00 00:30 01:00 01:30 02:00'],
    ['* in autumn', 'America/New_York', '11-01T04:59', '05:00 05:30 06:00 06:30 07:00'],
    ['0-8 in autumn, which skips one of two', 'Europe/Berlin', '10-24T23:29', '23:30 01:00 01:30'],
    ['* in autumn, without a change', 'UTC', '10-25T00:29', '00:30 01:00 01:30 02:00 02:30'],
  ])('a schedule runs at the hours %s: %s', (hours, zone, from, times) => {
    const ticks = ticksWithin(`*/30 ${hours.split(' ')[0]} * * *`, zone, `2026-${from}:59Z`, 2.1);
    expect(ticks.map((tick) => tick.slice(11, 16)).join(' ')).toBe(times);
  });

  it.each([
    ['Asia/Kolkata', '30'],
    ['Australia/Adelaide', '30'],
    ['Asia/Kathmandu', '15'],
    ['Europe/Berlin', '00'],
  ])('in %s, the full hour is local', (zone, minute) => {
    const ticks = ticksWithin('0 * * * *', zone, '2026-06-01T00:01:00Z', 1);
    expect(ticks.map((tick) => tick.slice(14, 16))).toEqual([minute]);
  });
});
