import { readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';

import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { owns, type Shard } from '../../plan/shard.ts';
import { type DirectoryLayout, layoutOf } from '../layout.ts';

/**
 * The layouts of all other instances that work, or once worked, in a directory: of each share, and of one that had all.
 * @throws MirrorError `disk.*`
 */
export async function otherInstances(layout: DirectoryLayout): Promise<DirectoryLayout[]> {
  const entries = await onDisk('looking for other instances', async () => {
    return (await unlessMissing(readdir(layout.shards, { withFileTypes: true }))) ?? [];
  });
  const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  const indexes = folders.filter((name) => /^[1-9]\d{0,4}$/.test(name)).map(Number);
  const others = indexes
    .filter((index) => index !== layout.shardIndex)
    .map((index) => layoutOf(layout.root, { index }));
  return layout.shardIndex === null ? others : [...others, layoutOf(layout.root)];
}

/** Tells whether a repository is this instance's to mirror. */
export type IsOwn = (repositoryId: string) => boolean;

/**
 * Finds out which of the trees in a directory are this instance's: all, unless other instances share the directory. Where they have
 * disks of their own, what is there and has another owner now still is this one's to keep.
 * @returns asks the disk, and gives the same function for as long as it says the same
 */
export function ownTreesIn(layout: DirectoryLayout, shard: Shard | null): () => Promise<IsOwn> {
  const ownsAll: IsOwn = () => true;
  const ownsShare: IsOwn = (repositoryId) => owns(shard, repositoryId);
  return async () => ((await isShared(layout)) ? ownsShare : ownsAll);
}

/** Whether instances with other shares work in a directory, or did. */
async function isShared(layout: DirectoryLayout): Promise<boolean> {
  return layout.shardIndex !== null && (await hasOtherShards(layout));
}

/** Whether there is anything in a directory of an instance with a share, other than that of a layout. @throws MirrorError `disk.*` */
export async function hasOtherShards(layout: DirectoryLayout): Promise<boolean> {
  return (await otherInstances(layout)).some(({ shardIndex }) => shardIndex !== null);
}

/** The names of what lies in another instance's folder; none where it has none. @throws MirrorError `disk.*` */
export function namesIn(folder: string): Promise<string[]> {
  return onDisk('looking for other instances', async () => (await unlessMissing(readdir(folder))) ?? []);
}

/**
 * Moves what all other instances have in staging and trash to where the whole directory has its own, to be finished or removed there.
 * To be called while no instance works in the directory.
 * @throws system errors
 */
export async function gatherStages(layout: DirectoryLayout): Promise<void> {
  const whole = layoutOf(layout.root);
  for (const other of await otherInstances(layout)) {
    if (other.shardIndex === null) continue;
    for (const name of await namesIn(other.staging))
      await rename(join(other.staging, name), join(whole.staging, name));
    for (const name of await namesIn(other.trash))
      await rename(join(other.trash, name), join(whole.trash, name));
  }
}
