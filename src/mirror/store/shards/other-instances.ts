import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { isStale } from '../../../lib/disk/stale.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { owns, type Shard } from '../../plan/shard.ts';
import { type DirectoryLayout, layoutOf } from '../layout.ts';
import { type Intent, readIntentOnce, touchedBy } from '../publish/intent.ts';

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
export async function isShared(layout: DirectoryLayout): Promise<boolean> {
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
 * The targets, of those given, that another instance was about to change when it was cut off. To be asked by who has locked them: what
 * is found then nobody works on.
 * @throws MirrorError `disk.*`
 */
export async function leftUnfinished(layout: DirectoryLayout, paths: readonly string[]): Promise<string[]> {
  const found = new Set<string>();
  for (const { staging } of await otherInstances(layout)) {
    for (const name of await namesIn(staging)) {
      const intent = await onDisk('reading an intent', () => intentThatStays(join(staging, name)));
      for (const path of intent === null ? [] : touchedBy(intent)) if (paths.includes(path)) found.add(path);
    }
  }
  return [...found];
}

/** The intent of another instance's stage; null where there is none, or that instance just removes it, as all of it is done. */
async function intentThatStays(stage: string): Promise<Intent | null> {
  try {
    return await readIntentOnce(stage);
  } catch (error) {
    // Nobody puts another one in its place.
    if (isStale(error)) return null;
    throw error;
  }
}
