import { expect, it } from 'vitest';

import { ownerOf } from '../../../../src/mirror/plan/selection.ts';
import { joinRows } from '../../../../src/mirror/upstream/client.ts';
import { repository, row } from '../../../support/builders.ts';

/** Joins rows of these repositories to the listed ones. */
function joined(listed: readonly string[], named: readonly string[], more = {}) {
  const repositories = listed.map((fullName, at) => repository({ id: `${at}`, fullName }));
  const rows = named.map((name) => row({ repository: name }));
  return joinRows(null, repositories, { rows, malformed: [], repeated: new Set<string>(), ...more }, null);
}

it.each<[string, readonly string[], readonly string[], readonly string[]]>([
  ['in another case', ['Host/Plan.git', 'A'], ['host/plan.git'], ['Host/Plan.git']],
  ['in another Unicode form', ['Pl\u00e4ne'], ['Pla\u0308ne'], ['Pl\u00e4ne']],
  ['by its id', ['A', 'B'], ['1'], ['B']],
  ['but not if two can be meant', ['Host/Twin', 'host/twin'], ['HOST/TWIN'], ['HOST/TWIN']],
  ['but not if rows name it exactly', ['Plan'], ['Plan', 'plan'], ['Plan', 'plan']],
])('a row belongs to the repository of its name: %s', (_what, listed, named, expected) => {
  const { rows, problems } = joined(listed, named);
  expect(rows.map((each) => each.repository)).toEqual(expected);
  expect(problems).toHaveLength(expected.filter((name) => !listed.includes(name)).length);
});

it.each<[string, readonly string[], object, readonly string[]]>([
  ['a name that ends like theirs', ['dnd/Plan', 'github.com/o/sales'], {}, ['Plan', 'o/Sales.git']],
  ['another name', ['Other', 'Planning'], {}, []],
  [
    'a malformed row in another case',
    ['Plan'],
    { malformed: [{ repository: 'PLAN', branch: null, fault: '' }] },
    ['Plan'],
  ],
  [
    'a malformed row of another',
    ['x/Sales.git'],
    { malformed: [{ repository: 'Own', branch: null, fault: '' }] },
    ['Own', 'o/Sales.git'],
  ],
  ['a row in two forms', ['Plan', 'PLAN'], {}, ['Plan']],
  ['a row on two pages', ['Plan'], { repeated: new Set(['Plan']) }, ['Plan', 'o/Sales.git', 'Own']],
])('a list says nothing about repositories without rows beside %s', (_what, named, more, unread) => {
  const { unread: found } = joined(['Plan', 'o/Sales.git', 'Own'], ['Own', ...named], more);
  expect(found).toEqual({ repositories: new Set(unread), isAnywhere: false });
});

it('rows of two repositories of one name may be on two pages', () => {
  const { unread } = joined(['Twin', 'Twin'], ['Twin', 'Twin'], { repeated: new Set(['Twin']) });
  expect(unread.repositories).toEqual(new Set());
});

it('a row of two repositories of one name is kept by the instance of either', () => {
  const ids = Array.from({ length: 20 }, (_, at) => `${at}`);
  const idOf = (index: number): string => ids.find((id) => ownerOf(id, 2) === index) ?? '';
  const twins = [1, 2].map((index) => repository({ id: idOf(index), fullName: 'Twin' }));
  const list = { rows: [row({ repository: 'Twin' })], malformed: [], repeated: new Set<string>() };
  for (const index of [1, 2]) expect(joinRows({ index, count: 2 }, twins, list, null).rows).toHaveLength(1);
});
