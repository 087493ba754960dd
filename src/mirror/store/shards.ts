import { constants, open, readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { replaceFile } from '../../lib/disk/durable.ts';
import {
  type DirectoryLock,
  lockDirectory,
  lockDirectoryShared,
  LockedError,
  lockWithin,
  probeLock,
} from '../../lib/disk/lock.ts';
import { readOwnText } from '../../lib/disk/own-file.ts';
import { onDisk, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { NativeCalls } from '../../lib/native/file-calls.ts';
import { owns, type Shard, type ShareReport } from '../plan/selection.ts';
import { shareReportSchema } from '../state/schemas.ts';
import type { Disk } from './disk.ts';
import { type DirectoryLayout, layoutOf } from './layout.ts';

/** For so long a lock is tried for that a program may have just to look at it, in milliseconds. */
const LOOK_PATIENCE_MS = 500;

/** For so long an instance with a share tries for its locks, in milliseconds: the first one has them alone until it has gathered the stages. */
const SHARE_PATIENCE_MS = 5000;

const TRY_EVERY_MS = 100;

/** Instances of another count work in the directory. This one can work there once they have ended. */
export class OtherCountError extends LockedError {}

/** The text that the lock of a directory has while instances with shares have it together. */
function textOf({ count }: Shard): string {
  return `shards of ${count}\n`;
}

function countIn(text: string): string | null {
  return /^shards of (\d+)\n$/.exec(text)?.[1] ?? null;
}

/**
 * Locks a directory for writing: for this process alone or, for one of several instances, its share alone and the whole together with the
 * instances of the same count. The first one to lock the whole gathers the stages of all others.
 * @throws LockedError, also as {@link OtherCountError}; MirrorError `directory.unusable`, and system errors
 */
export async function lockForWriting(
  layout: DirectoryLayout,
  shard: Shard | null,
  native: NativeCalls,
): Promise<DirectoryLock> {
  if (shard === null) return patiently(() => lockWhole(layout, native), LOOK_PATIENCE_MS);
  const whole = await patiently(() => lockTogether(layout, shard, native), SHARE_PATIENCE_MS);
  try {
    const own = await patiently(() => lockDirectory(layout.lockFile, native), SHARE_PATIENCE_MS);
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

/**
 * Finds out whether a directory could be locked for writing now.
 * @returns why not; null where it could be
 * @throws MirrorError `directory.unusable`, and system errors
 */
export async function obstacleToWriting(
  layout: DirectoryLayout,
  shard: Shard | null,
  native: NativeCalls,
): Promise<LockedError | null> {
  try {
    if (shard !== null) await (await lockTogether(layout, shard, native)).release();
  } catch (error) {
    if (error instanceof LockedError) return error;
    throw error;
  }
  return probeLock(layout.lockFile, native);
}

async function lockTogether(
  layout: DirectoryLayout,
  shard: Shard,
  native: NativeCalls,
): Promise<DirectoryLock> {
  const gather = (): Promise<void> => gatherStages(layout);
  try {
    return await lockDirectoryShared(layout.wholeLock, textOf(shard), native, gather);
  } catch (error) {
    if (!(error instanceof LockedError)) throw error;
    const { found } = error;
    const count = countIn(found);
    if (count === null || found === textOf(shard)) throw error;
    throw new OtherCountError(
      found,
      `Instances work in this directory as shards of ${count}, and this one is shard ${shard.index}/${shard.count}.`,
      'Give all the same count by the setting shard. Instances of a new count work once those of the old one have ended.',
    );
  }
}

async function lockWhole(layout: DirectoryLayout, native: NativeCalls): Promise<DirectoryLock> {
  const lock = await lockDirectory(layout.wholeLock, native).catch((error: unknown) => {
    if (!(error instanceof LockedError)) throw error;
    const count = countIn(error.found);
    if (count === null) throw error;
    throw new LockedError(
      error.found,
      `Instances that share this directory work in it, as shards of ${count}.`,
      'Give this one a share, too: the setting shard, such as 2/5. Or stop the others first.',
    );
  });
  try {
    await gatherStages(layout);
    return lock;
  } catch (error) {
    await lock.release();
    throw error;
  }
}

async function patiently(lock: () => Promise<DirectoryLock>, patienceMs: number): Promise<DirectoryLock> {
  const startedAtMs = performance.now();
  for (;;) {
    try {
      return await lock();
    } catch (error) {
      const mostMs = error instanceof OtherCountError ? LOOK_PATIENCE_MS : patienceMs;
      if (!(error instanceof LockedError) || performance.now() - startedAtMs > mostMs) throw error;
      await sleep(TRY_EVERY_MS);
    }
  }
}

/** For so long the lock on common work is waited for, in milliseconds; it is held for moments. */
const COMMON_PATIENCE_MS = 60_000;

/**
 * Runs work that only one of several instances may do at a time. The kernel frees the lock when its holder ends (flock(2)).
 * @throws MirrorError `disk.*`, also where another process has the lock for a minute
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
    const lock = (): Promise<boolean> => lockWithin(() => native.tryLock(handle.fd), COMMON_PATIENCE_MS);
    if (!(await onDisk('locking what instances share', lock)))
      throw new MirrorError(
        'disk.failed',
        `Another program holds the lock on ${commonLock} and does not let go.`,
        { hint: `\`fuser ${commonLock}\` names the program on this machine.` },
      );
    return await work();
  } finally {
    await handle.close().catch(() => {});
  }
}

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

const MAX_REPORT_BYTES = 64 * 1024;

/** Writes how this instance's share stands, for all who ask in the directory. @throws MirrorError `directory.*`, `disk.*` */
export async function writeShareReport(
  { layout, lock }: Pick<Disk, 'layout' | 'lock'>,
  report: ShareReport,
): Promise<void> {
  await lock.check();
  await onDisk('writing how the share stands', () =>
    replaceFile(layout.shareReport, `${JSON.stringify(report)}\n`, layout.staging),
  );
}

/** Reads what the instances that share a directory said of their shares. What cannot be understood counts as nothing. */
export async function readShareReports(layout: DirectoryLayout): Promise<ShareReport[]> {
  const reports: ShareReport[] = [];
  for (const { shareReport } of [layout, ...(await otherInstances(layout))]) {
    const text = await readOwnText(shareReport, MAX_REPORT_BYTES).catch(() => null);
    const { data } = shareReportSchema.safeParse(jsonOf(text ?? ''));
    if (data !== undefined) reports.push(data);
  }
  return reports;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
