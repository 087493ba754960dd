import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { Retention } from '../../../../../src/mirror/store/disk.ts';
import { keptAt, prunable } from '../../../../../src/mirror/store/history/history.ts';
import type { HistoryKind } from '../../../../../src/mirror/store/layout.ts';

describe('the pruned part of the history', () => {
  const kinds = fc.constantFrom<HistoryKind>('retired', 'replaced');
  const kept = fc.array(
    fc.record({ path: fc.constantFrom('A/main', 'B/main'), kind: kinds, atMs: fc.nat(1000) }),
    { maxLength: 30, size: 'max' },
  );
  const retentions = fc.oneof(
    fc.constantFrom<Retention>({ kind: 'off' }, { kind: 'forever' }),
    fc.nat(5).map((count) => ({ kind: 'count', count }) as const),
    fc.nat(1000).map((ageMs) => ({ kind: 'age', ageMs }) as const),
  );
  const policies = fc.record({ retired: retentions, replaced: retentions });
  const OFF: Retention = { kind: 'off' };

  it('is never newer than any kept tree of the same target, which needs it', () => {
    fc.assert(
      fc.property(kept, policies, fc.nat(2000), (all, policy, nowMs) => {
        const pruned = prunable(all, policy, nowMs);
        for (const left of all.filter((each) => !pruned.includes(each)))
          expect(pruned.some(({ path, atMs }) => path === left.path && atMs > left.atMs)).toBe(false);
      }),
    );
  });

  it('is limited by age or number, or is all or nothing', () => {
    const at = (...times: number[]): { path: string; kind: HistoryKind; atMs: number }[] =>
      times.map((atMs) => ({ path: 'A/main', kind: 'retired', atMs }));
    const times = (retired: Retention): number[] =>
      prunable(at(10, 20, 30), { retired, replaced: OFF }, 100).map(({ atMs }) => atMs);
    expect(times({ kind: 'age', ageMs: 80 })).toEqual([10]);
    expect(times({ kind: 'count', count: 2 })).toEqual([10]);
    expect(times({ kind: 'forever' })).toEqual([]);
    expect(times(OFF)).toEqual([10, 20, 30]);
  });

  it('has no tree from the future', () => {
    const future = [{ path: 'A/main', kind: 'retired' as const, atMs: 5000 }];
    expect(prunable(future, { retired: { kind: 'age', ageMs: 0 }, replaced: OFF }, 100)).toEqual([]);
  });
});

const kept = [10, 20, 30].map((atMs) => ({ path: 'A/main', kind: 'replaced' as const, atMs }));

it('the published tree at a given time is the first tree that left it then or later', () => {
  const found = [5, 10, 11, 30, 31].map((timeMs) => keptAt(kept, timeMs, 1000)?.atMs);
  expect(found).toEqual([10, 10, 20, 30, undefined]);
});
