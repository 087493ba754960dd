import type { Shard } from '../plan/selection.ts';
import { knownDirectoryId } from './directory.ts';
import type { MirrorStore } from './disk.ts';
import { createInventory } from './inventory.ts';
import { layoutOf } from './layout.ts';

/** The parts of the store that can be read beside the process that writes the mirror directory. */
export type StoreReader = Pick<MirrorStore, 'layout' | 'shard' | 'id' | 'inventory'>;

/**
 * Reads the published targets without taking the lock and without writing anything: for `plan`, `status` and `why`.
 * @param shard the instance whose targets are read; null where one has all
 */
export async function readStore(directory: string, shard: Shard | null = null): Promise<StoreReader> {
  const layout = layoutOf(directory, shard ?? undefined);
  const inventory = createInventory(layout, { shard });
  return { layout, shard, id: (await knownDirectoryId(layout)) ?? '', inventory };
}
