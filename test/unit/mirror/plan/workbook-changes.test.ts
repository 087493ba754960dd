import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { Manifest, ManifestFile } from '../../../../src/mirror/store/manifest.ts';
import { workbookChanges } from '../../../../src/mirror/plan/workbook-changes.ts';
import type { WorkbookRow } from '../../../../src/mirror/upstream/listing.ts';
import { manifestFile, manifestWith, row } from '../../../support/builders.ts';

const KIB = 1024;

function workbook(path: string, versionId = 'v1', fields: Partial<ManifestFile> = {}): ManifestFile {
  const { id, author, message, createdAt } = row({ path });
  return manifestFile(path, {
    workbook: { id, versionId, author, message, createdAt },
    sizeBytes: 100 * KIB,
    ...fields,
  });
}

const TREE = manifestWith({
  files: [workbook('a.xlsx'), workbook('b.xlsx'), workbook('x/c.xlsx'), manifestFile('notes.txt')],
});
const ROWS = ['a.xlsx', 'b.xlsx', 'x/c.xlsx'].map((path) => row({ path }));

/** The paths of the workbooks that are pulled one by one, those of gone ones with a minus. */
function pathsOf(previous: Manifest, rows: readonly WorkbookRow[]): readonly string[] | null {
  const changes = workbookChanges(previous, rows, 'main');
  if (changes === null) return null;
  return [...changes.changed.map(({ path }) => path), ...changes.gone.map((path) => `-${path}`)];
}

/** The rows of the tree, but for some that are as given. */
function rowsWith(...others: readonly WorkbookRow[]): WorkbookRow[] {
  const paths = new Set(others.map(({ path }) => path));
  return [...ROWS.filter(({ path }) => !paths.has(path)), ...others];
}

describe('the workbooks that are pulled one by one', () => {
  it.each([
    ['one that has a new version', rowsWith(row({ path: 'b.xlsx', versionId: 'v2' })), ['b.xlsx']],
    [
      'several that have new versions',
      rowsWith(row({ path: 'a.xlsx', versionId: 'v2' }), row({ path: 'b.xlsx', versionId: 'v2' })),
      ['a.xlsx', 'b.xlsx'],
    ],
    ['a new one in a folder that is there', rowsWith(row({ path: 'x/d.xlsx' })), ['x/d.xlsx']],
    ['a new one beside the folders', rowsWith(row({ path: 'd.xlsx' })), ['d.xlsx']],
    [
      'new ones in new folders',
      rowsWith(row({ path: 'y/z/d.xlsx' }), row({ path: 'y/e.xlsx' })),
      ['y/z/d.xlsx', 'y/e.xlsx'],
    ],
    ['one that is listed no longer', ROWS.slice(1), ['-a.xlsx']],
    ['one that is listed as deleted', rowsWith(row({ path: 'a.xlsx', action: 'delete' })), ['-a.xlsx']],
    ['one that has another name now', [...ROWS.slice(1), row({ path: 'd.xlsx' })], ['d.xlsx', '-a.xlsx']],
    [
      'no deleted one that the tree never had',
      rowsWith(row({ path: 'a.xlsx', versionId: 'v2' }), row({ path: 'd.xlsx', action: 'delete' })),
      ['a.xlsx'],
    ],
  ])('are %s', (_which, rows, paths) => {
    expect(pathsOf(TREE, rows)).toStrictEqual(paths);
  });

  it.each([
    ['nothing has a new version', ROWS],
    ['one is listed on another branch only', rowsWith(row({ path: 'a.xlsx', branch: 'other' }))],
    ['one is listed twice', [...ROWS, row({ path: 'a.xlsx', versionId: 'v2' })]],
    ['one is listed and deleted', [...ROWS, row({ path: 'a.xlsx', action: 'delete' })]],
    ['one has no time', rowsWith(row({ path: 'a.xlsx', versionId: 'v2', createdAt: null }))],
    ['a new one is in a new folder that differs in case only', rowsWith(row({ path: 'X/d.xlsx' }))],
    [
      'a new one is in a folder of the name of another new one',
      [...ROWS, row({ path: 'y' }), row({ path: 'y/d.xlsx' })],
    ],
    ['a new one has the name of a folder', rowsWith(row({ path: 'x' }))],
    ['a new one has a name that differs in case only', rowsWith(row({ path: 'A.XLSX' }))],
    ['a new one lies below a file', rowsWith(row({ path: 'a.xlsx/d.xlsx' }))],
    ['a new one leads out of the tree', rowsWith(row({ path: 'x/../../d.xlsx' }))],
    ['a new one has an absolute path', rowsWith(row({ path: '/etc/d.xlsx' }))],
    ['a file that is no workbook became one', rowsWith(row({ path: 'NOTES.txt' }))],
  ])('are none where %s', (_why, rows) => {
    expect(pathsOf(TREE, rows)).toBeNull();
  });

  it('are none where the last archive is smaller than their last known sizes', () => {
    const changed = ['a.xlsx', 'b.xlsx'].map((path) => row({ path, versionId: 'v2' }));
    const listed = changed.map(({ path }) => row({ path, versionId: 'v2', sizeBytes: KIB }));
    const withArchive = (archiveBytes: number): Manifest => ({ ...TREE, archiveBytes });
    expect(pathsOf(withArchive(200 * KIB), rowsWith(...changed))).toBeNull();
    expect(pathsOf(withArchive(220 * KIB), rowsWith(...changed))).toHaveLength(2);
    expect(pathsOf(withArchive(20 * KIB), rowsWith(...listed))).toHaveLength(2);
  });

  it('are none where so many are small that requests cost more than bytes', () => {
    const paths = Array.from({ length: 1000 }, (_, index) => `${index}.xlsx`);
    const files = paths.map((path) => workbook(path, 'v1', { sizeBytes: KIB }));
    const changed = (count: number): WorkbookRow[] =>
      paths.map((path, index) => row({ path, versionId: index < count ? 'v2' : 'v1' }));
    expect(pathsOf(manifestWith({ files }), changed(50))).toHaveLength(50);
    expect(pathsOf(manifestWith({ files }), changed(500))).toBeNull();
  });

  it('make all the difference between the tree and the listing', () => {
    const paths = fc.constantFrom('a.xlsx', 'b.xlsx', 'x/c.xlsx', 'x/d.xlsx', 'y/e.xlsx', 'X/c.xlsx');
    const versions = fc.dictionary(paths, fc.constantFrom('v1', 'v2'));
    fc.assert(
      fc.property(versions, versions, (before, after) => {
        const files = Object.entries(before).map(([path, version]) => workbook(path, version));
        const rows = Object.entries(after).map(([path, versionId]) => row({ path, versionId }));
        const changes = workbookChanges(manifestWith({ files }), rows, 'main');
        if (changes === null) return;
        const result = new Map<string, string>(Object.entries(before));
        for (const { path, versionId } of changes.changed) result.set(path, versionId);
        for (const path of changes.gone) result.delete(path);
        expect(Object.fromEntries(result)).toStrictEqual({ ...after });
      }),
    );
  });
});
