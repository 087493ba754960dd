import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { Searchable, WorkbookFlags } from '../../../../src/cli/service/workbook-filter.ts';
import { createWorkbookFilter } from '../../../../src/cli/service/workbook-filter.ts';

const NOW_MS = Date.parse('2026-11-23T12:00:00Z');

const BUDGET: Searchable = {
  path: 'reports/2026/Budget Überblick.xlsx',
  branch: 'release/2026',
  author: 'Anna Bergström <anna@example.com>',
  message: 'Q3 closing\n\nas agreed with audit',
  createdAt: '2026-11-21T10:00:00.123456+00:00',
};

/** A file that the list of the service does not name. */
const UNLISTED = { author: null, message: null, createdAt: null };
const NOTES: Searchable = { path: 'notes [old].txt', branch: 'main', ...UNLISTED };

function finds(flags: WorkbookFlags, workbook = BUDGET): boolean {
  return createWorkbookFilter(flags, NOW_MS)(workbook);
}

describe('a search for workbooks', () => {
  it.each<WorkbookFlags>([
    {},
    { name: 'ÜBERBLICK' },
    { name: 'überblick'.normalize('NFD') },
    { name: 'reports/2026' },
    { name: '*.XLSX' },
    { name: '{plan,budget} *' },
    { name: 'reports/*/*.xlsx' },
    { name: '**' },
    { author: 'bergström' },
    { message: 'agreed WITH' },
    { branch: 'release/*' },
    { branch: '**' },
    { since: '2026-11-21' },
    { since: '2026-11-21T10:00:00Z' },
    { since: '2d3h' },
    { name: 'budget', author: 'anna', message: 'q3', branch: 'release/*', since: '7d' },
  ])('finds one by %j', (flags) => {
    expect(finds(flags)).toBe(true);
  });

  it.each<WorkbookFlags>([
    { name: 'plan' },
    { name: '*.xls' },
    { name: 'reports/*.xlsx' },
    { name: '2026/*.xlsx' },
    { author: 'bert' },
    { author: 'a*a' },
    { message: 'q4' },
    { branch: 'release' },
    { branch: '*' },
    { branch: 'RELEASE/2026' },
    { since: '2026-11-21T10:00:01Z' },
    { since: '2d' },
    { name: 'budget', author: 'bert' },
  ])('does not find it by %j', (flags) => {
    expect(finds(flags)).toBe(false);
  });

  it.each<[WorkbookFlags, boolean]>([
    [{}, true],
    [{ name: '[old]' }, true],
    [{ name: 'notes [old].txt' }, true],
    [{ branch: 'main' }, true],
    [{ author: 'a' }, false],
    [{ message: 'a' }, false],
    [{ since: '1970-01-01' }, false],
  ])('knows the name and branch of a file that is not a workbook: %j', (flags, isFound) => {
    expect(finds(flags, NOTES)).toBe(isFound);
  });

  it('ignores a time that cannot be parsed', () => {
    expect(finds({ since: '1970-01-01' }, { ...BUDGET, createdAt: 'yesterday' })).toBe(false);
  });

  it.each<WorkbookFlags>([
    { name: '' },
    { author: '' },
    { message: '' },
    { branch: '' },
    { since: '' },
    { since: 'yesterday' },
    { since: '7' },
  ])('refuses %j', (flags) => {
    expect(() => finds(flags)).toThrow(expect.objectContaining({ code: 'usage.invalid' }) as Error);
  });

  it('finds every name by the name itself, with any characters', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), (path) => {
        expect(finds({ name: path }, { ...BUDGET, path })).toBe(true);
        expect(finds({ author: path }, { ...BUDGET, author: path })).toBe(true);
      }),
    );
  });
});
