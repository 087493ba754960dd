import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { ownerOf } from '../../../../src/mirror/plan/selection.ts';

const ids = fc.uniqueArray(fc.oneof(fc.string(), fc.uuid()), { maxLength: 300 });
const counts = fc.integer({ min: 1, max: 60 });

describe('ownerOf', () => {
  it('moves repositories only to an added instance, and only those of a removed one', () => {
    fc.assert(
      fc.property(ids, counts, (repositories, count) => {
        for (const id of repositories) {
          const [before, after] = [ownerOf(id, count), ownerOf(id, count + 1)];
          expect([before, count + 1]).toContain(after);
        }
      }),
    );
  });

  it.each([2, 3, 5, 8, 50])(
    'gives %i instances about the same number each, and moves nearly the minimum',
    (count) => {
      const repositories = Array.from({ length: 20_000 }, (_, at) => `repository-${at}`);
      const shares = Map.groupBy(repositories, (id) => ownerOf(id, count));
      const fair = repositories.length / count;
      // Six standard deviations of a fair choice: a sound hash exceeds them once in billions.
      const margin = 6 * Math.sqrt(fair);
      for (let index = 1; index <= count; index += 1)
        expect(Math.abs((shares.get(index)?.length ?? 0) - fair)).toBeLessThan(margin);
      const moved = repositories.filter((id) => ownerOf(id, count) !== ownerOf(id, count + 1));
      expect(Math.abs(moved.length - repositories.length / (count + 1))).toBeLessThan(margin);
    },
  );

  it('stays as it is: another version must not move mirrored repositories', () => {
    const repositories = ['1', 'accounting', '6f1c9a52-6d0e-4d7e-9f2c-1b1f3f0f7a10', 'Bücher', ''];
    const owners = repositories.map((id) => [2, 3, 5, 17].map((count) => ownerOf(id, count)).join(' '));
    expect(owners).toEqual(['2 2 2 6', '1 1 1 1', '1 1 1 8', '1 3 3 12', '2 2 5 15']);
  });
});
