import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import {
  type Difference,
  differencesOf,
  type FoundEntry,
  foldersOf,
  foreignIn,
} from '../../../../../src/mirror/store/verify/examine.ts';
import { foldersWith } from '../../../../../src/lib/paths/file-name.ts';
import { byCodeUnits, type ManifestFile } from '../../../../../src/mirror/store/manifest.ts';
import { manifestFile } from '../../../../support/builders.ts';

function foundFile(file: ManifestFile, changed: Partial<ManifestFile> = {}): FoundEntry {
  const { path, sizeBytes, mode, mtimeMs, sha256 } = { ...file, ...changed };
  return { kind: 'file', path, facts: { sizeBytes, mode, mtimeMs }, sha256 };
}

function folder(path: string): FoundEntry {
  return { kind: 'folder', path };
}

/** The result of a walk through a tree with just these files. */
function exactly(files: readonly ManifestFile[]): FoundEntry[] {
  const folders = new Set(files.flatMap((file) => foldersOf(file.path)));
  return [...[...folders].map(folder), ...files.map((file) => foundFile(file))];
}

/** The fate of a file that the manifest does not have. */
const ADDED = (file: ManifestFile): readonly [FoundEntry, Difference] => [foundFile(file), added(file.path)];

const FILES = ['a', 'd/b', 'd/e/c'].map((path) => manifestFile(path));
const [A, B, C] = FILES as [ManifestFile, ManifestFile, ManifestFile];
const EXACT = exactly(FILES);
const without = (...paths: string[]): FoundEntry[] => EXACT.filter((entry) => !paths.includes(entry.path));

const missing = (path: string): Difference => ({ path, kind: 'missing' });
const added = (path: string, entry: 'file' | 'folder' | 'link' = 'file'): Difference => ({
  path,
  kind: 'added',
  entry,
});
type Change = Extract<Difference, { kind: 'modified' }>['what'];
const modified = (path: string, what: Change): Difference => ({ path, kind: 'modified', what });
const { sha256: _, ...NOT_READ } = foundFile(A);
const OTHER_A = foundFile(A, { sizeBytes: A.sizeBytes + 1, mode: 0o600, mtimeMs: 1, sha256: 'x' });

const CASES: readonly (readonly [string, readonly FoundEntry[], readonly Difference[]])[] = [
  ['nothing', EXACT, []],
  ['bytes that were not read', [...without('a'), NOT_READ], []],
  ['a file gone', without('d/b'), [missing('d/b')]],
  ['a folder gone', without('d/e', 'd/e/c'), [missing('d/e/c')]],
  ['a folder emptied', without('d/e/c'), [missing('d/e/c')]],
  ['a new file', [...EXACT, foundFile(manifestFile('d/x'))], [added('d/x')]],
  ['a new empty folder', [...EXACT, folder('d/x')], [added('d/x', 'folder')]],
  ['new empty folders in each other', [...EXACT, folder('x'), folder('x/y')], [added('x/y', 'folder')]],
  ['a new folder with a file', [...EXACT, folder('x'), foundFile(manifestFile('x/y'))], [added('x/y')]],
  ['a new link', [...EXACT, { kind: 'link', path: 'l' }], [added('l', 'link')]],
  [
    'several facts of a file',
    [...without('a'), OTHER_A],
    [modified('a', ['size', 'mode', 'mtime', 'bytes'])],
  ],
  [
    'a pipe in place of a file',
    [...without('a'), { kind: 'special', path: 'a' }],
    [modified('a', ['not a file'])],
  ],
  ['an empty folder in place of a file', [...without('a'), folder('a')], [modified('a', ['not a file'])]],
  [
    'a folder with a file in place of a file',
    [...without('a'), folder('a'), foundFile(manifestFile('a/b'))],
    [modified('a', ['not a file']), added('a/b')],
  ],
  [
    'a link in place of a folder',
    [...without('d/e', 'd/e/c'), { kind: 'link', path: 'd/e' }],
    [added('d/e', 'link'), missing('d/e/c')],
  ],
  [
    'a file that cannot be read',
    [...without('a'), { kind: 'unreadable', path: 'a', problem: 'EIO' }],
    [{ path: 'a', kind: 'unreadable', problem: 'EIO' }],
  ],
  [
    'a folder that cannot be listed: its contents are not known to be missing',
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
/** A change of a file: how a walk finds it (null: not at all), and the difference (null: none). */
const FATES: readonly ((file: ManifestFile) => readonly [FoundEntry | null, Difference | null])[] = [
  (file) => [foundFile(file), null],
  (file) => [null, missing(file.path)],
  (file) => [{ kind: 'link', path: file.path }, modified(file.path, ['not a file'])],
  (file) => [foundFile(file, { sizeBytes: -1 }), modified(file.path, ['size'])],
  (file) => [foundFile(file, { mode: -1 }), modified(file.path, ['mode'])],
  (file) => [foundFile(file, { mtimeMs: -1 }), modified(file.path, ['mtime'])],
  (file) => [foundFile(file, { sha256: '' }), modified(file.path, ['bytes'])],
  ADDED,
];
const fate = fc.constantFrom(...FATES);

describe('differencesOf, for any tree', () => {
  it('finds just the change of each file, in order, for any order of the walk', () => {
    fc.assert(
      fc.property(
        paths,
        fc.array(fate, { minLength: 20, maxLength: 20 }),
        fc.infiniteStream(fc.nat()),
        (all, fates, random) => {
          const done = all.map((each, index) => ({ file: manifestFile(each), of: fates[index] ?? ADDED }));
          const listed = done.flatMap(({ file, of }) => (of === ADDED ? [] : [file]));
          const outcomes = done.map(({ file, of }) => of(file));
          const there = outcomes.flatMap(([entry]) => (entry === null ? [] : [entry]));
          const found = [...[...foldersWith(there.map((entry) => entry.path))].map(folder), ...there];
          const shuffled = found
            .map((entry) => [random.next().value, entry] as const)
            .sort(([a], [b]) => a - b)
            .map(([, entry]) => entry);
          const expected = outcomes.flatMap(([, difference]) => (difference === null ? [] : [difference]));
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
  const unreadable = (path: string): Difference => ({ kind: 'unreadable', path, problem: 'EACCES' });

  it('has added files, even next to a file that cannot be read', () => {
    expect(foreignIn([added('b.xlsx'), unreadable('Q1/a.xlsx')], files)).toEqual(['b.xlsx']);
  });

  it('is unknown if a folder cannot be listed, as it may have more', () => {
    expect(foreignIn([added('b.xlsx'), unreadable('Q1')], files)).toBeNull();
  });
});
