import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import {
  type Difference,
  differencesOf,
  type FoundEntry,
  foldersOf,
  type FoundFile,
  foreignIn,
} from '../../../../../src/mirror/store/verify/examine.ts';
import { foldersWith } from '../../../../../src/lib/paths/file-name.ts';
import { byCodeUnits, type ManifestFile } from '../../../../../src/mirror/store/manifest.ts';
import { manifestFile } from '../../../../support/builders.ts';

function foundFile(file: ManifestFile, fields: Partial<FoundFile> = {}): FoundFile {
  const { path, sizeBytes, mode, mtimeMs, sha256 } = file;
  return { kind: 'file', path, sizeBytes, mode, mtimeMs, sha256, ...fields };
}

function folder(path: string): FoundEntry {
  return { kind: 'folder', path };
}

/** The result of a walk through a tree with just these files. */
function exactly(files: readonly ManifestFile[]): FoundEntry[] {
  const folders = new Set(files.flatMap((file) => foldersOf(file.path)));
  return [...[...folders].map(folder), ...files.map((file) => foundFile(file))];
}

const FILES = ['a', 'd/b', 'd/e/c'].map((path) => manifestFile(path));
const [A, B, C] = FILES as [ManifestFile, ManifestFile, ManifestFile];
const EXACT = exactly(FILES);
const without = (...paths: string[]): FoundEntry[] => EXACT.filter((entry) => !paths.includes(entry.path));

const CASES: readonly (readonly [string, readonly FoundEntry[], readonly Difference[]])[] = [
  ['nothing', EXACT, []],
  ['bytes that were not read', [...without('a'), foundFile(A, { sha256: null })], []],
  ['a file gone', without('d/b'), [{ path: 'd/b', kind: 'missing' }]],
  ['a folder gone', without('d/e', 'd/e/c'), [{ path: 'd/e/c', kind: 'missing' }]],
  ['a folder emptied', without('d/e/c'), [{ path: 'd/e/c', kind: 'missing' }]],
  ['a new file', [...EXACT, foundFile(manifestFile('d/x'))], [{ path: 'd/x', kind: 'added', entry: 'file' }]],
  ['a new empty folder', [...EXACT, folder('d/x')], [{ path: 'd/x', kind: 'added', entry: 'folder' }]],
  [
    'new empty folders in each other',
    [...EXACT, folder('x'), folder('x/y')],
    [{ path: 'x/y', kind: 'added', entry: 'folder' }],
  ],
  [
    'a new folder with a file',
    [...EXACT, folder('x'), foundFile(manifestFile('x/y'))],
    [{ path: 'x/y', kind: 'added', entry: 'file' }],
  ],
  ['a new link', [...EXACT, { kind: 'link', path: 'l' }], [{ path: 'l', kind: 'added', entry: 'link' }]],
  [
    'several facts of a file',
    [...without('a'), foundFile(A, { sizeBytes: A.sizeBytes + 1, mode: 0o600, mtimeMs: 1, sha256: 'x' })],
    [{ path: 'a', kind: 'modified', what: ['size', 'mode', 'mtime', 'bytes'] }],
  ],
  [
    'a pipe in place of a file',
    [...without('a'), { kind: 'special', path: 'a' }],
    [{ path: 'a', kind: 'modified', what: ['not a file'] }],
  ],
  [
    'an empty folder in place of a file',
    [...without('a'), folder('a')],
    [{ path: 'a', kind: 'modified', what: ['not a file'] }],
  ],
  [
    'a folder with a file in place of a file',
    [...without('a'), folder('a'), foundFile(manifestFile('a/b'))],
    [
      { path: 'a', kind: 'modified', what: ['not a file'] },
      { path: 'a/b', kind: 'added', entry: 'file' },
    ],
  ],
  [
    'a link in place of a folder',
    [...without('d/e', 'd/e/c'), { kind: 'link', path: 'd/e' }],
    [
      { path: 'd/e', kind: 'added', entry: 'link' },
      { path: 'd/e/c', kind: 'missing' },
    ],
  ],
  [
    'a file that cannot be read',
    [...without('a'), { kind: 'unreadable', path: 'a', problem: 'EIO' }],
    [{ path: 'a', kind: 'unreadable', problem: 'EIO' }],
  ],
  [
    'a folder that cannot be listed: what it holds is not known to be missing',
    [...without('d/e/c'), { kind: 'unreadable', path: 'd/e', problem: 'EACCES' }],
    [{ path: 'd/e', kind: 'unreadable', problem: 'EACCES' }],
  ],
];

describe('differencesOf', () => {
  it.each(CASES)('finds %s', (_name, found, expected) => {
    expect(differencesOf([A, B, C], found)).toStrictEqual(expected);
  });
});

const name = fc.constantFrom('a', 'b', 'c', 'd~', 'é', 'A');
const path = fc.array(name, { minLength: 1, maxLength: 4 }).map((segments) => segments.join('/'));
/** Paths of files: none lies in another. */
const paths = fc
  .uniqueArray(path, { maxLength: 20 })
  .map((all) => all.filter((one) => !all.some((other) => other.startsWith(`${one}/`))));
const fate = fc.constantFrom('kept', 'missing', 'size', 'mode', 'mtime', 'bytes', 'link', 'added');

describe('differencesOf, for any tree', () => {
  it('finds just the change of each file, in order, for any order of the walk', () => {
    fc.assert(
      fc.property(
        paths,
        fc.array(fate, { minLength: 20, maxLength: 20 }),
        fc.infiniteStream(fc.nat()),
        (all, fates, random) => {
          const done = all.map((each, index) => [manifestFile(each), fates[index] ?? 'kept'] as const);
          const listed = done.filter(([, what]) => what !== 'added').map(([file]) => file);
          const standing = done.filter(([, what]) => what !== 'missing');
          const found: FoundEntry[] = [...foldersWith(standing.map(([file]) => file.path))].map(folder);
          const expected: Difference[] = [];
          for (const [file, what] of done) {
            switch (what) {
              case 'missing':
                expected.push({ path: file.path, kind: 'missing' });
                break;
              case 'added':
                expected.push({ path: file.path, kind: 'added', entry: 'file' });
                found.push(foundFile(file));
                break;
              case 'link':
                expected.push({ path: file.path, kind: 'modified', what: ['not a file'] });
                found.push({ kind: 'link', path: file.path });
                break;
              case 'kept':
                found.push(foundFile(file));
                break;
              case 'size':
              case 'mode':
              case 'mtime':
              case 'bytes': {
                expected.push({ path: file.path, kind: 'modified', what: [what] });
                const fields = {
                  size: { sizeBytes: -1 },
                  mode: { mode: -1 },
                  mtime: { mtimeMs: -1 },
                  bytes: { sha256: '' },
                };
                found.push(foundFile(file, fields[what]));
              }
            }
          }
          const shuffled = found
            .map((entry) => [random.next().value, entry] as const)
            .sort(([a], [b]) => a - b)
            .map(([, entry]) => entry);
          expected.sort((a, b) => byCodeUnits(a.path, b.path));
          expect(differencesOf(listed, shuffled)).toStrictEqual(expected);
        },
      ),
    );
  });

  it('finds the folders of paths as a check one by one does', () => {
    fc.assert(
      fc.property(paths, (all) => {
        expect([...foldersWith(all)].sort()).toStrictEqual([...new Set(all.flatMap(foldersOf))].sort());
      }),
    );
  });
});

describe('foreignIn', () => {
  const files = [manifestFile('Q1/a.xlsx')];
  const added = { kind: 'added', path: 'b.xlsx', entry: 'file' } as const;
  const unreadable = (path: string): Difference => ({ kind: 'unreadable', path, problem: 'EACCES' });

  it('has added files, even next to a file that cannot be read', () => {
    expect(foreignIn([added, unreadable('Q1/a.xlsx')], files)).toEqual(['b.xlsx']);
  });

  it('is unknown if a folder cannot be listed, as it may have more', () => {
    expect(foreignIn([added, unreadable('Q1')], files)).toBeNull();
  });
});
