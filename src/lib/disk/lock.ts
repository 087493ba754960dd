import { access, constants, type FileHandle, readFile, stat } from 'node:fs/promises';
import { hostname } from 'node:os';

import { onDisk, systemCode, unlessMissing } from '../errors/disk-errors.ts';
import { MirrorError } from '../errors/errors.ts';
import type { NativeCalls } from '../native/file-calls.ts';
import { openOwnFile, readOwnText, restrict } from './own-file.ts';

const MAX_TEXT_BYTES = 4096;

/** A held lock. */
export interface DirectoryLock {
  /**
   * Makes sure that the directory still is the one that was locked: it may have been unmounted, moved away or swapped for
   * another, and nothing is to be written into what stands there now. Also that nobody took the lock meanwhile: a file server that
   * does not hear of a machine for a while gives it to another one.
   * @throws MirrorError `directory.replaced`, `directory.taken`, `disk.*`
   */
  readonly check: () => Promise<void>;
  /** The open lock file, by which its file system can be flushed. */
  readonly fd: number;
  readonly release: () => Promise<void>;
}

/**
 * Makes this process the only one that writes to a directory. The kernel frees the lock when the process ends, however
 * it ends, so a crash or a reboot leaves nothing that blocks. Whoever can open the file, if only to read it, can hold the lock
 * (flock(2)): it is there for its owner alone.
 * @throws MirrorError `directory.locked` when another process has it, `directory.unusable` where the file is none
 */
export async function lockDirectory(lockFile: string, native: NativeCalls): Promise<DirectoryLock> {
  const handle = await openOwnFile(lockFile);
  const text = `pid ${process.pid} on ${hostname()} since ${new Date().toISOString()}\n`;
  try {
    await restrict(handle, 0o600);
    if (!native.tryLock(handle.fd)) throw await lockedBy(handle, lockFile);
    await handle.truncate(0);
    await handle.write(text, 0);
    // Where another machine has the lock taken away, its holder there is to see this at once.
    await handle.datasync();
  } catch (error) {
    await handle.close();
    throw error;
  }
  const { dev, ino } = await handle.stat();
  return {
    check: () =>
      onDisk('looking at the lock of the directory', async () => {
        const [present, found] = await Promise.all([
          unlessMissing(stat(lockFile)),
          readOwnText(lockFile, MAX_TEXT_BYTES),
        ]);
        if (present?.ino !== ino || present.dev !== dev) throw replaced(lockFile, present !== null);
        // To lock what is locked already changes nothing (flock(2)); files that a server opened anew may have lost their lock.
        if (!native.tryLock(handle.fd)) throw taken(lockFile, found ?? '');
        // Who had it meanwhile left a text of its own.
        if (found !== text) throw taken(lockFile, found ?? '');
      }),
    fd: handle.fd,
    release: () => closeLock(handle),
  };
}

/** Whether an error says that another process has the lock. */
export function isLocked(error: unknown): error is MirrorError {
  return error instanceof MirrorError && error.code === 'directory.locked';
}

/**
 * Finds out whether a lock could be taken now: takes it, and gives it back at once.
 * @returns the error `directory.locked` that names who has it; null where nobody does
 * @throws MirrorError `directory.unusable` where the file is none, and system errors
 */
export async function probeLock(lockFile: string, native: NativeCalls): Promise<MirrorError | null> {
  const handle = await openOwnFile(lockFile);
  try {
    return native.tryLock(handle.fd) ? null : await lockedBy(handle, lockFile);
  } finally {
    await handle.close();
  }
}

/**
 * Makes this process one of several that write to a directory together: none of them can be beside one that has locked it for itself.
 * @returns gives the lock back
 * @throws MirrorError `directory.locked` where another process has it for itself, `directory.unusable` where the file is none
 */
export async function lockDirectoryShared(
  lockFile: string,
  native: NativeCalls,
): Promise<() => Promise<void>> {
  const handle = await openOwnFile(lockFile);
  try {
    await restrict(handle, 0o600);
    if (!native.tryLockShared(handle.fd)) throw await lockedBy(handle, lockFile);
    // Whoever wrote there does not have it any more.
    await handle.truncate(0);
  } catch (error) {
    await handle.close();
    throw error;
  }
  return () => closeLock(handle);
}

/** Gives a lock back; also where the file server is away, which does not know the file any more then. */
async function closeLock(handle: FileHandle): Promise<void> {
  await handle.close().catch(() => {});
}

function replaced(lockFile: string, isThere: boolean): MirrorError {
  const what = isThere ? 'is another one now' : 'is not there any more';
  return new MirrorError('directory.replaced', `The directory that was locked by ${lockFile} ${what}.`, {
    hint: 'Nothing is written there. Mount or move the right one back. Where another mirror is in its place, the daemon ends with 1, so that its supervisor starts it on that one.',
  });
}

function taken(lockFile: string, found: string): MirrorError {
  const holder = found.trim();
  return new MirrorError(
    'directory.taken',
    `Another workbook-mirror took the lock of this directory (${holder === '' ? lockFile : holder}).`,
    {
      hint: 'Nothing more is written there. The file server took the lock away, perhaps as this machine was cut off from it; start workbook-mirror again, which waits with the setting standby.',
    },
  );
}

async function lockedBy(handle: FileHandle, lockFile: string): Promise<MirrorError> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(200), 0, 200, 0);
  const holder = buffer.toString('utf8', 0, bytesRead).trim();
  return new MirrorError(
    'directory.locked',
    `Another workbook-mirror works in this directory (${holder || lockFile}).`,
    { hint: 'Stop the other one, or give this one a directory of its own: the setting directory.' },
  );
}

/** Who took the lock of a directory last. */
export interface LockHolder {
  readonly pid: number;
  /** When it took the lock. Milliseconds since the epoch. */
  readonly sinceMs: number;
  /** Whether there is a process of that number. */
  readonly isAlive: boolean;
}

const FORM = /^pid (\d{1,10}) on (\S+) since (\S+)\n$/;

/**
 * Reads who took a lock. Does not try to take it, which could make a program that is just starting fail.
 * @returns null where that cannot be told: the file cannot be read, is another machine's, or is of none yet
 */
export async function readLockHolder(lockFile: string): Promise<LockHolder | null> {
  const text = await readOwnText(lockFile, MAX_TEXT_BYTES).catch(() => null);
  const [, pid = '', host = '', since = ''] = FORM.exec(text ?? '') ?? [];
  const sinceMs = Date.parse(since);
  if (host !== hostname() || Number.isNaN(sinceMs)) return null;
  return { pid: Number(pid), sinceMs, isAlive: isAlive(Number(pid)) && (await mayBeOurs(pid)) };
}

/** Whether this user may not read a lock, so that nobody can say who has it. */
export async function isLockHidden(lockFile: string): Promise<boolean> {
  const code = await access(lockFile, constants.R_OK).then(() => null, systemCode);
  return code === 'EACCES' || code === 'EPERM';
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // It is there, and somebody else's (kill(2)).
    return systemCode(error) === 'EPERM';
  }
}

/** Whether a process may be one of this program: its number may have been given to another since (proc(5)). */
async function mayBeOurs(pid: string): Promise<boolean> {
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => null);
  return command === null || /workbook-mirror|main\.[jt]s/.test(command);
}
