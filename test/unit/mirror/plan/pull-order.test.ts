import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { inFairOrder, type Waiting } from '../../../../src/mirror/plan/pull-order.ts';

interface Pull extends Waiting {
  readonly name: number;
}

const somePulls = fc
  .array(
    fc.record({
      repositoryId: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
      waitingSinceMs: fc.nat(3),
      sizeBytes: fc.option(fc.nat(3)),
    }),
    { maxLength: 60 },
  )
  .map((pulls) => pulls.map((pull, name): Pull => ({ ...pull, name })));

const names = (pulls: readonly Pull[]): number[] => pulls.map(({ name }) => name);
const sorted = (numbers: readonly number[]): number[] => numbers.toSorted((a, b) => a - b);

describe('the order of pulls', () => {
  const pull = (
    name: number,
    repositoryId: string,
    waitingSinceMs = 0,
    sizeBytes: number | null = null,
  ): Pull => ({
    name,
    repositoryId,
    waitingSinceMs,
    sizeBytes,
  });

  it('lets repositories take turns', () => {
    const many = Array.from({ length: 5 }, (_, index) => pull(index, 'many'));
    expect(names(inFairOrder([...many, pull(10, 'small'), pull(11, 'other')]))).toEqual([
      0, 10, 11, 1, 2, 3, 4,
    ]);
  });

  it('lets who waits longest come first, in its repository and among repositories', () => {
    const pulls = [pull(0, 'a', 30), pull(1, 'a', 10), pull(2, 'b', 20), pull(3, 'b', 5)];
    expect(names(inFairOrder(pulls))).toEqual([3, 1, 2, 0]);
  });

  it('puts what is known to be small first of what waits as long, and keeps the order otherwise', () => {
    const pulls = [pull(0, 'a'), pull(1, 'b', 0, 9), pull(2, 'c', 0, 3), pull(3, 'd'), pull(4, 'e', 1, 1)];
    expect(names(inFairOrder(pulls))).toEqual([2, 1, 0, 3, 4]);
  });

  it('loses none', () => {
    fc.assert(
      fc.property(somePulls, (pulls) => {
        expect(sorted(names(inFairOrder(pulls)))).toEqual(names(pulls));
      }),
    );
  });

  it('gives no repository its next turn before all others that have one left had theirs', () => {
    fc.assert(
      fc.property(somePulls, (pulls) => {
        const had = new Map<string, number>();
        const total = (id: string): number => pulls.filter(({ repositoryId }) => repositoryId === id).length;
        for (const { repositoryId } of inFairOrder(pulls)) {
          const mine = had.get(repositoryId) ?? 0;
          for (const other of new Set(pulls.map((each) => each.repositoryId))) {
            expect(had.get(other) ?? 0).toBeGreaterThanOrEqual(Math.min(mine, total(other)));
          }
          had.set(repositoryId, mine + 1);
        }
      }),
    );
  });
});
