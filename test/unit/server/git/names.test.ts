import { describe, expect, it } from 'vitest';

import { checkRepositoryName } from '../../../../src/server/git/addresses.ts';
import { formatCreatedAt } from '../../../../src/server/git/repository-index.ts';
import { formatVersionTime } from '../../../../src/server/git/history.ts';

describe('names of repositories', () => {
  it('takes any visible name without slashes', () => {
    const id = '0b9f4c9e-8a7d-4e0e-9d0c-1f2a3b4c5d6e';
    for (const name of ['Übersicht Köln', '--help', '50% #1', 'contents', '会計', '👩\u200d💻 2'])
      expect(() => checkRepositoryName(name)).not.toThrow();
    const invisible = ['a\u0000', 'a\u200bb', '\u200b', 'a\u202eb', 'a\u2028b', '\u2060x', '\ud800'];
    const likeOthers = [id, id.toUpperCase(), 'plan.git', 'Plan.GIT'];
    const parts = ['', ' ', ' x', '.', '..', 'a/b', 'a\\b', '---', 'é'.repeat(128)];
    const refusal = expect.objectContaining({ status: 400, code: 'invalid' }) as Error;
    for (const name of [...parts, ...invisible, ...likeOthers])
      expect(() => checkRepositoryName(name)).toThrow(refusal);
  });
});

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
