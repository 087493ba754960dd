import { lstat, readdir, rm, utimes } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

import { linkNow } from '../../lib/disk/read.ts';
import { systemCode, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { manifestPaths } from './inventory.ts';
import type { DirectoryLayout } from './layout.ts';
import { refuseLinks } from './links.ts';
import { isLinkedTreeThere, isTreeName, linkedTree, placeBelowRoot, treeAt } from './published-tree.ts';

/**
 * Removes a tree that no link leads to any more, if it is there.
 * @throws MirrorError `disk.changed` where it can only be reached through a link, and system errors
 */
export async function removeTree(layout: DirectoryLayout, name: string): Promise<void> {
  await refuseLinks(layout, [dirname(placeBelowRoot(name))]);
  await rm(linkedTree(layout, name), { recursive: true, force: true });
}

/**
 * Makes the age of a tree start now, if the tree is there. Its age says how long no link can have led to it, so this comes before
 * each change of its link.
 * @param nowMs milliseconds since the epoch
 * @throws system errors
 */
export async function restartAge(layout: DirectoryLayout, name: string, nowMs: number): Promise<void> {
  if (!isLinkedTreeThere(layout, name)) return;
  try {
    await unlessMissing(utimes(linkedTree(layout, name), nowMs / 1000, nowMs / 1000));
  } catch (error) {
    // Only its owner may set a time (utimensat(2)): a tree that somebody else restored keeps the one that it has.
    if (systemCode(error) !== 'EPERM') throw error;
  }
}

/**
 * Finds the trees to which no link below `mirror/` leads and that are older than an age. Publishes may go on meanwhile. While a
 * target has no tree it finds none: one of them may be all that is left of that target.
 * @param ageMs see {@link restartAge}; an age below zero, of a clock that was ahead, counts by its amount. Milliseconds
 * @param nowMs milliseconds since the epoch
 * @returns their names
 * @throws system errors
 */
export async function findOldTrees(
  layout: DirectoryLayout,
  ageMs: number,
  nowMs: number,
): Promise<readonly string[]> {
  const names = await treeNames(layout);
  if (names.length === 0) return [];
  const linked = await linkedNames(layout);
  const old: string[] = [];
  for (const name of names.filter((each) => !linked.has(each))) {
    // Looked at after the links: a tree whose link was moved meanwhile, and seen at neither place, is young.
    const stats = await unlessMissing(lstat(linkedTree(layout, name)));
    if (stats !== null && Math.abs(nowMs - stats.mtimeMs) > ageMs) old.push(name);
  }
  return old.length > 0 && (await haveAllTrees(layout)) ? old : [];
}

async function treeNames({ trees }: DirectoryLayout): Promise<string[]> {
  const folders = (await unlessMissing(readdir(trees, { withFileTypes: true }))) ?? [];
  const names: string[] = [];
  for (const folder of folders.filter((each) => each.isDirectory()))
    names.push(...(await readdir(join(trees, folder.name))).filter((name) => name.startsWith(folder.name)));
  return names.filter(isTreeName);
}

/** The last part of the text of every link below `mirror/`: of the program's own, the name of the tree that it leads to. */
async function linkedNames({ mirror }: DirectoryLayout): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  const folders = [mirror];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const entry of (await unlessMissing(readdir(folder, { withFileTypes: true }))) ?? []) {
      const place = join(folder, entry.name);
      if (entry.isDirectory()) folders.push(place);
      else if (entry.isSymbolicLink()) names.add(basename(linkNow(place) ?? ''));
    }
  }
  return names;
}

async function haveAllTrees(layout: DirectoryLayout): Promise<boolean> {
  const kinds = (await manifestPaths(layout)).map((path) => treeAt(layout, path).kind);
  return kinds.every((kind) => kind === 'link' || kind === 'folder');
}
