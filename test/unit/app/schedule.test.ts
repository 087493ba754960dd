import { beforeEach, describe, expect, it, vi } from 'vitest';

import { longestPeriodMs, nextRunsMs } from '../../../src/app/schedule.ts';
import { HOUR_MS, MINUTE_MS } from '../../support/builders.ts';

function itIs(iso: string): void {
  vi.setSystemTime(new Date(iso));
}

beforeEach(() => {
  vi.useFakeTimers();
  itIs('2025-06-02T10:01:00Z');
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
    ['2025-06-02T09:00:00Z', 'on a Monday morning'],
    ['2025-06-06T17:56:00Z', 'on a Friday evening'],
  ])('of a run every five minutes in office hours spans the weekend, from %s on (%s)', (now) => {
    itIs(now);
    expect(longestPeriodMs('*/5 8-17 * * 1-5', 'UTC')).toBe((6 + 48 + 8) * HOUR_MS + 5 * MINUTE_MS);
  });
});

it('the next run follows the time zone, even when the clocks change', () => {
  itIs('2025-10-25T12:00:00Z');
  const [next = 0] = nextRunsMs('0 12 * * *', 'Europe/Berlin', 1);
  expect(new Date(next).toISOString()).toBe('2025-10-26T11:00:00.000Z');
});

/** In Berlin the clocks go from 2 to 3 at 01:00 UTC, and back from 3 to 2 at 01:00 UTC; in New York at 07:00 and 06:00 UTC. */
it.each([
  ['autumn, with the hour without runs', 'Europe/Berlin', '2026-10-20T00:00:00Z', '*/5 * * * *', 5],
  ['autumn, with the hour without runs', 'Europe/Berlin', '2026-10-20T00:00:00Z', '0 */5 * * * *', 5],
  ['autumn, with the hour without runs', 'Europe/Berlin', '2026-10-20T00:00:00Z', '*/5 0-23 * * *', 65],
  ['autumn, with the hour without runs', 'America/New_York', '2026-10-28T00:00:00Z', '0 0 12 * * *', 1500],
  ['spring, with the day without runs', 'Europe/Berlin', '2026-03-26T00:00:00Z', '0 30 2 * * *', 2820],
  ['spring, with the day without runs', 'America/New_York', '2026-03-06T00:00:00Z', '*/5 * * * *', 5],
  ['summer', 'Europe/Berlin', '2026-06-02T00:00:00Z', '0 12 * * *', 1440],
])(
  'when the clocks change, the longest time between two runs is that of %s: %s, %s, %s',
  (_when, zone, now, schedule, minutes) => {
    itIs(now);
    expect(longestPeriodMs(schedule, zone)).toBe(minutes * MINUTE_MS);
  },
);
