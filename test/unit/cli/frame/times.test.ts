import { describe, expect, it } from 'vitest';

import { parseTime } from '../../../../src/cli/frame/times.ts';

const NOW_MS = Date.parse('2026-11-30T00:00:00Z');

describe('a time', () => {
  it.each([
    ['2026-11-21T10:00:00Z', '2026-11-21T10:00:00.999Z'],
    ['2026-11-21T12:00:00.5+02:00', '2026-11-21T10:00:00.500Z'],
    ['2026-11-21 10:00', '2026-11-21T10:00:00.000Z'],
    ['2026-11-21', '2026-11-21T00:00:00.000Z'],
    ['9d', '2026-11-21T00:00:00.000Z'],
    ['20261121T100000.000Z', '2026-11-21T10:00:00.000Z'],
    ['20261121T100000.000Z-replaced', '2026-11-21T10:00:00.000Z'],
  ])('may be %s', (text, iso) => expect(new Date(parseTime('--at', text, NOW_MS)).toISOString()).toBe(iso));

  it.each(['', 'yesterday', '10:00', '2026-13-01', '2026-02-30', '2025-02-29T10:00Z', '1763719200'])(
    'may not be %j',
    (text) => expect(() => parseTime('--at', text, NOW_MS)).toThrow('--at takes a time'),
  );

  it('may not be in the future', () =>
    expect(() => parseTime('--at', '2027-01-01', NOW_MS)).toThrow('--at 2027-01-01 is in the future.'));

  it.each(['20270101T000000.000Z', '2027-01-01T00:00:00.000Z'])(
    'of a kept state that is ahead of the clock is looked up, and prunes nothing: %s',
    (time) => {
      expect(parseTime('--at', time, NOW_MS)).toBe(Date.parse('2027-01-01T00:00:00Z'));
      expect(() => parseTime('--older-than', time, NOW_MS)).toThrow(`--older-than ${time} is in the future.`);
    },
  );
});
