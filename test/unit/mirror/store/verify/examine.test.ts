import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { type Difference, differencesOf, foreignIn } from '../../../../../src/mirror/store/verify/examine.ts';
import { foldersWith } from '../../../../../src/lib/paths/file-name.ts';
import type { EntryKind } from '../../../../../src/mirror/file-work/trees.ts';
import { byCodeUnits, type ManifestFile } from '../../../../../src/mirror/store/manifest.ts';
import { manifestFile } from '../../../../support/builders.ts';
import { randomOf, shuffled } from '../../../../support/sweep.ts';

/** An entry as a walk finds it; a file without digest if its bytes were not read. */
type FoundEntry = Partial<ManifestFile> & {
  readonly path: string;
  readonly kind: EntryKind | 'unreadable';
  readonly problem?: string;
};

/** As {@link differencesOf}, for the entries of a walk one by one. */
function compared(files: readonly ManifestFile[], found: readonly FoundEntry[]): readonly Difference[] {
  const there = found.filter(({ kind }) => kind !== 'unreadable');
  const walked = {
    paths: there.map((entry) => entry.path),
    kinds: there.flatMap(({ kind }) => (kind === 'unreadable' ? [] : kind)),
    sizesBytes: there.map(({ sizeBytes = 0 }) => sizeBytes),
    modes: there.map(({ mode = 0 }) => mode),
    mtimesMs: there.map(({ mtimeMs = 0 }) => mtimeMs),
    problems: found.flatMap(({ path: of, problem }) => (problem === undefined ? [] : { path: of, problem })),
  };
  const read = there.filter(({ sha256 }) => sha256 !== undefined);
  const digests = new Map(read.map(({ path: of, sha256 = '' }) => [of, sha256]));
  return differencesOf(files, walked, { digests, problems: [] });
}

function foundFile(file: ManifestFile, changed: Partial<ManifestFile> = {}): FoundEntry {
  return { kind: 'file', ...file, ...changed };
}

function folder(path: string): FoundEntry {
  return { kind: 'folder', path };
}

/** The result of a walk through a tree with just these files. */
function exactly(files: readonly ManifestFile[]): FoundEntry[] {
  const folders = foldersWith(files.map((file) => file.path));
  return [...[...folders].map(folder), ...files.map((file) => foundFile(file))];
}

/** The fate of a file that the manifest does not have. */
const ADDED = (file: ManifestFile): readonly [FoundEntry, Difference] => [foundFile(file), added(file.path)];

const FILES = ['a', 'd/b', 'd/e/c'].map((path) => manifestFile(path));
const [A, B, C] = FILES as [ManifestFile, ManifestFile, ManifestFile];
const EXACT = exactly(FILES);
const without = (...paths: string[]): FoundEntry[] => EXACT.filter((entry) => !paths.includes(entry.path));

const missing = (path: string): Difference => ({ path, kind: 'missing' });
type Added = Extract<Difference, { kind: 'added' }>['entry'];
const added = (path: string, entry: Added = 'file'): Difference => ({ path, kind: 'added', entry });
type Change = Extract<Difference, { kind: 'modified' }>['what'];
const modified = (path: string, ...what: Change): Difference => ({ path, kind: 'modified', what });
const special = (path: string, kind: 'special' | 'link' = 'special'): FoundEntry => ({ kind, path });
const unreadable = (path: string): FoundEntry & Difference => ({ kind: 'unreadable', path, problem: 'EIO' });
const { sha256: _, ...A_FACTS } = A;
const NOT_READ: FoundEntry = { kind: 'file', ...A_FACTS };
const OTHER_A = foundFile(A, { sizeBytes: A.sizeBytes + 1, mode: 0o600, mtimeMs: 1, sha256: 'x' });

const CASES: readonly (readonly [string, readonly FoundEntry[], readonly Difference[]])[] = [
  ['nothing', EXACT, []],
  ['bytes that were not read', [...without('a'), NOT_READ], []],
  ['a folder gone', without('d/e', 'd/e/c'), [missing('d/e/c')]],
  ['a new empty folder', [...EXACT, folder('d/x')], [added('d/x', 'folder')]],
  ['new empty folders in each other', [...EXACT, folder('x'), folder('x/y')], [added('x/y', 'folder')]],
  ['a new folder with a file', [...EXACT, folder('x'), foundFile(manifestFile('x/y'))], [added('x/y')]],
  ['a new link', [...EXACT, special('l', 'link')], [added('l', 'link')]],
  ['several facts', [...without('a'), OTHER_A], [modified('a', 'size', 'mode', 'mtime', 'bytes')]],
  ['a pipe in place of a file', [...without('a'), special('a')], [modified('a', 'not a file')]],
  ['an empty folder in place of a file', [...without('a'), folder('a')], [modified('a', 'not a file')]],
  [
    'a folder with a file in place of a file',
    [...without('a'), folder('a'), foundFile(manifestFile('a/b'))],
    [modified('a', 'not a file'), added('a/b')],
  ],
  [
    'a link in place of a folder',
    [...without('d/e', 'd/e/c'), special('d/e', 'link')],
    [added('d/e', 'link'), missing('d/e/c')],
  ],
  ['a file that cannot be read', [...without('a'), unreadable('a')], [unreadable('a')]],
  [
    'a folder that cannot be listed: its contents are not known to be missing',
    [...without('d/e/c'), unreadable('d/e')],
    [unreadable('d/e')],
  ],
];

it.each(CASES)('differencesOf finds %s', (_name, found, expected) => {
  expect(compared([A, B, C], found)).toStrictEqual(expected);
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
  (file) => [special(file.path, 'link'), modified(file.path, 'not a file')],
  (file) => [foundFile(file, { sizeBytes: -1 }), modified(file.path, 'size')],
  (file) => [foundFile(file, { mode: -1 }), modified(file.path, 'mode')],
  (file) => [foundFile(file, { mtimeMs: -1 }), modified(file.path, 'mtime')],
  (file) => [foundFile(file, { sha256: '' }), modified(file.path, 'bytes')],
  ADDED,
];
const fate = fc.constantFrom(...FATES);

it('differencesOf finds just the change of each file of any tree, in order, for any order of the walk', () => {
  const fates = fc.array(fate, { minLength: 20, maxLength: 20 });
  fc.assert(
    fc.property(paths, fates, fc.nat(), (all, chosen, seed) => {
      const done = all.map((each, index) => ({ file: manifestFile(each), of: chosen[index] ?? ADDED }));
      const listed = done.flatMap(({ file, of }) => (of === ADDED ? [] : [file]));
      const outcomes = done.map(({ file, of }) => of(file));
      const there = outcomes.flatMap(([entry]) => (entry === null ? [] : [entry]));
      const found = [...[...foldersWith(there.map((entry) => entry.path))].map(folder), ...there];
      const expected = outcomes.flatMap(([, difference]) => (difference === null ? [] : [difference]));
      expected.sort((a, b) => byCodeUnits(a.path, b.path));
      expect(compared(listed, shuffled(found, randomOf(seed)))).toStrictEqual(expected);
    }),
  );
});

it('finds the folders of paths as a check one by one does', () => {
  const above = (of: string): string[] =>
    of.split('/').map((_segment, at, all) => all.slice(0, at).join('/'));
  fc.assert(
    fc.property(paths, (all) => {
      const expected = new Set(all.flatMap(above).filter((folder) => folder !== ''));
      expect(foldersWith(all)).toStrictEqual(expected);
    }),
  );
});

describe('foreignIn', () => {
  const files = [manifestFile('Q1/a.xlsx')];

  it('has added files, even next to a file that cannot be read', () => {
    expect(foreignIn([added('b.xlsx'), unreadable('Q1/a.xlsx')], files)).toEqual(['b.xlsx']);
  });

  it('is unknown if a folder cannot be listed, as it may have more', () => {
    expect(foreignIn([added('b.xlsx'), unreadable('Q1')], files)).toBeNull();
  });
});
