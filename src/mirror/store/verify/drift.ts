import { byCodeUnits, foldersWith, type ManifestFile } from '../manifest.ts';

/** The kinds of entries at a path: `special` is anything that is no file, folder or symbolic link (inode(7)). */
export type EntryKind = 'file' | 'folder' | 'link' | 'special';

/** An entry of a tree; links are not followed. Paths are below the tree, with slashes. */
export type FoundEntry =
  | FoundFile
  | { readonly kind: Exclude<EntryKind, 'file'>; readonly path: string }
  /** Something that could not be looked at; with everything below it, if it is a folder. */
  | { readonly kind: 'unreadable'; readonly path: string; readonly problem: string };

/** A regular file as it was found. */
export interface FoundFile {
  readonly kind: 'file';
  readonly path: string;
  readonly sizeBytes: number;
  /** Permission bits, as `chmod` takes them. */
  readonly mode: number;
  /** Whole milliseconds since the epoch. */
  readonly mtimeMs: number;
  /** SHA-256 in hexadecimal digits; null where the bytes were not read. */
  readonly sha256: string | null;
}

/** The ways in which a file can differ from its manifest. */
export type Modification = 'size' | 'mode' | 'mtime' | 'bytes' | 'not a file';

/** One way in which a tree is not what its manifest says. */
export type Difference =
  | { readonly path: string; readonly kind: 'added'; readonly entry: EntryKind }
  | { readonly path: string; readonly kind: 'missing' }
  | { readonly path: string; readonly kind: 'modified'; readonly what: readonly Modification[] }
  /** Could not be compared; `problem` is the system's reason. */
  | { readonly path: string; readonly kind: 'unreadable'; readonly problem: string };

/**
 * Compares the entries found in a tree with the files of its manifest. Folders are implied by files: a folder that no file
 * needs counts as added if it is empty; otherwise its contents are reported.
 * @returns the differences, sorted by path
 */
export function differencesOf(
  files: readonly ManifestFile[],
  found: readonly FoundEntry[],
): readonly Difference[] {
  const foundAt = new Map(found.map((entry) => [entry.path, entry]));
  const wanted = new Set(files.map((file) => file.path));
  const needed = foldersWith([...wanted, ...foundAt.keys()]);
  const isUnreadable = (path: string): boolean => foundAt.get(path)?.kind === 'unreadable';
  const differences: Difference[] = [];
  for (const file of files) {
    const { path } = file;
    const entry = foundAt.get(path);
    if (entry === undefined) {
      if (!foldersOf(path).some(isUnreadable)) differences.push({ path, kind: 'missing' });
    } else if (entry.kind !== 'unreadable') {
      const what = modificationsOf(file, entry);
      if (what.length > 0) differences.push({ path, kind: 'modified', what });
    }
  }
  for (const entry of found) {
    const { path, kind } = entry;
    if (kind === 'unreadable') differences.push({ path, kind, problem: entry.problem });
    else if (!wanted.has(path) && !(kind === 'folder' && needed.has(path)))
      differences.push({ path, kind: 'added', entry: kind });
  }
  return differences.sort((a, b) => byCodeUnits(a.path, b.path));
}

function modificationsOf(
  file: ManifestFile,
  entry: Exclude<FoundEntry, { kind: 'unreadable' }>,
): Modification[] {
  if (entry.kind !== 'file') return ['not a file'];
  const what: Modification[] = [];
  if (entry.sizeBytes !== file.sizeBytes) what.push('size');
  if (entry.mode !== file.mode) what.push('mode');
  if (entry.mtimeMs !== file.mtimeMs) what.push('mtime');
  if (entry.sha256 !== null && entry.sha256 !== file.sha256) what.push('bytes');
  return what;
}

/** The folders that a path lies in, the nearest last. */
export function foldersOf(path: string): string[] {
  const folders: string[] = [];
  for (let slash = path.indexOf('/'); slash >= 0; slash = path.indexOf('/', slash + 1))
    folders.push(path.slice(0, slash));
  return folders;
}

/** How much of a tree is not as its manifest says. */
export interface DriftSummary {
  readonly added: number;
  readonly missing: number;
  readonly modified: number;
  /** The path of the first difference. */
  readonly first: string;
}

/** Counts differences; what cannot be read counts as modified. */
export function summariseDrift(differences: readonly Difference[]): DriftSummary {
  const count = (...kinds: readonly Difference['kind'][]): number =>
    differences.filter(({ kind }) => kinds.includes(kind)).length;
  return {
    added: count('added'),
    missing: count('missing'),
    modified: count('modified', 'unreadable'),
    first: differences[0]?.path ?? '',
  };
}

/** Whether a file may be taken for what its manifest says, by the differences of its tree: neither it nor a folder around it is among them. */
export function trustOf(differences: readonly Difference[]): (path: string) => boolean {
  const suspects = new Set(differences.map(({ path }) => path));
  if (suspects.has('.')) return () => false;
  return (path) => ![path, ...foldersOf(path)].some((each) => suspects.has(each));
}
