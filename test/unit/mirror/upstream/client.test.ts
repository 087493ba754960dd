import { expect, it } from 'vitest';

import { ownerOf } from '../../../../src/mirror/plan/selection.ts';
import { joinRows } from '../../../../src/mirror/upstream/client.ts';
import { repository, row } from '../../../support/builders.ts';

it('a row belongs to the repository of its name in another case, if only one can be meant', () => {
  const [plan, one, other] = ['Host/Plan.git', 'Host/Twin.git', 'host/twin.git'].map((fullName, at) =>
    repository({ id: `${at}`, fullName }),
  );
  const rows = ['host/plan.git', 'HOST/TWIN.git'].map((name) => row({ repository: name }));
  const { rows: joined, problems } = joinRows(
    null,
    [plan, one, other].flatMap((each) => each ?? []),
    rows,
    null,
  );
  expect(joined.map((each) => each.repository)).toEqual(['Host/Plan.git', 'HOST/TWIN.git']);
  expect(problems).toEqual([expect.stringContaining('"HOST/TWIN.git"')]);
});

it('a row of two repositories of one name is kept by the instance of either', () => {
  const ids = Array.from({ length: 20 }, (_, at) => `${at}`);
  const idOf = (index: number): string => ids.find((id) => ownerOf(id, 2) === index) ?? '';
  const twins = [1, 2].map((index) => repository({ id: idOf(index), fullName: 'Twin' }));
  for (const index of [1, 2])
    expect(joinRows({ index, count: 2 }, twins, [row({ repository: 'Twin' })], null).rows).toHaveLength(1);
});
