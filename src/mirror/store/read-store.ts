import { onDisk } from '../../lib/errors/disk-errors.ts';
import { knownDirectoryId } from './directory.ts';
import { createInventory } from './inventory.ts';
import { layoutOf, manifestPath } from './layout.ts';
import { readLeases } from './leases/lease-files.ts';
import { readManifest } from './manifest-file.ts';
import type { Shard } from '../plan/shard.ts';
import { ownTreesIn } from './shards/other-instances.ts';
import { readApprovals, readRetries } from './requests.ts';
import { readFormerAddress } from './target-list.ts';
import type { MirrorStore } from './store.ts';

/** The parts of the store that can be read beside the process that writes the mirror directory. */
export type StoreReader = Pick<
  MirrorStore,
  | 'layout'
  | 'shard'
  | 'id'
  | 'published'
  | 'inventory'
  | 'formerAddress'
  | 'recall'
  | 'manifest'
  | 'leases'
  | 'approvals'
  | 'retries'
>;

/**
 * Reads the published targets without taking the lock and without writing anything: for `plan`, `status` and `why`.
 * @param shard the instance whose targets are read; left out where one has all
 */
export async function readStore(directory: string, shard?: Shard): Promise<StoreReader> {
  const layout = layoutOf(directory, shard);
  const inventory = createInventory(layout, { chooseOwn: ownTreesIn(layout, shard ?? null) });
  return {
    layout,
    shard: shard ?? null,
    id: (await knownDirectoryId(layout)) ?? '',
    published: async () => (await inventory.read()).published,
    inventory: inventory.read,
    formerAddress: () => readFormerAddress(layout),
    recall: inventory.recall,
    manifest: (path) => onDisk('reading a manifest', () => readManifest(manifestPath(layout, path))),
    leases: async () => (await onDisk('reading the leases', () => readLeases(layout, Date.now()))).inForce,
    approvals: () => readApprovals(layout),
    retries: () => readRetries(layout),
  };
}
