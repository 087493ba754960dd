import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { longestPeriodMs, startSchedule } from '../../../src/app/schedule.ts';
import { HOUR_MS, MINUTE_MS } from '../../support/builders.ts';

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

/** The times at which a schedule ticks within some hours. */
async function ticksWithin(
  expression: string,
  timezone: string,
  from: string,
  hours: number,
): Promise<string[]> {
  itIs(from);
  const ticks: string[] = [];
  const schedule = await startSchedule(expression, timezone, () => ticks.push(new Date().toISOString()));
  await vi.advanceTimersByTimeAsync(hours * HOUR_MS);
  await schedule.stop();
  return ticks.map((tick) => tick.slice(0, 19));
}

/** In Berlin the clocks go from 2 to 3 at 01:00 UTC, and back from 3 to 2 at 01:00 UTC; in New York at 07:00 and 06:00 UTC. */
describe('where the clocks change', () => {
  it.each([
    ['Europe/Berlin', '30 2 * * *', '2026-03-28T22:00:00Z', '2026-03-30T00:30:00'],
    ['Europe/Berlin', '0 30 2 * * *', '2026-03-28T22:00:00Z', '2026-03-30T00:30:00'],
    ['America/New_York', '30 2 * * *', '2026-03-08T04:00:00Z', '2026-03-09T06:30:00'],
    ['America/New_York', '0 30 2 * * *', '2026-03-08T04:00:00Z', '2026-03-09T06:30:00'],
  ])('in %s, %j does not come on the day that leaves its hour out', async (zone, expression, from, next) => {
    expect(await ticksWithin(expression, zone, from, 36)).toEqual([next]);
  });

  it.each([
    ['Europe/Berlin', '2026-03-29T00:00:00Z', ['00:00', '00:30', '01:00', '01:30', '02:00']],
    ['America/New_York', '2026-03-08T06:00:00Z', ['06:00', '06:30', '07:00', '07:30', '08:00']],
  ])('in %s, every half hour goes on evenly in spring', async (zone, from, times) => {
    const before = new Date(Date.parse(from) - 1000).toISOString();
    const ticks = await ticksWithin('*/30 * * * *', zone, before, 2.1);
    expect(ticks.map((tick) => tick.slice(11, 16))).toEqual(times);
  });

  it.each([
    ['Europe/Berlin', '30 2 * * *', '2026-10-24T22:00:00Z', '2026-10-25T01:30:00'],
    ['Europe/Berlin', '0 30 2 * * *', '2026-10-24T22:00:00Z', '2026-10-25T01:30:00'],
    ['America/New_York', '30 1 * * *', '2026-11-01T04:00:00Z', '2026-11-01T05:30:00'],
    ['America/New_York', '0 30 1 * * *', '2026-11-01T04:00:00Z', '2026-11-01T05:30:00'],
  ])('in %s, %j comes once on the day that has its hour twice', async (zone, expression, from, once) => {
    expect(await ticksWithin(expression, zone, from, 20)).toEqual([once]);
  });

  it.each([
    ['Europe/Berlin', '2026-10-24T23:29:59Z', ['23:30', '00:00', '00:30', '01:00', '01:30', '02:00']],
    ['America/New_York', '2026-11-01T04:59:59Z', ['05:00', '05:30', '06:00', '06:30', '07:00']],
  ])('in %s, what names no hour goes on evenly in autumn', async (zone, from, times) => {
    const ticks = await ticksWithin('*/30 * * * *', zone, from, zone === 'Europe/Berlin' ? 2.6 : 2.1);
    expect(ticks.map((tick) => tick.slice(11, 16))).toEqual(times);
  });

  it.each([
    ['Europe/Berlin', '2026-10-24T23:29:59Z', ['23:30', '01:00', '01:30', '02:00']],
    ['America/New_York', '2026-11-01T04:59:59Z', ['05:00', '05:30', '07:00']],
  ])('in %s, what names hours or days leaves out one of the two of autumn', async (zone, from, times) => {
    const ticks = await ticksWithin('*/30 0-8 * * *', zone, from, zone === 'Europe/Berlin' ? 2.6 : 2.1);
    expect(ticks.map((tick) => tick.slice(11, 16))).toEqual(times);
  });

  it.each([
    ['Europe/Berlin', '2026-10-20T00:00:00Z'],
    ['America/New_York', '2026-10-28T00:00:00Z'],
  ])('in %s, the longest time between two runs counts the hour without', (zone, now) => {
    itIs(now);
    expect(longestPeriodMs('*/5 * * * *', zone)).toBe(5 * MINUTE_MS);
    expect(longestPeriodMs('0 */5 * * * *', zone)).toBe(5 * MINUTE_MS);
    expect(longestPeriodMs('*/5 0-23 * * *', zone)).toBe(65 * MINUTE_MS);
    expect(longestPeriodMs('0 0 12 * * *', zone)).toBe(25 * HOUR_MS);
  });

  it.each([
    ['Asia/Kolkata', '30'],
    ['Australia/Adelaide', '30'],
    ['Asia/Kathmandu', '15'],
    ['Europe/Berlin', '00'],
  ])('in %s, the full hour is that of the zone', async (zone, minute) => {
    const ticks = await ticksWithin('0 * * * *', zone, '2026-06-01T00:01:00Z', 1);
    expect(ticks.map((tick) => tick.slice(14, 16))).toEqual([minute]);
  });

  it.each([
    ['Europe/Berlin', '2026-03-26T00:00:00Z'],
    ['America/New_York', '2026-03-06T00:00:00Z'],
  ])('in %s, the longest time between two runs counts the day without in spring', (zone, now) => {
    itIs(now);
    expect(longestPeriodMs('0 30 2 * * *', zone)).toBe(47 * HOUR_MS);
    expect(longestPeriodMs('*/5 * * * *', zone)).toBe(5 * MINUTE_MS);
  });

  it('in UTC nothing of this happens', async () => {
    expect(await ticksWithin('30 * * * *', 'UTC', '2026-10-25T00:00:00Z', 3)).toEqual([
      '2026-10-25T00:30:00',
      '2026-10-25T01:30:00',
      '2026-10-25T02:30:00',
    ]);
  });
});
