import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { Repository } from '../../../../src/mirror/upstream/listing.ts';
import {
  clockProblem,
  countNames,
  readRows,
  type Reference,
  REFERENCE_FORMS,
  referencesFor,
  serviceTimeMs,
} from '../../../../src/mirror/upstream/repositories.ts';
import { HOUR_MS, MINUTE_MS, NOW_MS, repository } from '../../../support/builders.ts';

describe('the service’s clock', () => {
  it.each([
    ['Sun, 06 Nov 1994 08:49:37 GMT', 784_111_777_000],
    ['Sunday, 06-Nov-94 08:49:37 GMT', 784_111_777_000],
    ['Sun Nov  6 08:49:37 1994', 784_111_777_000],
    ['1994-11-06T08:49:37Z', null],
    ['Sun, 99 Nov 1994 08:49:37 GMT', null],
    ['now', null],
    ['', null],
    ['5', null],
    [undefined, null],
  ])('given as %j', (header, expected) => {
    expect(serviceTimeMs(header)).toBe(expected);
  });

  it.each([
    [0, null],
    [10 * MINUTE_MS, null],
    [-10 * MINUTE_MS, null],
    [11 * MINUTE_MS, "the service's clock is about 10 minutes ahead of this machine's"],
    [-61 * MINUTE_MS, "the service's clock is about 60 minutes behind this machine's"],
    [-3 * HOUR_MS, "the service's clock is about 3 hours behind this machine's"],
    [366 * 24 * HOUR_MS, "the service's clock is about 366 days ahead of this machine's"],
  ])('that differs by %i ms', (differenceMs, problem) => {
    expect(clockProblem(NOW_MS + differenceMs, NOW_MS)).toBe(problem);
    for (const jitterMs of [-900, 900]) {
      if (problem !== null) expect(clockProblem(NOW_MS + differenceMs + jitterMs, NOW_MS)).toBe(problem);
    }
  });
});

describe('rows of the list of repositories', () => {
  const good = { id: '1', name: 'a', full_name: 'a', url: null, created_at: null };
  const other = { ...good, id: '2', name: 'b', full_name: 'b' };

  it.each<[string, unknown]>([
    ['null', null],
    ['a number', 7],
    ['a text', 'a'],
    ['a list', [good]],
    ['nothing in it', {}],
    ['a number for an id', { ...other, id: 3 }],
    ['null for a name', { ...other, full_name: null }],
    ['no name', { ...other, name: undefined }],
    ['an empty name', { ...other, full_name: '' }],
    ['a list for an address', { ...other, url: [] }],
    ['an id of two lines', { ...other, id: '2\nmain' }],
    ['a huge id', { ...other, id: 'x'.repeat(5000) }],
    ['a huge name', { ...other, full_name: 'x/'.repeat(5000) }],
  ])('with %s: that one is malformed, and no other', (_what, bad) => {
    const read = readRows([good, bad, { ...other, id: '9' }]);
    expect(read.repositories.map(({ id }) => id)).toStrictEqual(['1', '9']);
    expect(read.isComplete).toBe(false);
    expect(read.problems).toStrictEqual([
      expect.stringMatching(/^in the list of repositories, (?:the row of ".{1,200}" \()?row 2\b/),
    ]);
  });

  it.each<[string, Record<string, unknown>]>([
    ['prototype names', { id: '__proto__', name: 'constructor', full_name: '__proto__' }],
    ['control characters in names', { id: '2', name: 'b\u0000\u001b[2J', full_name: 'b\u0000\u001b[2J' }],
    ['paths that lead up', { id: '..', name: '..', full_name: '../../etc' }],
    ['half a character', { id: '2', name: '\ud800', full_name: '\ud800' }],
    ['a malformed time', { ...other, created_at: 'yesterday' }],
  ])('with %s are rows like others', (_what, row) => {
    const read = readRows([good, row]);
    expect(read).toMatchObject({ isComplete: true, problems: [] });
    expect(read.repositories).toHaveLength(2);
  });

  it('that occur twice count once', () => {
    expect(readRows([good, other, { ...good }])).toMatchObject({
      repositories: [{ id: '1' }, { id: '2' }],
      isComplete: true,
      problems: [],
    });
  });

  it('that give one id two names count not at all, and prove nothing', () => {
    const rows = [good, other, { ...good, full_name: 'elsewhere' }];
    const read = readRows(rows);
    expect(read.repositories.map(({ id }) => id)).toStrictEqual(['2']);
    expect(read.isComplete).toBe(false);
    expect(read.problems).toHaveLength(1);
    expect(readRows(rows.toReversed())).toStrictEqual(read);
  });

  it('that give one id two addresses count the same in whatever order they come', () => {
    const rows = [good, { ...good, url: 'https://a' }, { ...good, url: 'https://b' }];
    expect(readRows(rows)).toStrictEqual(readRows(rows.toReversed()));
  });
});

const GIT = repository({ id: 'aaaa-1', fullName: 'github.com/org/plan.git' });
const DROPPED = repository({ id: 'bbbb-2', fullName: 'Accounting' });

function texts(
  of: Repository,
  all: readonly Repository[],
  remembered: Reference['form'] | null = null,
): string[] {
  return referencesFor(of, countNames(all), remembered).map(({ form, text }) => `${form}: ${text}`);
}

describe('the references to a repository', () => {
  it('come in their order, the short name last', () => {
    expect(texts(GIT, [GIT, DROPPED])).toEqual([
      'id: aaaa-1',
      'full_name_encoded: github.com%2Forg%2Fplan.git',
      'full_name: github.com/org/plan.git',
      'name: plan',
    ]);
  });

  it('come once each where forms agree', () => {
    expect(texts(DROPPED, [GIT, DROPPED])).toEqual(['id: bbbb-2', 'full_name_encoded: Accounting']);
  });

  it.each([
    ['full_name', ['full_name', 'id', 'full_name_encoded', 'name']],
    ['name', ['name', 'id', 'full_name_encoded', 'full_name']],
    ['id', ['id', 'full_name_encoded', 'full_name', 'name']],
  ] as const)('begin with the remembered form %s', (remembered, forms) => {
    expect(referencesFor(GIT, countNames([GIT]), remembered).map(({ form }) => form)).toEqual(forms);
  });

  it('leave out the remembered form where it is ambiguous', () => {
    const twin = repository({ id: 'cccc-3', fullName: 'gitlab.com/other/plan.git' });
    expect(texts(GIT, [GIT, twin], 'name')[0]).toBe('id: aaaa-1');
    expect(texts(GIT, [GIT, twin], 'name').join(' ')).not.toContain('name: plan');
  });

  it.each([
    ['short name', repository({ id: '3', fullName: 'gitlab.com/other/plan.git' })],
    ['short name in other letters', repository({ id: '3', fullName: 'gitlab.com/other/PLAN.git' })],
    ['full name', repository({ id: '3', fullName: 'plan' })],
    ['id', repository({ id: 'plan', fullName: 'Else' })],
  ])("leave out a name that is another one's %s", (_what, other) => {
    expect(texts(GIT, [GIT, other]).some((text) => text.endsWith(': plan'))).toBe(false);
  });

  it('are encoded', () => {
    const odd = repository({ id: 'x', name: 'a b?', fullName: 'h/ä#/a b?' });
    expect(texts(odd, [odd])).toEqual([
      'id: x',
      'full_name_encoded: h%2F%C3%A4%23%2Fa%20b%3F',
      'full_name: h/%C3%A4%23/a%20b%3F',
      'name: a%20b%3F',
    ]);
  });

  it.each(['x/../Accounting', '../Accounting', './Accounting'])(
    'never lead to another repository by the dots of %j',
    (fullName) => {
      const odd = repository({ id: '3', name: 'odd', fullName });
      for (const { text } of referencesFor(odd, countNames([odd, DROPPED]), null)) {
        const { pathname } = new URL(`http://host/api/repos/${text}/contents`);
        expect(pathname).not.toBe('/api/repos/Accounting/contents');
        expect(pathname).toContain('/api/repos/');
      }
    },
  );

  it('are none where a name is no Unicode text, instead of an exception', () => {
    const odd = repository({ id: '3', fullName: 'a\ud800' });
    expect(() => referencesFor(odd, countNames([odd]), null)).not.toThrow();
  });

  it('never name two repositories, whatever they are called', () => {
    const word = fc.constantFrom('a', 'A', 'b', 'a/b', 'a/a', 'b.git');
    const some = fc.uniqueArray(
      fc.record({ id: fc.constantFrom('a', '1', '2', '3'), name: word, fullName: word }),
      {
        selector: ({ id }) => id,
        maxLength: 4,
      },
    );
    fc.assert(
      fc.property(some, fc.constantFrom(null, ...REFERENCE_FORMS), (fields, remembered) => {
        const all = fields.map(repository);
        const counts = countNames(all);
        for (const of of all) {
          const references = referencesFor(of, counts, remembered);
          expect(new Set(references.map(({ text }) => text)).size).toBe(references.length);
          for (const { text } of references) {
            const meant = decodeURIComponent(text).toLowerCase();
            const named = all.filter(({ id, name, fullName }) =>
              [id, name, fullName].some((each) => each.toLowerCase() === meant),
            );
            expect(named).toEqual([of]);
          }
        }
      }),
    );
  });
});
