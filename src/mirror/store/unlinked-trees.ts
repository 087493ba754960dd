import { lstat, readdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

import { linkNow } from '../../lib/disk/read.ts';
import { unlessMissing } from '../../lib/errors/disk-errors.ts';
import { manifestPaths } from './inventory.ts';
import type { DirectoryLayout } from './layout.ts';
import { refuseLinks } from './links.ts';
import { isTreeName, linkedTree, placeBelowRoot, treeAt } from './published-tree.ts';
import { readIntent, treesOf } from './publish/intent.ts';
import { namesIn, otherInstances } from './shards/other-instances.ts';
import { forEachInSlices } from './slices.ts';

/**
 * Removes a tree that no link leads to any more, if it is there.
 * @throws MirrorError `disk.changed` where it can only be reached through a link, and system errors
 */
export async function removeTree(layout: DirectoryLayout, name: string): Promise<void> {
  await refuseLinks(layout, [dirname(placeBelowRoot(name))]);
  await rm(linkedTree(layout, name), { recursive: true, force: true });
}

/**
 * Removes trees that no link below `mirror/` leads to, where nothing is known of any that may still be needed. To be called only
 * while nothing is being published.
 * @throws system errors
 */
export async function removeUnlinkedTrees(layout: DirectoryLayout): Promise<void> {
  const known = await Promise.all([layout.staging, layout.trash].map((folder) => readdir(folder)));
  if (known.flat().length > 0) return;
  const names = await treeNames(layout);
  if (names.length === 0) return;
  const linked = await linkedNames(layout);
  for (const name of names.filter((each) => !linked.has(each))) await removeTree(layout, name);
}

/**
 * Finds trees that nothing names: no link below `mirror/`, no stage, and nothing in the trash. Somebody removed or replaced their
 * link, or a power cut kept them and not the stage that named them. Publishes may go on meanwhile.
 * @returns their names
 * @throws system errors, also where there is no staging or trash to be looked into: then nothing can be told
 */
export async function findUnlinkedTrees(layout: DirectoryLayout): Promise<readonly string[]> {
  const seen = await lookForUnlinked(layout);
  if (seen.length === 0) return [];
  // A link that went from one place to another meanwhile may have been seen at neither.
  const again = new Set(await lookForUnlinked(layout));
  return seen.filter((name) => again.has(name));
}

/**
 * A tree is made while its stage is there, its link while the stage is still there, and a stage that takes a link away is there before,
 * and goes to the trash after. So what is named meanwhile is seen by one of the looks, in this order.
 */
async function lookForUnlinked(layout: DirectoryLayout): Promise<string[]> {
  const unnamed = new Set(await treeNames(layout));
  const drop = (names: Iterable<string>): void => {
    for (const name of names) unnamed.delete(name);
  };
  if (unnamed.size === 0) return [];
  const instances = [layout, ...(await otherInstances(layout))];
  const staged = instances.map(({ staging }) => staging);
  const thrown = instances.map(({ trash }) => trash);
  drop(await namedIn(staged));
  drop((await linksOfTargets(layout)).linked);
  if (unnamed.size > 0) drop(await linkedNames(layout));
  if (unnamed.size > 0) drop(await namedIn(staged));
  if (unnamed.size > 0) drop(await namedIn(thrown));
  for (const name of unnamed)
    if ((await unlessMissing(lstat(linkedTree(layout, name)))) === null) unnamed.delete(name);
  return [...unnamed];
}

const NOTE = /^\d+-tree-(.*)$/;

/** The name, in the trash, of a note that a tree is to be removed, which nothing else names. @param untilMs milliseconds since the epoch */
export function noteName(tree: string, untilMs: number): string {
  return `${untilMs}-tree-${tree}`;
}

/** The tree of a name of {@link noteName}; null for any other. */
export function notedTree(name: string): string | null {
  const tree = NOTE.exec(name)?.[1] ?? '';
  return isTreeName(tree) ? tree : null;
}

/**
 * The trees that stages, or what became of them in the trash, name. A stage has the name of its own tree.
 * @param folders the first must be there; other instances may have none
 */
async function namedIn(folders: readonly string[]): Promise<string[]> {
  const named: string[] = [];
  for (const [index, folder] of folders.entries()) {
    for (const name of index === 0 ? await readdir(folder) : await namesIn(folder)) {
      const intent = await readIntent(join(folder, name));
      const parts = [name, name.slice(name.indexOf('-') + 1), notedTree(name) ?? ''];
      named.push(...parts.filter(isTreeName), ...(intent === null ? [] : treesOf(intent)));
    }
  }
  return named;
}

/** The trees that the links of targets lead to, be they there or not, and whether every target has its files. */
export async function linksOfTargets(
  layout: DirectoryLayout,
): Promise<{ readonly linked: ReadonlySet<string>; readonly isComplete: boolean }> {
  const linked = new Set<string>();
  let isComplete = true;
  await forEachInSlices(await manifestPaths(layout), (path) => {
    const place = treeAt(layout, path);
    if ('name' in place) linked.add(place.name);
    isComplete &&= place.kind === 'link' || place.kind === 'folder';
  });
  return { linked, isComplete };
}

async function treeNames({ trees }: DirectoryLayout): Promise<string[]> {
  const folders = (await unlessMissing(readdir(trees, { withFileTypes: true }))) ?? [];
  const names: string[] = [];
  for (const folder of folders.filter((each) => each.isDirectory()))
    names.push(...(await readdir(join(trees, folder.name))).filter((name) => name.startsWith(folder.name)));
  return names.filter(isTreeName);
}

/** The last part of the text of every link below `mirror/`: of the program's own, the name of the tree that it leads to. */
export async function linkedNames({ mirror }: DirectoryLayout): Promise<ReadonlySet<string>> {
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
