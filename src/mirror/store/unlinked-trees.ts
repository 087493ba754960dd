import { readdir, readlink, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

import { unlessMissing } from '../../lib/errors/disk-errors.ts';
import type { DirectoryLayout } from './layout.ts';
import { refuseLinks } from './links.ts';
import { isTreeName, linkedTree, placeBelowRoot } from './published-tree.ts';

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

async function treeNames({ trees }: DirectoryLayout): Promise<string[]> {
  const folders = (await unlessMissing(readdir(trees, { withFileTypes: true }))) ?? [];
  const names: string[] = [];
  for (const folder of folders.filter((each) => each.isDirectory()))
    names.push(...(await readdir(join(trees, folder.name))).filter((name) => name.startsWith(folder.name)));
  return names.filter(isTreeName);
}

/** The names at the ends of all links below `mirror/`, whoever made them. */
async function linkedNames({ mirror }: DirectoryLayout): Promise<Set<string>> {
  const entries = await readdir(mirror, { recursive: true, withFileTypes: true });
  const names = new Set<string>();
  for (const entry of entries) {
    if (!entry.isSymbolicLink()) continue;
    const text = await unlessMissing(readlink(join(entry.parentPath, entry.name)));
    if (text !== null) names.add(basename(text));
  }
  return names;
}
