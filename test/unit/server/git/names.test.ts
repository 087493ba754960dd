import { describe, expect, it } from 'vitest';

import { checkRepositoryName } from '../../../../src/server/git/addresses.ts';
import { formatCreatedAt } from '../../../../src/server/git/repository-index.ts';
import { formatVersionTime } from '../../../../src/server/git/rows.ts';

describe('names of repositories', () => {
  it('takes any visible name without slashes', () => {
    for (const name of [
      'Accounting',
      'Übersicht Köln',
      '--help',
      '50% #1',
      'contents',
      '会計',
      '👩\u200d💻 2',
    ]) {
      expect(() => checkRepositoryName(name)).not.toThrow();
    }
    for (const name of [
      '',
      ' ',
      ' x',
      '.',
      '..',
      'a/b',
      String.raw`a\b`,
      'a\u0000',
      'a\u200bb',
      '\u200b',
      'a\u202eb',
      'a\u2028b',
      '\u2060x',
      '---',
      '0b9f4c9e-8a7d-4e0e-9d0c-1f2a3b4c5d6e',
      '0B9F4C9E-8A7D-4E0E-9D0C-1F2A3B4C5D6E',
      '\ud800',
      'é'.repeat(128),
      'plan.git',
      'Plan.GIT',
    ]) {
      expect(() => checkRepositoryName(name)).toThrow(
        expect.objectContaining({ status: 400, code: 'invalid' }),
      );
    }
  });
});

describe('times', () => {
  it('have microseconds in the current API and no fraction in v1', () => {
    expect(formatCreatedAt(new Date('2026-01-02T03:04:05.678Z'))).toBe('2026-01-02T03:04:05.678000+00:00');
    expect(formatVersionTime(Date.UTC(2026, 0, 2, 3, 4, 5) / 1000)).toBe('2026-01-02T03:04:05+00:00');
  });

  it.each([
    [9_000_000_000_000, '9999-12-31T23:59:59+00:00'],
    [253_402_300_800, '9999-12-31T23:59:59+00:00'],
    [253_402_300_799, '9999-12-31T23:59:59+00:00'],
    [1e300, '9999-12-31T23:59:59+00:00'],
    [Infinity, '9999-12-31T23:59:59+00:00'],
    [-1, '1970-01-01T00:00:00+00:00'],
    [-9_000_000_000_000, '1970-01-01T00:00:00+00:00'],
    [Number.NaN, '1970-01-01T00:00:00+00:00'],
  ])('of a hand-made commit stay within the range of v1: %s', (seconds, written) => {
    expect(formatVersionTime(seconds)).toBe(written);
  });
});
