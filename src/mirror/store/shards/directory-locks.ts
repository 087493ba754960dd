import { constants, openSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import { type DirectoryLock, isLocked, lockDirectory, lockDirectoryShared } from '../../../lib/disk/lock.ts';
import { closeAnyway } from '../../../lib/disk/read.ts';
import { diskError, onDisk, systemCode } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import type { NativeCalls } from '../../../lib/native/file-calls.ts';
import type { DirectoryLayout } from '../layout.ts';
import { lockWithin } from '../publish/gate.ts';

/** For so long an instance waits for its own lock, in milliseconds: another one may just bring to its end what was left there. */
const OWN_PATIENCE_MS = 5000;

/** For so long the lock of the whole is waited for, in milliseconds: a program may just try whether somebody has it. */
const WHOLE_PATIENCE_MS = 500;

const TRY_EVERY_MS = 100;

/**
 * Locks a directory for writing: for this process alone or, for one of several instances, together with the others, and what is its
 * own for this process alone.
 * @throws MirrorError `directory.locked`, `directory.unusable`
 */
export async function lockForWriting(layout: DirectoryLayout, native: NativeCalls): Promise<DirectoryLock> {
  if (layout.shardIndex === null) return lockWhole(layout, native);
  const leaveWhole = await lockDirectoryShared(layout.wholeLock, native);
  try {
    const own = await lockPatiently(layout.lockFile, native, OWN_PATIENCE_MS);
    return {
      ...own,
      release: async () => {
        await own.release();
        await leaveWhole();
      },
    };
  } catch (error) {
    await leaveWhole();
    throw error;
  }
}

async function lockWhole({ wholeLock }: DirectoryLayout, native: NativeCalls): Promise<DirectoryLock> {
  try {
    return await lockPatiently(wholeLock, native, WHOLE_PATIENCE_MS);
  } catch (error) {
    if (!isLocked(error) || !isShared(wholeLock, native)) throw error;
    throw new MirrorError('directory.locked', 'Instances that share this directory work in it.', {
      cause: error,
      hint: 'Give this one a share, too: the setting shard, such as 2/5. Or stop the others first.',
    });
  }
}

/** Whether those who have a lock have it together. */
function isShared(lockFile: string, native: NativeCalls): boolean {
  const fd = openLock(lockFile);
  try {
    return native.tryLockShared(fd);
  } finally {
    closeAnyway(fd);
  }
}

async function lockPatiently(
  lockFile: string,
  native: NativeCalls,
  patienceMs: number,
): Promise<DirectoryLock> {
  const startedAtMs = performance.now();
  for (;;) {
    try {
      return await lockDirectory(lockFile, native);
    } catch (error) {
      if (!isLocked(error) || performance.now() - startedAtMs > patienceMs) throw error;
      await sleep(TRY_EVERY_MS);
    }
  }
}

/** For so long the lock on common work is waited for, in milliseconds; it is held for moments. */
const COMMON_PATIENCE_MS = 60_000;

/**
 * Runs work that only one of several instances may do at a time. The kernel frees the lock when its holder ends (flock(2)).
 * @throws MirrorError `disk.*`, also where somebody has the lock for a minute
 */
export async function withCommonLock<T>(
  layout: DirectoryLayout,
  native: NativeCalls,
  work: () => Promise<T>,
): Promise<T> {
  if (layout.shardIndex === null) return work();
  const fd = openLock(layout.commonLock);
  try {
    const lock = (): Promise<boolean> => lockWithin(() => native.tryLock(fd), COMMON_PATIENCE_MS);
    if (!(await onDisk('locking what instances share', lock)))
      throw new MirrorError(
        'disk.failed',
        `Another program holds the lock on ${layout.commonLock} and does not let go.`,
        {
          hint: `\`fuser ${layout.commonLock}\` names the program on this machine.`,
        },
      );
    return await work();
  } finally {
    closeAnyway(fd);
  }
}

/**
 * Runs work in the place of an instance that does not run now, and keeps it from starting meanwhile.
 * @returns null where it runs
 * @throws MirrorError `disk.*`
 */
export async function inPlaceOf<T>(
  { shardIndex, lockFile }: DirectoryLayout,
  native: NativeCalls,
  work: () => Promise<T>,
): Promise<{ readonly done: T } | null> {
  // Who had the whole directory is gone: it is shared now.
  if (shardIndex === null) return { done: await work() };
  const fd = openLock(lockFile);
  try {
    return (await onDisk('locking for another instance', async () => native.tryLock(fd)))
      ? { done: await work() }
      : null;
  } finally {
    closeAnyway(fd);
  }
}

/** Opens a file to lock it. @throws MirrorError `disk.*` */
export function openLock(path: string): number {
  const flags = constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  try {
    return openOrMake(path, flags);
  } catch (error) {
    throw diskError(error, 'opening a lock');
  }
}

function openOrMake(path: string, flags: number): number {
  try {
    return openSync(path, flags);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
    return openSync(path, flags | constants.O_CREAT, 0o600);
  }
}
