import { constants, copyFileSync, linkSync, lstatSync, utimesSync } from 'node:fs';
import { join } from 'node:path';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { makingFolder } from './folders.ts';
import type { LinkRequest } from './tasks.ts';

/** Links files of one tree into another; one that has as many names as it may have is copied. @throws Error of the disk */
export function linkAll({ from, to, paths }: LinkRequest): void {
  for (const path of paths) {
    const source = join(from, path);
    makingFolder(join(to, path), (destination) => {
      try {
        linkSync(source, destination);
      } catch (error) {
        if (systemCode(error) !== 'EMLINK') throw error;
        copy(source, destination);
      }
    });
  }
}

function copy(source: string, destination: string): void {
  const { atime, mtime } = lstatSync(source);
  copyFileSync(source, destination, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  utimesSync(destination, atime, mtime);
}
