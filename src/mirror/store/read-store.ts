import { onDisk } from '../../lib/errors/disk-errors.ts';
import { readApprovals } from './approvals.ts';
import { knownDirectoryId } from './directory.ts';
import { createInventory } from './inventory.ts';
import { layoutOf, manifestPath } from './layout.ts';
import { readLeases } from './leases/lease-files.ts';
import { readManifest } from './manifest-file.ts';
import { readRetries } from './retries.ts';
import type { MirrorStore } from './store.ts';

/** The parts of the store that can be read beside the process that writes the mirror directory. */
export type StoreReader = Pick<
  MirrorStore,
  'layout' | 'id' | 'published' | 'inventory' | 'recall' | 'manifest' | 'leases' | 'approvals' | 'retries'
>;

/**
 * Reads the published targets without taking the lock and without writing anything: for `plan`, `status` and `why`.
 */
export async function readStore(directory: string): Promise<StoreReader> {
  const layout = layoutOf(directory);
  const inventory = createInventory(layout);
  return {
    layout,
    id: (await knownDirectoryId(layout)) ?? '',
    published: async () => (await inventory.read()).published,
    inventory: inventory.read,
    recall: inventory.recall,
    manifest: (path) => onDisk('reading a manifest', () => readManifest(manifestPath(layout, path))),
    leases: async () => (await onDisk('reading the leases', () => readLeases(layout, Date.now()))).inForce,
    approvals: () => readApprovals(layout),
    retries: () => readRetries(layout),
  };
}
