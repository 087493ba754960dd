import { constants, copyFileSync, linkSync, lstatSync, type Stats, utimesSync } from 'node:fs';
import { join } from 'node:path';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { makingFolder } from './new-file.ts';
import type { FileFacts, LinkRequest, LinkResult } from './tasks.ts';

/** Errors of a file system that has no hard links, or no more of them (link(2)). */
export const NO_LINKS: ReadonlySet<string | undefined> = new Set([
  'EPERM',
  'ENOTSUP',
  'ENOSYS',
  'EMLINK',
  'EXDEV',
]);

/** Links files of one tree into another; one that can have no more names, or none at all, is copied. @throws Error of the disk */
export function linkAll({ from, to, paths, facts }: LinkRequest): LinkResult {
  let changed: string | null = null;
  for (const [index, path] of paths.entries()) {
    const source = join(from, path);
    const destination = join(to, path);
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
