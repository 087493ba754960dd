import { access, constants, type FileHandle, readFile, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

import { onDisk, systemCode, unlessMissing } from '../errors/disk-errors.ts';
import { MirrorError } from '../errors/errors.ts';
import type { NativeCalls } from '../native/file-calls.ts';
import { openOwnFile, readOwnText, restrict } from './own-file.ts';

const MAX_TEXT_BYTES = 4096;

/** A held lock. */
export interface DirectoryLock {
  /**
   * Makes sure that the directory still is the one that was locked: it may have been unmounted, moved away or swapped for
   * another, which must not be written to. Also makes sure that no other process has taken the lock: a file server that
   * loses contact with a machine for a while gives its lock to another one.
   * @throws MirrorError `directory.replaced`, `directory.taken`, `disk.*`
   */
  readonly check: () => Promise<void>;
  /** The open lock file, by which its file system can be flushed. */
  readonly fd: number;
  readonly release: () => Promise<void>;
}

/** How a lock is taken. */
interface LockOptions {
  /** The text of processes that share the lock; null for an exclusive one, as by default. */
  readonly shared?: string | null;
  /** Run by the first of several holders, while no other process has the lock. */
  readonly whenAlone?: () => Promise<void>;
}

/**
 * Makes this process the only one that writes to a directory, or one of several with the same text. The kernel frees the lock when
 * the process ends, however it ends, so a crash or a reboot leaves no lock behind. A process that can open the file, even only to read it,
 * can hold the lock (flock(2)): so the file is closed to everyone but its owner.
 * @throws LockedError if another process has it, or others share it with another text; MirrorError `directory.unusable` if it is not
 *   a file; and the errors of `whenAlone`
 */
export async function lockDirectory(
  lockFile: string,
  native: NativeCalls,
  { shared = null, whenAlone }: LockOptions = {},
): Promise<DirectoryLock> {
  const handle = await openOwnFile(lockFile);
  const text = shared ?? `pid ${process.pid} on ${hostname()} since ${new Date().toISOString()}\n`;
  const lock = (): boolean => (shared === null ? native.tryLock(handle.fd) : native.tryLockShared(handle.fd));
  try {
    await restrict(handle, 0o600);
    const isAlone = native.tryLock(handle.fd);
    if (isAlone) {
      await writeText(handle, text);
      await whenAlone?.();
      // An exclusive lock does not become a shared one in one step (flock(2)): another process may come in between, and write its text.
      if (shared !== null) native.unlock(handle.fd);
    }
    // The text stays as it is while the lock is shared.
    const isLocked = shared === null ? isAlone : lock() && (await textIn(lockFile)) === text;
    if (!isLocked) {
      const found = await textIn(lockFile);
      throw new LockedError(
        found,
        `Another workbook-mirror works in this directory (${found.trim() || lockFile}).`,
        'Stop the other one, or give this one a directory of its own: the setting directory.',
      );
    }
    return await heldLock(handle, lockFile, text, lock);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function writeText(handle: FileHandle, text: string): Promise<void> {
  await handle.truncate(0);
  await handle.write(text, 0);
  // If another machine takes the lock away, its holder there should notice immediately.
  await handle.datasync();
}

/** @param relock takes the lock once more */
async function heldLock(
  handle: FileHandle,
  lockFile: string,
  text: string,
  relock: () => boolean,
): Promise<DirectoryLock> {
  const { dev, ino } = await handle.stat();
  return {
    check: () =>
      onDisk('looking at the lock of the directory', async () => {
        const present = await unlessMissing(stat(lockFile));
        if (present?.ino !== ino || present.dev !== dev) throw replaced(lockFile, present !== null);
        // Locking again changes nothing (flock(2)), but a file that a server reopened may have lost its lock.
        const isLocked = relock();
        const found = await textIn(lockFile);
        // A process that had it in between wrote its own text.
        if (!isLocked || found !== text) throw taken(lockFile, found);
      }),
    fd: handle.fd,
    // It is free then, even if the file server was away and no longer knows the file.
    release: () => handle.close().catch(() => {}),
  };
}

/** Another process has the lock. */
export class LockedError extends MirrorError {
  /** The text of its holder, as the file has it. */
  readonly found: string;

  constructor(found: string, message: string, hint: string) {
    super('directory.locked', message, { hint });
    this.found = found;
  }
}

const TRY_EVERY_MS = 10;

/**
 * Tries for a lock until it is free or the time is over.
 * @param patienceMs milliseconds
 * @throws AbortError if `signal` fires before; MirrorError `disk.*` if the file system has no locks
 */
export async function lockWithin(
  tryOnce: () => boolean,
  patienceMs: number,
  signal?: AbortSignal,
): Promise<boolean> {
  const startedAtMs = performance.now();
  while (!(await onDisk('locking a file', async () => tryOnce()))) {
    if (performance.now() - startedAtMs > patienceMs) return false;
    await sleep(TRY_EVERY_MS, undefined, signal === undefined ? {} : { signal });
  }
  return true;
}

function replaced(lockFile: string, isThere: boolean): MirrorError {
  const what = isThere ? 'was replaced by another one' : 'no longer exists';
  return new MirrorError('directory.replaced', `The directory that was locked by ${lockFile} ${what}.`, {
    hint: 'Nothing is written there. Mount or move the right directory back. If another mirror is in its place, the daemon exits with 1, and its supervisor restarts it on that mirror.',
  });
}

function taken(lockFile: string, found: string): MirrorError {
  return new MirrorError(
    'directory.taken',
    `Another workbook-mirror took the lock of this directory (${found.trim() || lockFile}).`,
    {
      hint: 'Nothing more is written there. The file server released the lock, perhaps because it lost this machine. Start workbook-mirror again; with the setting standby it waits.',
    },
  );
}

/** The text of a lock file; empty if it has none. */
async function textIn(lockFile: string): Promise<string> {
  return (await readOwnText(lockFile, MAX_TEXT_BYTES)) ?? '';
}

const FORM = /^pid (\d{1,10}) on (\S+) since (\S+)\n$/;

/**
 * Reads the last holder of a lock. Does not try to take it, which could make a program that is just starting fail.
 * @returns its number, when it took the lock in milliseconds since the epoch, and whether a process with that
 *   number exists; null if unknown: the file cannot be read, is another machine's, or has no holder yet
 */
export async function readLockHolder(lockFile: string) {
  const text = await textIn(lockFile).catch(() => '');
  const [, pid = '', host = '', since = ''] = FORM.exec(text) ?? [];
  const sinceMs = Date.parse(since);
  if (host !== hostname() || Number.isNaN(sinceMs)) return null;
  return { pid: Number(pid), sinceMs, isAlive: isAlive(Number(pid)) && (await mayBeOurs(pid)) };
}

/** Whether this user may not read a lock, so that its holder is unknown. */
export async function isLockHidden(lockFile: string): Promise<boolean> {
  const code = await access(lockFile, constants.R_OK).then(() => null, systemCode);
  return code === 'EACCES' || code === 'EPERM';
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // It exists, and is another user's (kill(2)).
    return systemCode(error) === 'EPERM';
  }
}

/** Whether a process may be one of this program: its number may have been reused since (proc(5)). */
async function mayBeOurs(pid: string): Promise<boolean> {
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => null);
  return command === null || /workbook-mirror|main\.[jt]s/.test(command);
}
