import { createHash } from 'node:crypto';
import {
  constants,
  copyFileSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  type Stats,
  utimesSync,
} from 'node:fs';
import { dirname } from 'node:path';

import { removeEmptyFolders } from '../../lib/disk/durable.ts';
import { isMissing, systemCode } from '../../lib/errors/disk-errors.ts';

/** The bits of a file's mode that a manifest records: bits that do not lend the owner's rights to others (chmod(2)). */
export const PERMISSION_BITS = 0o777;

/** Permission bits, and the bits above them that no file of a mirror has. */
const MODE_BITS = 0o7777;

/** Facts of files, in columns: sending objects to a thread would take longer than comparing them. */
export interface FileFacts {
  readonly sizesBytes: ArrayLike<number>;
  /** Permission bits. */
  readonly modes: ArrayLike<number>;
  /** Whole milliseconds since the epoch. */
  readonly mtimesMs: ArrayLike<number>;
}

/** Creates something at a path, and missing folders around it. */
export function makingFolder<T>(path: string, make: (path: string) => T): T {
  try {
    return make(path);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
    mkdirSync(dirname(path), { recursive: true });
    return make(path);
  }
}

/** Errors of a file system that has no hard links, or no more of them (link(2)). */
const NO_LINKS: ReadonlySet<string | undefined> = new Set(['EPERM', 'ENOTSUP', 'ENOSYS', 'EMLINK', 'EXDEV']);

/** Gives files of one tree names in another one, by hard links. */
export interface LinkRequest {
  readonly from: string;
  readonly to: string;
  /** Paths below both. Folders are made. */
  readonly paths: readonly string[];
  /** The facts that each file should have; null if only its presence counts. */
  readonly facts: FileFacts | null;
}

/**
 * Links files of one tree into another; a file that cannot get another name is copied.
 * @returns the first path whose facts differ; null for none
 * @throws Error of the disk
 */
export function linkAll({ from, to, paths, facts }: LinkRequest): string | null {
  let changed: string | null = null;
  for (const [index, path] of paths.entries()) {
    const source = `${from}/${path}`;
    const destination = `${to}/${path}`;
    makingFolder(destination, () => {
      try {
        linkSync(source, destination);
      } catch (error) {
        if (!NO_LINKS.has(systemCode(error)) || !lstatSync(source).isFile()) throw error;
        copy(source, destination);
      }
    });
    if (facts !== null && changed === null && !isAsItWas(lstatSync(destination), facts, index))
      changed = path;
  }
  return changed;
}

function isAsItWas(found: Stats, { sizesBytes, modes, mtimesMs }: FileFacts, index: number): boolean {
  return (
    found.isFile() &&
    found.size === sizesBytes[index] &&
    (found.mode & MODE_BITS) === modes[index] &&
    Math.round(found.mtimeMs) === mtimesMs[index]
  );
}

function copy(source: string, destination: string): void {
  const { atime, mtime } = lstatSync(source);
  copyFileSync(source, destination, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  utimesSync(destination, atime, mtime);
}

/** Moves unpacked files to their places. Paths are below the tree. */
export interface PlaceRequest {
  readonly tree: string;
  /** Files to remove first, with the folders that only they were in. */
  readonly dropped: readonly string[];
  /** Then, a folder that its content replaces: its path, and a free place beside the tree; null for none. */
  readonly unwrapped: { readonly folder: string; readonly aside: string } | null;
  /** Files that then get their times. */
  readonly paths: readonly string[];
  /** In milliseconds since the epoch. */
  readonly timesMs: ArrayLike<number>;
}

/** @throws Error of the disk */
export function placeFiles({ tree, dropped, unwrapped, paths, timesMs }: PlaceRequest): void {
  dropFiles(tree, dropped);
  if (unwrapped !== null) unwrap(tree, unwrapped.folder, unwrapped.aside);
  for (const [index, path] of paths.entries()) {
    const seconds = (timesMs[index] ?? 0) / 1000;
    utimesSync(`${tree}/${path}`, seconds, seconds);
  }
}

/** Removes files of a tree, with the folders that only they were in. @throws Error of the disk */
export function dropFiles(tree: string, paths: readonly string[]): void {
  for (const path of paths) {
    rmSync(`${tree}/${path}`, { force: true });
    removeEmptyFolders(dirname(`${tree}/${path}`), tree);
  }
}

/** The tree itself stays, as it has the permissions of its place. */
function unwrap(tree: string, folder: string, aside: string): void {
  // Nothing was unpacked if all files are the same as before.
  if (lstatSync(`${tree}/${folder}`, { throwIfNoEntry: false }) === undefined) return;
  renameSync(`${tree}/${folder}`, aside);
  for (const name of readdirSync(aside)) renameSync(`${aside}/${name}`, `${tree}/${name}`);
  rmdirSync(aside);
}

/** The findings of a walk. */
export interface Walked extends FileFacts {
  /** Below the folder, with slashes. */
  readonly paths: readonly string[];
  readonly kinds: readonly EntryKind[];
  /** Paths that could not be read, with the system's reason; `.` is the folder itself. */
  readonly problems: readonly { readonly path: string; readonly problem: string }[];
}

/** The kind of an entry: `special` is anything except a file, folder or symbolic link (inode(7)). */
export type EntryKind = 'file' | 'folder' | 'link' | 'special';

/**
 * Lists everything below a folder, without following links; null if there is no folder. An entry that vanishes during the walk is left
 * out; an unreadable path is among the problems and stops nothing.
 */
export function walk(tree: string): Walked | null {
  const paths: string[] = [];
  const kinds: EntryKind[] = [];
  const facts = { sizesBytes: [] as number[], modes: [] as number[], mtimesMs: [] as number[] };
  const problems: { path: string; problem: string }[] = [];
  const attempt = <T>(path: string, look: () => T): T | undefined => {
    try {
      return look();
    } catch (error) {
      if (!isMissing(error)) problems.push({ path, problem: problemOf(error) });
      return undefined;
    }
  };
  const top = attempt('.', () => lstatSync(tree, { throwIfNoEntry: false }));
  const isFolder = top?.isDirectory() === true;
  if (!isFolder && problems.length === 0) return null;
  const folders = isFolder ? [''] : [];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const prefix = folder === '' ? '' : `${folder}/`;
    for (const name of attempt(folder === '' ? '.' : folder, () => readdirSync(`${tree}/${prefix}`)) ?? []) {
      const path = `${prefix}${name}`;
      const stats = attempt(path, () => lstatSync(`${tree}/${path}`, { throwIfNoEntry: false }));
      if (stats === undefined) continue;
      paths.push(path);
      kinds.push(kindOf(stats));
      facts.sizesBytes.push(stats.size);
      facts.modes.push(stats.mode & MODE_BITS);
      facts.mtimesMs.push(Math.round(stats.mtimeMs));
      if (stats.isDirectory()) folders.push(path);
    }
  }
  return { paths, kinds, ...facts, problems };
}

/**
 * A digest of a folder and everything below it: of names, permissions and owners, and for files also of their inodes, sizes and
 * times. A replaced file with the same size and time has another inode. No link is followed.
 * @throws Error of the disk
 */
export function identify(tree: string): string {
  const digest = createHash('sha256');
  const folders = [tree];
  // Node's recursive readdirSync follows links to folders.
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const { mode, uid, gid } = lstatSync(folder);
    digest.update(`${folder}\0${mode} ${uid} ${gid}\n`);
    for (const name of readdirSync(folder).sort()) {
      const path = `${folder}/${name}`;
      const stats = lstatSync(path);
      if (stats.isDirectory()) folders.push(path);
      else
        digest.update(
          `${path}\0${stats.mode} ${stats.uid} ${stats.gid} ${stats.ino} ${stats.size} ${stats.mtimeMs}\n`,
        );
    }
  }
  return digest.digest('hex');
}

/** A failed call in the system's words, e.g. `EIO: i/o error, read`, without the path, which may hold anything. */
export function problemOf(error: unknown): string {
  if (systemCode(error) === undefined || !(error instanceof Error)) throw error;
  return error.message.replace(/ '[^]*$/, '');
}

/** The kind of the entry at a path, by its `lstat`. */
export function kindOf(stats: Pick<Stats, 'isFile' | 'isDirectory' | 'isSymbolicLink'>): EntryKind {
  if (stats.isFile()) return 'file';
  if (stats.isDirectory()) return 'folder';
  return stats.isSymbolicLink() ? 'link' : 'special';
}
