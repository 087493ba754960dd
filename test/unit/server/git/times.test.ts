import { describe, expect, it } from 'vitest';

import { formatVersionTime } from '../../../../src/server/git/history.ts';
import { formatCreatedAt } from '../../../../src/server/git/repository-index.ts';

describe('times', () => {
  it('have microseconds in the current API and no fraction in v1', () => {
    expect(formatCreatedAt(new Date('2026-01-02T03:04:05.678Z'))).toBe('2026-01-02T03:04:05.678000+00:00');
    expect(formatVersionTime(Date.UTC(2026, 0, 2, 3, 4, 5) / 1000)).toBe('2026-01-02T03:04:05+00:00');
  });

  it('of a hand-made commit stay within the range of v1', () => {
    for (const seconds of [253_402_300_799, 253_402_300_800, 1e300, Infinity])
      expect(formatVersionTime(seconds)).toBe('9999-12-31T23:59:59+00:00');
    for (const seconds of [-1, -9_000_000_000_000, Number.NaN])
      expect(formatVersionTime(seconds)).toBe('1970-01-01T00:00:00+00:00');
  });
});
