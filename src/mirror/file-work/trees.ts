import {
  constants,
  copyFileSync,
  linkSync,
  lstatSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  type Stats,
  utimesSync,
} from 'node:fs';
import { dirname } from 'node:path';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { makingFolder } from './new-file.ts';
import type { FileFacts } from './walk.ts';

/** Errors of a file system that has no hard links, or no more of them (link(2)). */
export const NO_LINKS: ReadonlySet<string | undefined> = new Set([
  'EPERM',
  'ENOTSUP',
  'ENOSYS',
  'EMLINK',
  'EXDEV',
]);

/** Gives files of one tree names in another one, by hard links. */
export interface LinkRequest {
  readonly from: string;
  readonly to: string;
  /** Paths below both. Folders are made. */
  readonly paths: readonly string[];
  /** The facts that each file should have; null where only its presence counts. */
  readonly facts: FileFacts | null;
}

export interface LinkResult {
  /** The first path of which the facts are not as they should be; null for none. */
  readonly changed: string | null;
}

/** Links files of one tree into another; one that can have no more names, or none at all, is copied. @throws Error of the disk */
export function linkAll({ from, to, paths, facts }: LinkRequest): LinkResult {
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
  return { changed };
}

function isAsItWas(found: Stats, { sizesBytes, modes, mtimesMs }: FileFacts, index: number): boolean {
  return (
    found.isFile() &&
    found.size === sizesBytes[index] &&
    (found.mode & 0o7777) === modes[index] &&
    Math.round(found.mtimeMs) === mtimesMs[index]
  );
}

function copy(source: string, destination: string): void {
  const { atime, mtime } = lstatSync(source);
  copyFileSync(source, destination, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  utimesSync(destination, atime, mtime);
}

/** Brings unpacked files to their places. Paths are below the tree. */
export interface PlaceRequest {
  readonly tree: string;
  /** Files that are removed first, with the folders that only they were in. */
  readonly dropped: readonly string[];
  /** Then, a folder whose content takes its place: the way to it, and a free place beside the tree; null for none. */
  readonly unwrapped: { readonly folder: string; readonly aside: string } | null;
  /** Files that then get their times. */
  readonly paths: readonly string[];
  /** In milliseconds since the epoch. */
  readonly timesMs: Float64Array;
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
    removeEmptyFolders(tree, path);
  }
}

function removeEmptyFolders(tree: string, path: string): void {
  try {
    for (let folder = dirname(path); folder !== '.'; folder = dirname(folder)) rmdirSync(`${tree}/${folder}`);
  } catch (error) {
    if (!['ENOTEMPTY', 'EEXIST', 'ENOENT'].includes(systemCode(error) ?? '')) throw error;
  }
}

/** The tree itself stays, as it has the permissions of its place. */
function unwrap(tree: string, folder: string, aside: string): void {
  // Nothing was unpacked where all files are the same as before.
  if (lstatSync(`${tree}/${folder}`, { throwIfNoEntry: false }) === undefined) return;
  renameSync(`${tree}/${folder}`, aside);
  for (const name of readdirSync(aside)) renameSync(`${aside}/${name}`, `${tree}/${name}`);
  rmdirSync(aside);
}
