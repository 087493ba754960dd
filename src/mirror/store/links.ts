import { constants, lstatSync } from 'node:fs';
import { copyFile, link, lstat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { NO_LINKS } from '../file-work/trees.ts';
import type { DirectoryLayout } from './layout.ts';
import { treeAt } from './published-tree.ts';

/**
 * Refuses to work through symbolic links: someone put them there, and they may lead out of the directory.
 * @param paths folders below the directory; those around them are looked at, too
 * @param target the one at whose place a link of the program's own may stand, as that is replaced and not worked through
 * @throws MirrorError `disk.changed`
 */
export async function refuseLinks(
  layout: DirectoryLayout,
  paths: readonly string[],
  target: string | null = null,
): Promise<void> {
  const folders = new Set<string>();
  for (const path of paths) {
    for (let folder = path; folder !== '.' && !folders.has(folder); folder = dirname(folder))
      folders.add(folder);
  }
  for (const folder of folders) {
    // A call that waits for a thread costs many times what the look itself does, and this is asked often.
    if (!isLink(join(layout.root, folder))) continue;
    if (target !== null && folder === `mirror/${target}` && isOwnLink(layout, target)) continue;
    throw new MirrorError('disk.changed', `${folder} is a symbolic link, where a folder belongs.`, {
      hint: 'Remove the link: the mirror is made of real folders, and nothing is written through links.',
    });
  }
}

function isOwnLink(layout: DirectoryLayout, target: string): boolean {
  const { kind } = treeAt(layout, target);
  return kind === 'link' || kind === 'dangling';
}

function isLink(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  } catch (error) {
    if (systemCode(error) === 'ENOTDIR') return false;
    throw error;
  }
}

/** Gives a file another name by a hard link, or, where there are none, a copy with its time and mode. */
export async function linkOrCopy(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    if (!NO_LINKS.has(systemCode(error))) throw error;
    const stats = await lstat(from);
    if (!stats.isFile()) throw error;
    await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
    await utimes(to, stats.atime, stats.mtime);
  }
}
