import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import {
  countDifferences,
  type FileDifference,
  fileDifferences,
} from '../../../../src/app/tasks/file-differences.ts';
import type { ManifestFile, ManifestWorkbook } from '../../../../src/mirror/store/manifest.ts';
import { workbookOf } from '../../../../src/mirror/plan/workbooks.ts';
import { manifestFile, row } from '../../../support/builders.ts';

const someTree = fc
  .uniqueArray(
    fc.record({
      path: fc.constantFrom('a', 'b', 'c', 'f/a', 'f/b', 'g/a', '__proto__'),
      content: fc.constantFrom('', '1', '2', '33'),
    }),
    { selector: ({ path }) => path },
  )
  .map((files) =>
    files.map(({ path, content }) => manifestFile(path, { sha256: content, sizeBytes: content.length })),
  );

const bytesOf = (files: readonly ManifestFile[]): string[] =>
  files.map(({ path, sha256, sizeBytes }) => `${path} ${sha256} ${sizeBytes}`).sort();

/** The state after the differences. */
function applied(before: readonly ManifestFile[], differences: readonly FileDifference[]): ManifestFile[] {
  const files = new Map(before.map((file) => [file.path, file]));
  const take = (path: string): void => {
    if (!files.delete(path)) throw new Error(`${path} is not there`);
  };
  for (const { change, path, movedFrom } of differences) {
    if (change !== 'added') take(movedFrom ?? path);
  }
  for (const { path, after } of differences) {
    if (after === null) continue;
    if (files.has(path)) throw new Error(`${path} is there already`);
    files.set(path, manifestFile(path, { sha256: after.sha256, sizeBytes: after.sizeBytes }));
  }
  return [...files.values()];
}

/** The difference with its two states swapped. */
function turned({ change, path, movedFrom, before, after }: FileDifference): FileDifference {
  const states = { before: after, after: before };
  if (movedFrom !== null) return { change, path: movedFrom, movedFrom: path, ...states };
  const turns = { added: 'removed', removed: 'added', changed: 'changed', moved: 'moved' } as const;
  return { change: turns[change], path, movedFrom: null, ...states };
}

const sorted = (differences: readonly FileDifference[]): FileDifference[] =>
  [...differences].sort((a, b) => (a.path < b.path ? -1 : 1));

describe('the files that differ between two states', () => {
  /** Holds a law for any two states and the files that differ. */
  type Law = (before: ManifestFile[], after: ManifestFile[], found: FileDifference[]) => void;
  const holds = (law: Law): void =>
    fc.assert(
      fc.property(someTree, someTree, (one, other) => {
        law(one, other, fileDifferences(one, other));
      }),
    );

  it('do not exist between a state and itself', () => {
    holds((tree) => expect(fileDifferences(tree, tree.toReversed())).toEqual([]));
  });

  it('lead from one state to the other', () => {
    holds((before, after, found) => expect(bytesOf(applied(before, found))).toEqual(bytesOf(after)));
  });

  it('are reversed when the states are swapped', () => {
    holds((one, other, found) => expect(fileDifferences(other, one)).toEqual(sorted(found.map(turned))));
  });

  it('are sorted by path, in whichever order the files are given', () => {
    holds((before, after, found) => {
      expect(fileDifferences(before.toReversed(), after.toReversed())).toEqual(found);
      expect(found).toEqual(sorted(found));
    });
  });

  it('count as a move if bytes vanish at one path and appear at another', () => {
    holds((_before, _after, found) => {
      const bytes = (change: FileDifference['change'], of: 'before' | 'after'): string[] =>
        found.filter((each) => each.change === change).map((each) => each[of]?.sha256 ?? '');
      const added = bytes('added', 'after');
      for (const sha256 of bytes('removed', 'before')) expect(added.filter(Boolean)).not.toContain(sha256);
      for (const { change, before: old, after: now, movedFrom } of found) {
        expect(change === 'moved').toBe(movedFrom !== null);
        if (change === 'moved') expect(now).toMatchObject({ sha256: old?.sha256, sizeBytes: old?.sizeBytes });
      }
    });
  });

  it('have other bytes: modes, times and versions do not count', () => {
    const other = manifestFile('a', { mode: 0o600, mtimeMs: 1, workbook: workbookOf(row()) });
    expect(fileDifferences([manifestFile('a')], [other])).toEqual([]);
  });

  it('have sizes and versions before and after, and totals', () => {
    const version = (versionId: string): ManifestWorkbook => workbookOf(row({ versionId }));
    const before = [
      manifestFile('a', { workbook: version('v1') }),
      manifestFile('b'),
      manifestFile('old/c', { sha256: 'c' }),
    ];
    const after = [
      manifestFile('a', { sha256: 'other', sizeBytes: 5, workbook: version('v2') }),
      manifestFile('d'),
      manifestFile('new/c', { sha256: 'c' }),
    ];
    const state = (path: string): object => ({ sizeBytes: 3, sha256: `digest of ${path}`, workbook: null });
    const moved = { ...state('c'), sha256: 'c' };
    const found = fileDifferences(before, after);
    expect(found).toEqual([
      {
        change: 'changed',
        path: 'a',
        movedFrom: null,
        before: { ...state('a'), workbook: version('v1') },
        after: { sizeBytes: 5, sha256: 'other', workbook: version('v2') },
      },
      { change: 'removed', path: 'b', movedFrom: null, before: state('b'), after: null },
      { change: 'added', path: 'd', movedFrom: null, before: null, after: state('d') },
      { change: 'moved', path: 'new/c', movedFrom: 'old/c', before: moved, after: moved },
    ]);
    expect(countDifferences(found)).toEqual({ added: 1, changed: 1, removed: 1, moved: 1 });
  });
});
