import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { createUploadTree, type UploadTree } from '../../../../src/server/git/upload-tree.ts';
import { foldName } from '../../../../src/lib/paths/safe-path.ts';

function treeOf(paths: readonly string[], existing: readonly string[] = []): UploadTree {
  const tree = createUploadTree(paths, 1000);
  if (tree === null) throw new Error('too many folders');
  for (const path of existing) tree.meet(path);
  return tree;
}

function problemsOf(paths: readonly string[], existing: readonly string[] = []): string[] {
  return treeOf(paths, existing)
    .problems()
    .map(({ path, kind, message }) => `${kind}: ${path} ${message}`);
}

describe('the files of an upload', () => {
  it('are each there once, and none is a folder of another', () => {
    expect(problemsOf(['a', 'b/c', 'b/d'])).toEqual([]);
    expect(problemsOf(['a', 'a'])).toEqual(['invalid: a is in this upload twice']);
    expect(problemsOf(['a', 'a/b', 'c'])).toEqual([
      'invalid: a would be a file and a folder',
      'invalid: a/b lies below "a", which would be a file',
    ]);
  });

  it('take the place of files only', () => {
    const existing = ['a/b/c', 'd'];
    expect(problemsOf(['a/b/c', 'a/b/x', 'a/x', 'd', 'dd', 'x'], existing)).toEqual([]);
    expect(problemsOf(['a'], existing)).toEqual(['conflict: a would take the place of a folder']);
    expect(problemsOf(['a/b'], existing)).toEqual(['conflict: a/b would take the place of a folder']);
    expect(problemsOf(['d/x/y'], existing)).toEqual(['conflict: d/x/y lies below "d", which is a file']);
    expect(treeOf(['a/b/x', 'a/b/c', 'd', 'a/d'], existing).replaces()).toEqual(['a/b/c', 'd']);
    expect(treeOf(['a', 'd/x'], existing).replaces()).toEqual([]);
  });

  it('differ from each other, and from what is there, in more than case and Unicode form', () => {
    expect(problemsOf(['Plan.xlsx', 'plan.xlsx', 'x/plan.xlsx'])).toEqual([
      'conflict: plan.xlsx differs from "Plan.xlsx" only in case or Unicode form',
    ]);
    expect(problemsOf(['a/x', 'A/y'])).toEqual([
      'conflict: A/y lies in "A", which differs from "a" only in case or Unicode form',
    ]);
    expect(problemsOf(['b/u\u0308.xlsx'], ['a', 'b/ü.xlsx'])).toEqual([
      'conflict: b/u\u0308.xlsx differs from "b/ü.xlsx" only in case or Unicode form',
    ]);
    expect(problemsOf(['plans/x'], ['Plans/y'])).toHaveLength(1);
  });

  it('may be put on what has twins already', () => {
    expect(problemsOf(['a', 'B/x'], ['A', 'a', 'B/y', 'b/y'])).toEqual([]);
    expect(problemsOf(['A', 'a'], ['a'])).toEqual([
      'conflict: A differs from "a" only in case or Unicode form',
    ]);
  });

  it('make no tree with more folders than there may be', () => {
    expect(createUploadTree(['a/b/x', 'a/b/y', 'c'], 2)).not.toBeNull();
    expect(createUploadTree(['a/b/x', 'a/c/y', 'c'], 2)).toBeNull();
  });

  it('are taken together exactly when a file system that folds names can hold all of them', () => {
    const segment = fc.constantFrom('a', 'A', 'b', 'ü', 'u\u0308', 'Ü');
    const path = fc.array(segment, { minLength: 1, maxLength: 3 }).map((segments) => segments.join('/'));
    const paths = fc.uniqueArray(path, { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(paths, fc.boolean(), (all, isPutOn) => {
        const existing = isPutOn ? all.slice(0, 1) : [];
        const uploaded = isPutOn ? all.slice(1) : all;
        fc.pre(uploaded.length > 0);
        const folders = new Set(all.flatMap(foldersOf));
        const names = new Set([...folders, ...all]);
        const isWhole = all.every((each) => !folders.has(each));
        const isFolded = new Set([...names].map(foldName)).size === names.size;
        expect(treeOf(uploaded, existing).problems().length === 0).toBe(isWhole && isFolded);
      }),
    );
  });

  it('take time by their number, not by the square of their depth', () => {
    const deep = Array.from({ length: 3000 }, (_, index) => `${index}/${'a/'.repeat(500)}x`);
    expect(createUploadTree(deep, 10_000)).toBeNull();
    expect(createUploadTree(deep.slice(0, 20), 20_000)?.problems()).toEqual([]);
  });
});

function foldersOf(path: string): string[] {
  const segments = path.split('/').slice(0, -1);
  return segments.map((_, index) => segments.slice(0, index + 1).join('/'));
}
