import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import {
  changesByPath,
  fingerprintOfTree,
  groupRows,
  isSettled,
  rowsAtFiles,
  targetDigest,
  workbookOf,
} from '../../../../src/mirror/plan/workbooks.ts';
import type { WorkbookRow } from '../../../../src/mirror/upstream/listing.ts';
import type { Manifest, ManifestFile } from '../../../../src/mirror/store/manifest.ts';
import { manifestFile, manifestWith, row, target } from '../../../support/builders.ts';

const BRANCHES = ['main', 'dev', 'feature/x'];
const PATHS = ['a.xlsx', 'b.xlsx', 'folder/c.xlsx', '"]\n["', ''];

const someRow = fc
  .record({
    path: fc.constantFrom(...PATHS),
    branch: fc.constantFrom(...BRANCHES),
    versionId: fc.constantFrom('v1', 'v2', 'v3'),
  })
  .map((fields) => row(fields));
const someRows = fc.array(someRow, { maxLength: 10 });
const someBranch = fc.constantFrom(...BRANCHES);
const somePaths = fc.subarray(PATHS);

/** A service that has each workbook on each branch in a row of its own. */
const rowPerBranch = fc.uniqueArray(someRow, { selector: ({ path, branch }) => `${branch}\n${path}` });
/** A service that lists each workbook once, with its latest version's branch. */
const rowPerWorkbook = fc.uniqueArray(someRow, { selector: ({ path }) => path });

type Rows = readonly WorkbookRow[];

function fingerprintDigest(rows: Rows, branch: string, borrowed: readonly string[] = []): string {
  return targetDigest(groupRows(rows), branch, borrowed);
}

describe('the digest of a branch', () => {
  it('does not depend on the order of the rows, nor on repetitions', () => {
    fc.assert(
      fc.property(someRows, someBranch, somePaths, fc.nat(10), (rows, branch, borrowed, cut) => {
        const turned = [...rows.slice(cut), ...rows.slice(0, cut)].reverse();
        const digest = fingerprintDigest(rows, branch, borrowed);
        expect(fingerprintDigest([...turned, ...rows], branch, [...borrowed].reverse())).toBe(digest);
      }),
    );
  });

  it.each([
    ['author', { author: 'Eve' }],
    ['message', { message: 'other' }],
    ['time', { createdAt: null }],
    ['status', { versionStatus: 'running' }],
    ['counters', { processing: 3, failure: 2 }],
    ["repository's name", { id: 'renamed/plan.xlsx', repository: 'renamed' }],
  ])('does not change with the %s', (_what, change) => {
    expect(fingerprintDigest([row(change)], 'main')).toBe(fingerprintDigest([row()], 'main'));
  });

  it('distinguishes fields with the same concatenation', () => {
    const one = fingerprintDigest([row({ path: 'a', versionId: 'bc' })], 'main');
    expect(fingerprintDigest([row({ path: 'ab', versionId: 'c' })], 'main')).not.toBe(one);
    const two = fingerprintDigest([row({ path: 'x' }), row({ path: 'y' })], 'main');
    expect(fingerprintDigest([row({ path: 'x","v1"]\n["y' })], 'main')).not.toBe(two);
  });

  it('differs exactly if the sets of versions differ', () => {
    const pairs = (rows: readonly WorkbookRow[], branch: string): string[] =>
      rows.flatMap((each) => (each.branch === branch ? [`${each.versionId} ${each.path}`] : []));
    const set = (texts: readonly string[]): string => JSON.stringify([...new Set(texts)].sort());
    fc.assert(
      fc.property(someRows, someRows, someBranch, (one, other, branch) => {
        const same = set(pairs(one, branch)) === set(pairs(other, branch));
        expect(fingerprintDigest(one, branch) === fingerprintDigest(other, branch)).toBe(same);
      }),
    );
  });
});

const filesAt = (paths: Iterable<string>): { readonly path: string }[] =>
  [...paths].map((path) => ({ path }));

describe('the fingerprint of a published tree', () => {
  it('is the digest that the plan computes with the borrowed rows on the same listing', () => {
    fc.assert(
      fc.property(someRows, someBranch, somePaths, (rows, branch, files) => {
        const { digest, borrowed } = fingerprintOfTree(groupRows(rows), branch, filesAt(files));
        expect(fingerprintDigest(rows, branch, borrowed)).toBe(digest);
      }),
    );
  });

  it('borrows rows that only other branches list, for workbooks in the tree', () => {
    const rows = [
      row({ path: 'own' }),
      row({ path: 'held', branch: 'dev' }),
      row({ path: 'another', branch: 'old' }),
      row({ path: 'absent', branch: 'dev' }),
    ];
    const borrowed = (listed: readonly WorkbookRow[]): unknown =>
      fingerprintOfTree(groupRows(listed), 'main', filesAt(['own', 'held', 'another'])).borrowed;
    expect(borrowed(rows)).toEqual(['another', 'held']);
    // The list shows each branch for itself.
    expect(borrowed([...rows, row({ path: 'own', branch: 'dev' })])).toEqual([]);
  });

  it('borrows nothing, and ignores changes on other branches, if every branch has its own rows', () => {
    fc.assert(
      fc.property(rowPerBranch, someBranch, fc.nat(), (rows, branch, at) => {
        const others = rows.filter((each) => each.branch !== branch);
        const own = new Set(rows.filter((each) => each.branch === branch).map(({ path }) => path));
        const { digest, borrowed } = fingerprintOfTree(groupRows(rows), branch, filesAt(own));
        expect(borrowed).toEqual([]);
        const hit = others[at % others.length];
        const changed = rows.map((each) => (each === hit ? { ...each, versionId: 'newer' } : each));
        expect(fingerprintDigest(changed, branch, borrowed)).toBe(digest);
      }),
    );
  });

  it('changes with a new version on any branch if each workbook is listed once', () => {
    const choices = fc.record({ branch: someBranch, at: someBranch, files: somePaths, pick: fc.nat() });
    fc.assert(
      fc.property(rowPerWorkbook, choices, (rows, { branch, at, files, pick }) => {
        fc.pre(rows.length > 0);
        const own = rows.filter((each) => each.branch === branch).map(({ path }) => path);
        const holds = new Set([...files, ...own]);
        const hit = rows[pick % rows.length];
        const { digest, borrowed } = fingerprintOfTree(groupRows(rows), branch, filesAt(holds));
        const newer = { branch: at, versionId: 'newer' };
        const changed = rows.map((each) => (each === hit ? { ...each, ...newer } : each));
        const isAffected = hit !== undefined && (holds.has(hit.path) || at === branch);
        expect(fingerprintDigest(changed, branch, borrowed) !== digest).toBe(isAffected);
      }),
    );
  });
});

describe('the rows for the files of the contents', () => {
  const composed = '\u00e9.xlsx';
  const decomposed = 'e\u0301.xlsx';

  it.each([
    ['the same form', [composed], [composed], [composed]],
    ['another form', [composed], [decomposed], [decomposed]],
    ['another form beside other names', [composed, 'a'], [decomposed, 'b'], [decomposed, 'a']],
    ['both forms, of one file', [composed, decomposed], [decomposed], [composed, decomposed]],
    ['a form of its own, of two files', ['\u212b'], ['A\u030a', '\u00c5'], ['\u212b']],
  ])('have its path if they are listed in %s', (_which, listed, files, paths) => {
    const named = rowsAtFiles(
      listed.map((path) => row({ path })),
      new Set(files),
    );
    expect(named.map(({ path }) => path)).toEqual(paths);
  });
});

describe('the check that the service has finished with a branch', () => {
  it.each([
    [true, ['success', 'Success', 'succeeded', 'done', 'completed', 'finished']],
    [true, ['failure', 'failed', 'error', 'processed', 'ok', 'warning', null]],
    [
      false,
      [
        'processing',
        'pending',
        'queued',
        'running',
        'not_started',
        'enqueued',
        'incomplete',
        'unfinished',
        'not done',
      ],
    ],
  ])('is %j for any of the states %j', (settled, states) => {
    for (const versionStatus of states) {
      const rows = groupRows([row(), row({ versionStatus })]);
      expect(isSettled(rows, 'main'), String(versionStatus)).toBe(settled);
    }
  });

  it('uses the counter too', () => {
    expect(isSettled(groupRows([row({ processing: 1 })]), 'main')).toBe(false);
    expect(isSettled(groupRows([row({ failure: 1 })]), 'main')).toBe(true);
  });

  it('uses only its own rows', () => {
    const rows = [row({ branch: 'dev', processing: 1 }), row({ branch: 'old', versionStatus: 'pending' })];
    expect(isSettled(groupRows(rows), 'main')).toBe(true);
    expect(isSettled(groupRows([]), 'main')).toBe(true);
  });
});

const KIB = 1024;

function workbook(path: string, versionId = 'v1', fields: Partial<ManifestFile> = {}): ManifestFile {
  return manifestFile(path, {
    workbook: workbookOf(row({ path, versionId })),
    sizeBytes: 100 * KIB,
    ...fields,
  });
}

const TREE = manifestWith({
  fingerprint: 'published',
  files: [workbook('a.xlsx'), workbook('b.xlsx'), workbook('x/c.xlsx'), manifestFile('notes.txt')],
});
const ROWS = ['a.xlsx', 'b.xlsx', 'x/c.xlsx'].map((path) => row({ path }));

/** The paths of the workbooks pulled one by one; a minus marks removed ones. */
function pathsOf(previous: Manifest, rows: readonly WorkbookRow[]): readonly string[] | null {
  const changes = changesByPath({ byWorkbook: 'yes', target: target() }, previous, groupRows(rows));
  if (changes === null) return null;
  return [...changes.changed.map(({ path }) => path), ...changes.gone.map((path) => `-${path}`)];
}

/** The rows of the tree, with some replaced. */
function rowsWith(...others: readonly WorkbookRow[]): WorkbookRow[] {
  const paths = new Set(others.map(({ path }) => path));
  return [...ROWS.filter(({ path }) => !paths.has(path)), ...others];
}

describe('the workbooks that are pulled one by one', () => {
  it.each([
    ['one that has a new version', rowsWith(row({ path: 'b.xlsx', versionId: 'v2' })), ['b.xlsx']],
    ['a new one in an existing folder', rowsWith(row({ path: 'x/d.xlsx' })), ['x/d.xlsx']],
    ['a new one at the top', rowsWith(row({ path: 'd.xlsx' })), ['d.xlsx']],
    [
      'new ones in new folders',
      rowsWith(row({ path: 'y/z/d.xlsx' }), row({ path: 'y/e.xlsx' })),
      ['y/z/d.xlsx', 'y/e.xlsx'],
    ],
    ['one that is no longer listed', ROWS.slice(1), ['-a.xlsx']],
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
    ['a new one is in a folder named like another', [...ROWS, row({ path: 'y' }), row({ path: 'y/d.xlsx' })]],
    ['a new one has the name of a folder', rowsWith(row({ path: 'x' }))],
    ['a new one has a name that differs in case only', rowsWith(row({ path: 'A.XLSX' }))],
    ['a new one lies below a file', rowsWith(row({ path: 'a.xlsx/d.xlsx' }))],
    ['a new one leads out of the tree', rowsWith(row({ path: 'x/../../d.xlsx' }))],
    ['a new one has an absolute path', rowsWith(row({ path: '/etc/d.xlsx' }))],
    ['a file that is no workbook became one', rowsWith(row({ path: 'NOTES.txt' }))],
  ])('do not exist if %s', (_why, rows) => {
    expect(pathsOf(TREE, rows)).toBeNull();
  });

  it('do not exist if the last archive is smaller than their last known sizes', () => {
    const changed = ['a.xlsx', 'b.xlsx'].map((path) => row({ path, versionId: 'v2' }));
    const listed = changed.map(({ path }) => row({ path, versionId: 'v2', sizeBytes: KIB }));
    const withArchive = (archiveBytes: number): Manifest => ({ ...TREE, archiveBytes });
    expect(pathsOf(withArchive(200 * KIB), rowsWith(...changed))).toBeNull();
    expect(pathsOf(withArchive(220 * KIB), rowsWith(...changed))).toHaveLength(2);
    expect(pathsOf(withArchive(20 * KIB), rowsWith(...listed))).toHaveLength(2);
  });

  it('do not exist if many small ones cost more requests than bytes', () => {
    const paths = Array.from({ length: 1000 }, (_, index) => `${index}.xlsx`);
    const files = paths.map((path) => workbook(path, 'v1', { sizeBytes: KIB }));
    const changed = (count: number): WorkbookRow[] =>
      paths.map((path, index) => row({ path, versionId: index < count ? 'v2' : 'v1' }));
    expect(pathsOf({ ...TREE, files }, changed(50))).toHaveLength(50);
    expect(pathsOf({ ...TREE, files }, changed(500))).toBeNull();
  });

  it('are the whole difference between the tree and the listing', () => {
    const paths = fc.constantFrom('a.xlsx', 'b.xlsx', 'x/c.xlsx', 'x/d.xlsx', 'y/e.xlsx', 'X/c.xlsx');
    const versions = fc.dictionary(paths, fc.constantFrom('v1', 'v2'));
    fc.assert(
      fc.property(versions, versions, (before, after) => {
        const files = Object.entries(before).map(([path, version]) => workbook(path, version));
        const rows = Object.entries(after).map(([path, versionId]) => row({ path, versionId }));
        const all = { byWorkbook: 'yes', target: target() } as const;
        const changes = changesByPath(all, { ...TREE, files }, groupRows(rows));
        if (changes === null) return;
        const result = new Map<string, string>(Object.entries(before));
        for (const { path, versionId } of changes.changed) result.set(path, versionId);
        for (const path of changes.gone) result.delete(path);
        expect(Object.fromEntries(result)).toStrictEqual({ ...after });
      }),
    );
  });
});
