import { constants, lstatSync } from 'node:fs';
import { copyFile, link, lstat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { Intent } from './publish/intent.ts';
import type { DirectoryLayout } from './layout.ts';

/**
 * Refuses to work through symbolic links: someone put them there, and they may lead out of the directory.
 * @param paths folders below the directory; those around them are looked at, too
 * @throws MirrorError `disk.changed`
 */
export async function refuseLinks({ root }: DirectoryLayout, paths: readonly string[]): Promise<void> {
  const folders = new Set<string>();
  for (const path of paths) {
    for (let folder = path; folder !== '.' && !folders.has(folder); folder = dirname(folder))
      folders.add(folder);
  }
  for (const folder of folders) {
    // A call that waits for a thread costs many times what the look itself does, and this is asked often.
    if (!isLink(join(root, folder))) continue;
    throw new MirrorError('disk.changed', `${folder} is a symbolic link, where a folder belongs.`, {
      hint: 'Remove the link: the mirror is made of real folders, and nothing is written through links.',
    });
  }
}

function isLink(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  } catch (error) {
    if (systemCode(error) === 'ENOTDIR') return false;
    throw error;
  }
}

/** The folders in which an intent renames or removes something; below the directory. */
export function foldersOfIntent(intent: Intent): string[] {
  const tree = join('mirror', intent.path);
  const around = [tree, dirname(join('manifests', intent.path))];
  switch (intent.how) {
    case 'first':
    case 'manifest':
      return around;
    case 'exchange':
      return intent.displacedTo === null ? around : [...around, dirname(intent.displacedTo)];
    case 'in-place':
      return [...around, dirname(join(tree, intent.file))];
    case 'rename':
      return [
        ...around,
        ...intent.removed.map((file) => dirname(join(tree, file))),
        ...(intent.keptTo === null ? [] : [dirname(intent.keptTo)]),
      ];
    case 'relocate':
      return [...around, dirname(intent.treeTo), dirname(intent.manifestTo)];
  }
}

/** Errors of a file system that has no hard links, or no more of them (link(2)). */
const NO_LINKS: ReadonlySet<string | undefined> = new Set(['EPERM', 'ENOTSUP', 'ENOSYS', 'EMLINK', 'EXDEV']);

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
