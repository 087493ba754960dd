import { constants, open, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { type DirectoryLock, lockDirectory, LockedError, lockWithin } from '../../lib/disk/lock.ts';
import { onDisk, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { NativeCalls } from '../../lib/native/file-calls.ts';
import { owns, type Shard } from '../plan/selection.ts';
import { type DirectoryLayout, layoutOf } from './layout.ts';

/** How long to try for a lock, in milliseconds: a program may hold it just to look at it. */
const LOCK_PATIENCE_MS = 500;

/** The same for one of several instances: the first one holds the whole directory alone until it has gathered the stages. */
const SHARE_PATIENCE_MS = 5000;

const TRY_EVERY_MS = 100;

/** Instances with another count work in the directory. This one can start when they have ended. */
export class OtherCountError extends LockedError {}

/**
 * Locks a directory for writing: for this process alone or, for one of several instances, its share alone, and the whole jointly with
 * the instances of the same count. The first one to lock the whole gathers the stages of all others.
 * @throws LockedError, also as {@link OtherCountError}; MirrorError `directory.unusable`, and system errors
 */
export async function lockForWriting(
  layout: DirectoryLayout,
  shard: Shard | null,
  native: NativeCalls,
): Promise<DirectoryLock> {
  const patienceMs = shard === null ? LOCK_PATIENCE_MS : SHARE_PATIENCE_MS;
  const whole = await patiently(() => lockWhole(layout, shard, native), patienceMs);
  if (shard === null) return whole;
  try {
    const own = await patiently(() => lockDirectory(layout.lockFile, native), patienceMs);
    return {
      fd: own.fd,
      check: async () => {
        await whole.check();
        await own.check();
      },
      release: async () => {
        await own.release();
        await whole.release();
      },
    };
  } catch (error) {
    await whole.release();
    throw error;
  }
}

/** Locks the whole directory: alone, or jointly with the instances whose lock has the same text. */
async function lockWhole(
  layout: DirectoryLayout,
  shard: Shard | null,
  native: NativeCalls,
): Promise<DirectoryLock> {
  const shared = shard === null ? null : `shards of ${shard.count}\n`;
  try {
    return await lockDirectory(layout.wholeLock, native, { shared, whenAlone: () => gatherStages(layout) });
  } catch (error) {
    throw error instanceof LockedError ? lockedByShards(error, shard) : error;
  }
}

/** The error of a lock on the whole, in terms of the setting `shard` if instances with shares hold it. */
function lockedByShards(error: LockedError, shard: Shard | null): LockedError {
  const count = /^shards of (\d+)\n$/.exec(error.found)?.[1];
  if (count === undefined || Number(count) === shard?.count) return error;
  if (shard === null)
    return new LockedError(
      error.found,
      `Instances that share this directory work in it, as shards of ${count}.`,
      'Give this one a shard, too: the setting shard, such as 2/5. Or stop the others first.',
    );
  return new OtherCountError(
    error.found,
    `Instances work in this directory as shards of ${count}, and this one is shard ${shard.index}/${shard.count}.`,
    'Give all the same count by the setting shard. Instances with a new count can start once the old ones have ended.',
  );
}

async function patiently(lock: () => Promise<DirectoryLock>, patienceMs: number): Promise<DirectoryLock> {
  const startedAtMs = performance.now();
  for (;;) {
    try {
      return await lock();
    } catch (error) {
      // Instances of another count do not end within moments.
      const mostMs = error instanceof OtherCountError ? LOCK_PATIENCE_MS : patienceMs;
      if (!(error instanceof LockedError) || performance.now() - startedAtMs > mostMs) throw error;
      await sleep(TRY_EVERY_MS);
    }
  }
}

/** How long to wait for the lock on common work, in milliseconds; it is held for moments. */
const COMMON_PATIENCE_MS = 60_000;

/**
 * Runs work that only one of several instances may do at a time. The kernel frees the lock when its holder ends (flock(2)).
 * @throws MirrorError `disk.*`, also if another process holds the lock for a minute
 */
export async function withCommonLock<T>(
  { shardIndex, commonLock }: DirectoryLayout,
  native: NativeCalls,
  work: () => Promise<T>,
): Promise<T> {
  if (shardIndex === null) return work();
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await onDisk('opening a lock', () => open(commonLock, flags, 0o600));
  try {
    if (!(await lockWithin(() => native.tryLock(handle.fd), COMMON_PATIENCE_MS)))
      throw new MirrorError(
        'disk.failed',
        `Another program holds the lock on ${commonLock} and does not release it.`,
        { hint: `\`fuser ${commonLock}\` names the program on this machine.` },
      );
    return await work();
  } finally {
    await handle.close().catch(() => {});
  }
}

/** The part of the disk that belongs to one instance. */
interface DiskOfOne {
  readonly layout: DirectoryLayout;
  readonly native: NativeCalls;
  readonly inUse: Set<string>;
}

/**
 * Does work on the leftovers of this instance and, if several share the directory, on those that the first one gathered of earlier
 * ones: the latter one instance at a time.
 */
export async function onDiskOfAll<D extends DiskOfOne, T>(
  disk: D,
  folder: 'staging' | 'trash',
  work: (disk: D) => Promise<T>,
): Promise<T[]> {
  const { layout, native } = disk;
  const own = await work(disk);
  const whole = layoutOf(layout.root);
  if (layout.shardIndex === null || (await namesIn(whole[folder])).length === 0) return [own];
  const gathered = { ...disk, layout: whole, inUse: new Set<string>() };
  return [own, await withCommonLock(layout, native, () => work(gathered))];
}

/**
 * The layouts of all other instances that work, or once worked, in a directory: of each share, and of the unsharded one.
 * @throws MirrorError `disk.*`
 */
export async function otherInstances(layout: DirectoryLayout): Promise<DirectoryLayout[]> {
  const others = (await namesIn(layout.shards))
    .filter((name) => /^[1-9]\d{0,4}$/.test(name) && Number(name) !== layout.shardIndex)
    .map((name) => layoutOf(layout.root, { index: Number(name) }));
  return layout.shardIndex === null ? others : [...others, layoutOf(layout.root)];
}

/** The names in another instance's folder; none if it does not exist. @throws MirrorError `disk.*` */
function namesIn(folder: string): Promise<string[]> {
  return onDisk('looking for other instances', async () => (await unlessMissing(readdir(folder))) ?? []);
}

/**
 * Tells which trees in a directory are this instance's: all, unless others share the directory. On a disk of its own an instance
 * keeps trees that now have another owner.
 * @throws MirrorError `disk.*`
 */
export async function ownTreesIn(
  layout: DirectoryLayout,
  shard: Shard | null,
): Promise<(repositoryId: string) => boolean> {
  const others = shard === null ? [] : await otherInstances(layout);
  const isShared = others.some(({ shardIndex }) => shardIndex !== null);
  return (repositoryId) => !isShared || owns(shard, repositoryId);
}

/**
 * Moves all other instances' stages and trash to the folders of the whole directory, to be completed or removed there.
 * Call it while no instance works in the directory.
 * @throws MirrorError `disk.failed`, and system errors
 */
export async function gatherStages(layout: DirectoryLayout): Promise<void> {
  const whole = layoutOf(layout.root);
  for (const other of await otherInstances(layout)) {
    if (other.shardIndex === null) continue;
    // The reports of shares that a single instance takes over would call these silent for ever.
    if (layout.shardIndex === null) await rm(other.shareReport, { force: true });
    for (const folder of ['staging', 'trash'] as const)
      for (const name of await namesIn(other[folder]))
        await rename(join(other[folder], name), join(whole[folder], name));
  }
}
