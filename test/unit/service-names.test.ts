import { describe, expect, it } from 'vitest';

import { checkRepositoryName, formatCreatedAt, formatVersionTime } from '../../src/git/names.ts';

describe('names of repositories', () => {
  it('takes any visible name without slashes', () => {
    for (const name of ['Accounting', 'Übersicht Köln', '--help', '50% #1', 'contents']) {
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
      '\ud800',
      'é'.repeat(128),
    ]) {
      expect(() => checkRepositoryName(name)).toThrow(expect.objectContaining({ code: 'usage.invalid' }));
    }
  });
});

describe('times', () => {
  it('have microseconds in the current API and no fraction in v1', () => {
    expect(formatCreatedAt(new Date('2026-01-02T03:04:05.678Z'))).toBe('2026-01-02T03:04:05.678000+00:00');
    expect(formatVersionTime(Date.UTC(2026, 0, 2, 3, 4, 5) / 1000)).toBe('2026-01-02T03:04:05+00:00');
  });
});
