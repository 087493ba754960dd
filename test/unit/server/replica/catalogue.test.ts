import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { Manifest, ManifestFile } from '../../../../src/mirror/store/manifest.ts';
import { knownBranch } from '../../../../src/mirror/upstream/listing.ts';
import {
  defaultBranch,
  type MirroredTarget,
  repositoriesOf,
  workbooksOf,
} from '../../../../src/server/replica/catalogue.ts';
import { findPlace, tagOf } from '../../../../src/server/replica/contents.ts';
import {
  manifestFile as file,
  manifestWith,
  repository as repositoryWith,
} from '../../../support/builders.ts';

function workbook(id: string, versionId = 'v1'): NonNullable<ManifestFile['workbook']> {
  const createdAt = '2026-01-01T00:00:00+00:00';
  return { id, versionId, author: 'Anna', message: 'm\n', createdAt, action: null, parentId: null };
}

function manifest(more: Partial<Manifest> = {}): Manifest {
  const of = repositoryWith({ id: 'id-1', createdAt: '2020-01-01T00:00:00Z' });
  return manifestWith({ repository: of, verifiedAtMs: 1000, publishedAtMs: 1000, ...more });
}

function targetOf(path: string, of: Manifest, writtenAtMs: number): MirroredTarget {
  return { path, manifest: of, writtenAtMs };
}

describe('the repositories of a mirror', () => {
  it('exist once for each id, with a tree for each branch', () => {
    const found = repositoriesOf([
      targetOf('Accounting/dev', manifest({ branch: 'dev' }), 1),
      targetOf('Accounting/main', manifest(), 1),
    ]);
    const names = { id: 'id-1', name: 'Accounting', full_name: 'Accounting', url: null };
    const [{ shown, targets } = expect.fail('none was found'), ...more] = found.values();
    expect([shown, more]).toEqual([{ ...names, created_at: '2020-01-01T00:00:00Z' }, []]);
    expect([...targets.keys()].sort()).toEqual(['dev', 'main']);
  });

  it('have the name written last, and the time of creation from any manifest that has it', () => {
    const before = targetOf('Old/dev', manifest({ branch: 'dev' }), 1);
    const repository = { id: 'id-1', name: 'New', fullName: 'New', url: null, createdAt: null };
    const after = targetOf('New/main', manifest({ repository }), 2);
    for (const order of [
      [before, after],
      [after, before],
    ]) {
      const [only] = repositoriesOf(order).values();
      expect(only?.shown).toMatchObject({ full_name: 'New', created_at: '2020-01-01T00:00:00Z' });
    }
  });

  it('have the tree verified last, if a branch has two', () => {
    const before = targetOf('Accounting/main', manifest({ verifiedAtMs: 8 }), 9);
    const after = targetOf('Copy/main', manifest({ verifiedAtMs: 9 }), 8);
    for (const order of [
      [before, after],
      [after, before],
    ])
      expect(repositoriesOf(order).get('id-1')?.targets.get('main')?.path).toBe('Copy/main');
  });
});

it.each([
  [['HEAD', 'main'], 'HEAD'],
  [['feature/x'], 'feature/x'],
  [['dev', 'main', 'master'], 'main'],
  [['dev', 'master'], 'master'],
  [['dev', 'release'], null],
  [[], null],
])('the branch of a request that names none, among %j, is %j', (branches, expected) =>
  expect(defaultBranch(branches)).toBe(expected),
);

describe('the rows of v1', () => {
  it('are the listed workbooks, sorted by id and branch, with the present name', () => {
    const files = [file('b.xlsx', { workbook: workbook('Old/b.xlsx') }), file('notes.txt')];
    const changed = { ...workbook('New/b.xlsx'), action: 'modify', parentId: 'v0' };
    const [old, renamed] = ['Old', 'New'].map((fullName) => repositoryWith({ id: 'id-1', fullName }));
    const before = manifest({ ...(old && { repository: old }), files });
    const dev = { branch: 'dev', files: [file('b.xlsx', { workbook: changed })] };
    const after = manifest({ ...(renamed && { repository: renamed }), ...dev });
    const trees = [targetOf('Old/main', before, 1), targetOf('New/dev', after, 2)];
    const row = { id: 'New/b.xlsx', integration: 'New' };
    expect(workbooksOf(repositoriesOf(trees)).rows).toMatchObject([
      { ...row, branch: 'dev', version: { action: 'modify', parentId: 'v0' } },
      { ...row, branch: 'main', version: { action: null, parentId: null } },
    ]);
  });

  it.each(['main', 'HEAD'])('are processing if the tree was pulled during that (branch %s)', (branch) => {
    const files = [file('a.xlsx', { workbook: workbook('Accounting/a.xlsx') })];
    const unsettled = manifest({ branch: knownBranch(branch), settled: false, files });
    const { rows, statusOf } = workbooksOf(repositoriesOf([targetOf('Accounting/x', unsettled, 1)]));
    expect(rows.map((row) => [row.branch, statusOf(row).status])).toEqual([[branch, 'processing']]);
  });
});

describe('a path', () => {
  const files = ['a', 'a-b/c', 'b/c', 'b/d/e', 'b0'].map((path) => file(path));

  it.each([
    ['', ['a', 'a-b/c', 'b/c', 'b/d/e', 'b0']],
    ['b', ['c', 'd/e']],
    ['b/d', ['e']],
    ['a-b', ['c']],
  ])('%j is a folder with %j', (path, expected) => {
    const place = findPlace(files, path);
    expect(place.kind).toBe('archive');
    expect(place.files.map((each) => each.path.slice(place.prefix.length))).toEqual(expected);
  });

  it.each(['a', 'b/c'])('%j is a file', (path) => {
    expect(findPlace(files, path)).toMatchObject({ kind: 'file', files: [{ path }] });
  });

  it.each(['c', 'b/', 'B', 'b/d/e/f', '.', '..', 'a/..'])('%j does not exist', (path) => {
    expect(() => findPlace(files, path)).toThrow('there is no folder or file');
  });
});

describe('the tag of an archive', () => {
  const arbitrary = fc.record({
    path: fc.constantFrom('a', 'b', 'c/d'),
    sha256: fc.constantFrom('1'.repeat(64), '2'.repeat(64)),
    mode: fc.constantFrom(0o644, 0o755),
    mtimeMs: fc.constantFrom(0, 1, 1000),
  });
  const list = fc.uniqueArray(arbitrary, { selector: ({ path }) => path, maxLength: 3 });

  it('is the same for the same files, and no other', () =>
    fc.assert(
      fc.property(list, list, (one, other) => {
        const tag = (facts: typeof one): string =>
          tagOf({ kind: 'archive', prefix: '', files: facts.map(({ path, ...more }) => file(path, more)) });
        expect(tag(one) === tag(other)).toBe(JSON.stringify(one) === JSON.stringify(other));
      }),
    ));

  it('of a file depends only on its bytes', () => {
    const tag = (more: Partial<ManifestFile>): string =>
      tagOf({ kind: 'file', prefix: '', files: [file('a', more)] });
    expect(tag({ mode: 0o755, mtimeMs: 5, path: 'b' })).toBe(tag({}));
    expect(tag({ sha256: 'b'.repeat(64) })).not.toBe(tag({}));
  });
});
