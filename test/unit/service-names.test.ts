import { describe, expect, it } from 'vitest';

import {
  checkRepositoryName,
  formatCreatedAt,
  formatVersionTime,
  namesOfAddress,
} from '../../src/git/names.ts';

describe('names of repositories', () => {
  it('takes the names of an external repository from its address', () => {
    expect(namesOfAddress('https://git.example.com/planning/forecast.git')).toEqual({
      name: 'forecast',
      fullName: 'git.example.com/planning/forecast.git',
    });
    expect(namesOfAddress('https://host:8443/a/b/c.d.git')).toEqual({
      name: 'c.d',
      fullName: 'host:8443/a/b/c.d.git',
    });
  });

  it.each([
    'https://host/plan',
    'https://host/.git',
    'https://plan.git',
    'ssh://host/plan.git',
    'file:///plan.git',
    '/plan.git',
    '--upload-pack=x.git',
    'https://host/../plan.git',
    'https://host/a/plan.git?x=.git',
    'https://host/a plan.git',
    'https://host//plan.git',
  ])('refuses the address %s', (url) => {
    expect(() => namesOfAddress(url)).toThrow(expect.objectContaining({ code: 'usage.invalid' }));
  });

  it('does not repeat a password', () => {
    expect(() => namesOfAddress('https://user:secret@host/plan.git')).toThrow(/^(?!.*secret)/);
  });

  it('takes any visible name without slashes', () => {
    for (const name of ['Accounting', 'Übersicht Köln', '--help', '50% #1', 'contents']) {
      expect(() => checkRepositoryName(name)).not.toThrow();
    }
    for (const name of ['', ' ', ' x', '.', '..', 'a/b', String.raw`a\b`, 'a\u0000', 'é'.repeat(128)]) {
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
