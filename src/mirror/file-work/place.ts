import { lstatSync, readdirSync, renameSync, rmdirSync, rmSync, utimesSync } from 'node:fs';
import { dirname } from 'node:path';

import { systemCode } from '../../lib/errors/disk-errors.ts';

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
  for (const path of dropped) {
    rmSync(`${tree}/${path}`, { force: true });
    removeEmptyFolders(tree, path);
  }
  if (unwrapped !== null) unwrap(tree, unwrapped.folder, unwrapped.aside);
  for (const [index, path] of paths.entries()) {
    const seconds = (timesMs[index] ?? 0) / 1000;
    utimesSync(`${tree}/${path}`, seconds, seconds);
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
