import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { checkSchedule, longestPeriodMs, startSchedule } from '../../src/daemon/schedule.ts';
import { HOUR_MS, MINUTE_MS } from '../support/builders.ts';

function itIs(iso: string): void {
  vi.setSystemTime(new Date(iso));
}

beforeEach(() => {
  vi.useFakeTimers();
  itIs('2025-06-02T10:01:00Z');
});

afterEach(() => {
  vi.useRealTimers();
});

describe('a schedule', () => {
  it.each([
    '*/5 * * * *',
    '0 3 * * *',
    '0 8-17 * * 1-5',
    '15,45 * * * *',
    '*/10 * * * * *',
    '0 0 29 2 *',
    '0 0 * * sun',
    '0 0 1 jan *',
    '0 0 * * 7',
  ])('may be %j', (expression) => {
    expect(checkSchedule(expression)).toBeUndefined();
  });

  it.each([
    '',
    'often',
    '* * * *',
    '* * * * * * *',
    '60 * * * *',
    '* 24 * * *',
    '* * 0 * *',
    '* * 32 * *',
    '* * * 13 *',
    '* * * * 8',
    '*/0 * * * *',
    '*/5',
    '5m',
    '-1 * * * *',
    '* * * * mun',
  ])('may not be %j', (expression) => {
    expect(checkSchedule(expression)).toMatch(/five fields/);
  });

  it.each(['0 0 30 2 *', '0 0 31 4 *', '0 0 31 2,4,6 *'])('that never comes is refused: %j', (expression) => {
    expect(checkSchedule(expression)).toBeDefined();
  });
});

describe('the longest time between two runs', () => {
  it.each([
    ['*/5 * * * *', 5 * MINUTE_MS],
    ['*/10 * * * * *', 10_000],
    ['0 * * * *', HOUR_MS],
    ['0 6,18 * * *', 12 * HOUR_MS],
    ['0 6,20 * * *', 14 * HOUR_MS],
    ['0 3 * * 1', 7 * 24 * HOUR_MS],
    ['0 9 * * 1-5', 72 * HOUR_MS],
  ])('of %j', (expression, periodMs) => {
    expect(longestPeriodMs(expression, 'UTC')).toBe(periodMs);
  });

  it.each([
    ['autumn, when an hour comes twice', '2025-10-20T00:00:00Z', 25],
    ['summer', '2025-06-02T00:00:00Z', 24],
  ])('of a daily run in Berlin in %s', (_when, now, hours) => {
    itIs(now);
    expect(longestPeriodMs('0 12 * * *', 'Europe/Berlin')).toBe(hours * HOUR_MS);
  });

  it('counts the run that is lost with the hour that is left out in spring', () => {
    itIs('2025-03-25T00:00:00Z');
    expect(longestPeriodMs('30 2 * * *', 'Europe/Berlin')).toBe(47 * HOUR_MS);
  });

  it.each([
    ['2025-06-02T09:00:00Z', 'on a Monday morning'],
    ['2025-06-06T17:56:00Z', 'on a Friday evening'],
  ])('of a run every five minutes in office hours spans the weekend, asked at %s (%s)', (now) => {
    itIs(now);
    expect(longestPeriodMs('*/5 8-17 * * 1-5', 'UTC')).toBe((6 + 48 + 8) * HOUR_MS + 5 * MINUTE_MS);
  });
});

describe('a schedule that runs', () => {
  it('knows when the next run is, in its time zone, also where the clocks change', async () => {
    itIs('2025-10-25T12:00:00Z');
    const schedule = await startSchedule('0 12 * * *', 'Europe/Berlin', () => {});
    expect(new Date(schedule.nextRunAtMs() ?? 0).toISOString()).toBe('2025-10-26T11:00:00.000Z');
    await schedule.stop();
  });

  it('ticks at its times, and no more once it was stopped', async () => {
    let ticks = 0;
    const schedule = await startSchedule('*/5 * * * *', 'UTC', () => {
      ticks += 1;
    });
    await vi.advanceTimersByTimeAsync(15 * MINUTE_MS);
    expect(ticks).toBe(3);
    await schedule.stop();
    await vi.advanceTimersByTimeAsync(15 * MINUTE_MS);
    expect(ticks).toBe(3);
  });
});
