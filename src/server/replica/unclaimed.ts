import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { onDisk } from '../../lib/errors/disk-errors.ts';
import { foldersWith } from '../../mirror/store/manifest.ts';
import { byCodeUnits } from '../../mirror/store/manifest.ts';
import { unlessAbsent } from './folders.ts';
import type { MirrorPort } from './ports.ts';

/** A file of a tree is at least so deep below `mirror/`: repository, branch, file. What lies higher is somebody's own. */
const LEAST_FILE_DEPTH = 3;

/** Whether a folder holds a file that may be one of a published tree; true also where that cannot be told. */
async function holdsTree(mirror: string, path: string): Promise<boolean> {
  const folders = [path];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const depth = folder.split('/').length + 1;
    try {
      const entries = (await unlessAbsent(readdir(join(mirror, folder), { withFileTypes: true }))) ?? [];
      if (depth >= LEAST_FILE_DEPTH && entries.some((entry) => entry.isFile())) return true;
      for (const entry of entries) if (entry.isDirectory()) folders.push(`${folder}/${entry.name}`);
    } catch {
      return true;
    }
  }
  return false;
}

/**
 * Finds folders below `mirror/` that look like published trees and have no manifest: the topmost of them, sorted. Nobody knows
 * what they are. For a moment, every tree that is published for the first time is one.
 * @param targets paths of the targets that have a manifest, also those whose manifest cannot be read
 * @throws MirrorError `disk.failed`
 */
export async function findUnclaimed({ mirror }: MirrorPort, targets: readonly string[]): Promise<string[]> {
  return onDisk('listing the mirror', async () => {
    const trees = new Set(targets);
    const leading = foldersWith(targets);
    const unclaimed: string[] = [];
    const folders = [''];
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      const listing = readdir(join(mirror, folder), { withFileTypes: true });
      for (const entry of (await unlessAbsent(listing)) ?? []) {
        const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
        if (!entry.isDirectory() || trees.has(path)) continue;
        if (leading.has(path)) folders.push(path);
        else if (await holdsTree(mirror, path)) unclaimed.push(path);
      }
    }
    return unclaimed.sort(byCodeUnits);
  });
}
