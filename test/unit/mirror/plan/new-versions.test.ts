import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { Manifest, ManifestFile } from '../../../../src/mirror/store/manifest.ts';
import { newVersions } from '../../../../src/mirror/plan/new-versions.ts';
import type { WorkbookRow } from '../../../../src/mirror/upstream/listing.ts';
import { manifestFile, manifestWith, row } from '../../../support/builders.ts';

const SHA = 'a'.repeat(64);

function workbook(path: string, versionId = 'v1', fields: Partial<ManifestFile> = {}): ManifestFile {
  const { id, author, message, createdAt } = row({ path });
  return manifestFile(path, { workbook: { id, versionId, author, message, createdAt }, ...fields });
}

const TREE = manifestWith({
  files: [workbook('a.xlsx'), workbook('b.xlsx'), workbook('x/c.xlsx'), manifestFile('notes.txt')],
});
const ROWS = ['a.xlsx', 'b.xlsx', 'x/c.xlsx'].map((path) => row({ path }));

function pathsOf(previous: Manifest, rows: readonly WorkbookRow[]): readonly string[] | null {
  return newVersions(previous, rows, 'main')?.map(({ path }) => path) ?? null;
}

/** The rows of the tree, but for some that are as given. */
function rowsWith(...others: readonly WorkbookRow[]): WorkbookRow[] {
  const paths = new Set(others.map(({ path }) => path));
  return [...ROWS.filter(({ path }) => !paths.has(path)), ...others];
}

describe('workbooks that may be pulled one by one', () => {
  it('are the one that has a new version', () => {
    expect(pathsOf(TREE, rowsWith(row({ path: 'b.xlsx', versionId: 'v2' })))).toStrictEqual(['b.xlsx']);
  });

  it('are several, where each can be held against its digest', () => {
    const changed = (sha256?: string): WorkbookRow[] =>
      ['a.xlsx', 'b.xlsx'].map((path) =>
        row({ path, versionId: 'v2', ...(sha256 === undefined ? {} : { sha256 }) }),
      );
    expect(pathsOf(TREE, rowsWith(...changed(SHA)))).toStrictEqual(['a.xlsx', 'b.xlsx']);
    expect(pathsOf(TREE, rowsWith(...changed()))).toBeNull();
  });

  it('are new ones in folders that are there', () => {
    expect(pathsOf(TREE, rowsWith(row({ path: 'x/d.xlsx' })))).toStrictEqual(['x/d.xlsx']);
    expect(pathsOf(TREE, rowsWith(row({ path: 'd.xlsx' })))).toStrictEqual(['d.xlsx']);
  });

  it.each([
    ['nothing has a new version', ROWS],
    ['one is listed no longer', ROWS.slice(1)],
    ['one is listed on another branch only', rowsWith(row({ path: 'a.xlsx', branch: 'other' }))],
    ['one is listed twice', [...ROWS, row({ path: 'a.xlsx', versionId: 'v2' })]],
    ['one has no time', rowsWith(row({ path: 'a.xlsx', versionId: 'v2', createdAt: null }))],
    ['a new one is in a new folder', rowsWith(row({ path: 'y/d.xlsx' }))],
    ['a new one has the name of a folder', rowsWith(row({ path: 'x' }))],
    ['a new one has a name that differs in case only', rowsWith(row({ path: 'A.XLSX' }))],
    ['a new one lies below a file', rowsWith(row({ path: 'a.xlsx/d.xlsx' }))],
    ['a new one leads out of the tree', rowsWith(row({ path: 'x/../../d.xlsx' }))],
    ['a new one has an absolute path', rowsWith(row({ path: '/etc/d.xlsx' }))],
    ['a file that is no workbook became one', rowsWith(row({ path: 'NOTES.txt' }))],
  ])('are none where %s', (_why, rows) => {
    expect(pathsOf(TREE, rows)).toBeNull();
  });

  it('are none where they are most of the tree, or many', () => {
    const large = manifestWith({
      files: [workbook('a.xlsx', 'v1', { sizeBytes: 100 }), workbook('b.xlsx')],
    });
    const rows = ['a.xlsx', 'b.xlsx'].map((path) => row({ path }));
    expect(pathsOf(large, [row({ path: 'a.xlsx', versionId: 'v2' }), ...rows.slice(1)])).toBeNull();
    expect(pathsOf(large, [...rows.slice(0, 1), row({ path: 'b.xlsx', versionId: 'v2' })])).toStrictEqual([
      'b.xlsx',
    ]);
    const paths = Array.from({ length: 200 }, (_, index) => `${index}.xlsx`);
    const many = manifestWith({ files: paths.map((path) => workbook(path)) });
    const changed = (count: number): WorkbookRow[] =>
      paths.map((path, index) => row({ path, sha256: SHA, versionId: index < count ? 'v2' : 'v1' }));
    expect(pathsOf(many, changed(32))).toHaveLength(32);
    expect(pathsOf(many, changed(33))).toBeNull();
  });

  it('make all the difference between the tree and the listing', () => {
    const paths = fc.constantFrom('a.xlsx', 'b.xlsx', 'x/c.xlsx', 'x/d.xlsx', 'y/e.xlsx', 'X/c.xlsx');
    const versions = fc.dictionary(paths, fc.constantFrom('v1', 'v2'));
    fc.assert(
      fc.property(versions, versions, fc.boolean(), (before, after, hasDigests) => {
        const files = Object.entries(before).map(([path, version]) => workbook(path, version));
        const rows = Object.entries(after).map(([path, versionId]) =>
          row({ path, versionId, ...(hasDigests ? { sha256: SHA } : {}) }),
        );
        const changed = newVersions(manifestWith({ files }), rows, 'main');
        if (changed === null) return;
        const result: Record<string, string> = { ...before };
        for (const { path, versionId } of changed) result[path] = versionId;
        expect(result).toStrictEqual({ ...after });
        if (!hasDigests) expect(changed).toHaveLength(1);
      }),
    );
  });
});
