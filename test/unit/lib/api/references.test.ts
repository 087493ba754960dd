import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import {
  countNames,
  type RepositoryNames,
  type Reference,
  REFERENCE_FORMS,
  referencesFor,
} from '../../../../src/lib/api/references.ts';
import { repository } from '../../../support/builders.ts';

const GIT = repository({ id: 'aaaa-1', fullName: 'github.com/org/plan.git' });
const DROPPED = repository({ id: 'bbbb-2', fullName: 'Accounting' });

type Remembered = Reference['form'] | null;

function texts(
  of: RepositoryNames,
  all: readonly RepositoryNames[],
  remembered: Remembered = null,
): string[] {
  return referencesFor(of, countNames(all), remembered).map(({ form, text }) => `${form}: ${text}`);
}

describe('the references to a repository', () => {
  it('come in order, the short name last', () => {
    expect(texts(GIT, [GIT, DROPPED])).toEqual([
      'id: aaaa-1',
      'full_name_encoded: github.com%2Forg%2Fplan.git',
      'full_name: github.com/org/plan.git',
      'name: plan',
    ]);
  });

  it('come only once if forms agree', () => {
    expect(texts(DROPPED, [GIT, DROPPED])).toEqual(['id: bbbb-2', 'full_name_encoded: Accounting']);
  });

  it.each(REFERENCE_FORMS)('begin with the remembered form %s', (remembered) => {
    const others = REFERENCE_FORMS.filter((form) => form !== remembered);
    const found = referencesFor(GIT, countNames([GIT]), remembered).map(({ form }) => form);
    expect(found).toEqual([remembered, ...others]);
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

  it('are an empty list, not an exception, if a name is not valid Unicode', () => {
    const odd = repository({ id: '3', fullName: 'a\ud800' });
    expect(() => referencesFor(odd, countNames([odd]), null)).not.toThrow();
  });

  it('never name two repositories, for any names', () => {
    const word = fc.constantFrom('a', 'A', 'b', 'a/b', 'a/a', 'b.git');
    const one = fc.record({ id: fc.constantFrom('a', '1', '2', '3'), name: word, fullName: word });
    const some = fc.uniqueArray(one, { selector: ({ id }) => id, maxLength: 4 });
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
