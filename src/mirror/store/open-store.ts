import { randomUUID } from 'node:crypto';

import { createSerialQueue } from '../../lib/concurrency/serial-queue.ts';
import type { DirectoryLock } from '../../lib/disk/lock.ts';
import { SharedFlush } from '../../lib/disk/shared-flush.ts';
import { bindNativeCalls, type NativeCalls } from '../../lib/native/file-calls.ts';
import type { RetentionPolicy } from '../plan/retention.ts';
import type { Shard } from '../plan/selection.ts';
import { knownDirectoryId, prepareDirectory, refuseForeignDirectory, usable } from './directory.ts';
import type { Disk, MirrorStore } from './disk.ts';
import { createInventory } from './inventory.ts';
import { type DirectoryLayout, layoutOf } from './layout.ts';
import { examineFileSystem, type FileSystemWants, refuseMounts } from './probes.ts';
import { createGate } from './leases/gate.ts';
import { recover } from './publish/journal.ts';
import { lockForWriting } from './shards.ts';

/** How a store is opened. */
export interface StoreOptions
  extends Pick<FileSystemWants, 'publish'>, Partial<Pick<FileSystemWants, 'nameTwins'>> {
  readonly directory: string;
  /** The share of this instance, among several; left out where it has all. */
  readonly shard?: Shard;
  /** How long a replaced tree stays whole, in milliseconds. */
  readonly readerGraceMs: number;
  readonly retention: RetentionPolicy;
  /** Whether a first mirror may be made beside what is there already; not unless told. */
  readonly adopt?: boolean;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** How long the lock on publishing is waited for, in milliseconds; a minute unless told. */
  readonly gatePatienceMs?: number;
  /** Called whenever bytes were read or written for a pass. */
  readonly onProgress?: () => void;
}

/**
 * Opens the directory for writing: makes its folders, takes its lock, and recovers from what a crash left.
 * @throws MirrorError `directory.unusable`, `directory.locked`
 */
export async function openStore(options: StoreOptions): Promise<MirrorStore> {
  const layout = layoutOf(options.directory, options.shard);
  const native = bindNativeCalls();
  await usable(layout.root, () => refuseForeignDirectory(layout, options.adopt === true));
  // Before anything is made there: what is made below a mount point stays there.
  const ofMounts = await usable(layout.root, () => refuseMounts(layout));
  await prepareDirectory(layout, options.publish === 'link');
  const lock = await usable(layout.root, () => lockForWriting(layout, options.shard ?? null, native));
  try {
    return await storeOn(await diskOf(options, layout, native, lock, ofMounts), options);
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** Recovers from what a crash left in a directory that is locked, and finds out which directory it is. */
async function storeOn(disk: Disk, { shard }: StoreOptions): Promise<MirrorStore> {
  const { layout, linked } = disk;
  const recovered = await recover(disk);
  const inventory = createInventory(layout, shard ?? null, linked);
  const knownId = await usable(layout.root, () => knownDirectoryId(layout));
  const identity = { id: knownId ?? randomUUID(), isNew: knownId === null };
  return { ...disk, ...identity, shard: shard ?? null, inventory, recovered };
}

async function diskOf(
  options: StoreOptions,
  layout: DirectoryLayout,
  native: NativeCalls,
  lock: DirectoryLock,
  ofMounts: readonly string[],
): Promise<Disk> {
  const { publish: mode, nameTwins = 'refuse', retention, readerGraceMs, now, gatePatienceMs } = options;
  const { facts, limits } = await usable(layout.root, () =>
    examineFileSystem(layout, native, { publish: mode, nameTwins }),
  );
  return {
    layout,
    native,
    lock,
    mode,
    canExchange: facts.canExchange,
    timeStepMs: facts.timeStepMs ?? 1,
    limits: [...limits, ...ofMounts],
    flush: new SharedFlush(() => native.syncFileSystem(lock.fd)),
    readerGraceMs,
    retention,
    now,
    onProgress: options.onProgress ?? (() => {}),
    gate: createGate(layout, native, now, gatePatienceMs),
    serially: createSerialQueue().run,
    unfinished: new Map(),
    inUse: new Set(),
    linked: new Map(),
    searched: { atMs: null },
  };
}
