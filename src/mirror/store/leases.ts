import { randomUUID } from 'node:crypto';
import { constants, openSync } from 'node:fs';
import { lstat, readdir, rm, unlink } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { z } from 'zod';

import { replaceFile } from '../../lib/disk/durable.ts';
import { lockWithin } from '../../lib/disk/lock.ts';
import { openOwnFile, readOwnDocument, restrict } from '../../lib/disk/own-file.ts';
import { closeAnyway } from '../../lib/disk/read.ts';
import { isMissing, onDisk, systemCode, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { NativeCalls } from '../../lib/native/file-calls.ts';
import { utcTime } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { CLOCK_STEP_MS } from '../../lib/time/wrong-clock.ts';
import type { DirectoryLayout } from './layout.ts';
import { refuseLinks } from './published-tree.ts';

const leaseSchema = z.object({
  id: z.string(),
  /** The name of its holder, for people. */
  holder: z.string(),
  /** Milliseconds since the epoch. */
  takenAtMs: z.number(),
  /** When it ends unless it is released before, in milliseconds since the epoch. */
  untilMs: z.number(),
});

/** A promise that nothing is published for a while, so that a reader such as a backup sees one state of the whole mirror. */
export type Lease = Readonly<z.infer<typeof leaseSchema>>;

/** The longest duration of a lease, in milliseconds: after it publishing goes on, even if the holder died. */
export const LONGEST_LEASE_MS = 24 * 60 * 60 * 1000;

/**
 * Whether a lease holds at a time. If it is longer than a lease can be, or was taken in the future, it was written under a wrong
 * clock and does not hold; a clock that was set back by a little ends none.
 */
export function holdsAt({ takenAtMs, untilMs }: Lease, nowMs: number): boolean {
  return untilMs > nowMs && takenAtMs <= nowMs + CLOCK_STEP_MS && untilMs - takenAtMs <= LONGEST_LEASE_MS;
}

/** A publish waits for a lease. */
export class LeasedError extends MirrorError {
  /** The lease that ends last. */
  readonly lease: Lease;

  constructor(lease: Lease) {
    super('publish.leased', `Nothing was published: ${leaseSentence(lease)}.`, {
      hint: `Try again when it has ended; \`${ownCommand('lease list')}\` shows all of them, \`lease release\` ends one at once.`,
    });
    this.lease = lease;
  }
}

/** A clause that names the lease for which publishing waits. */
export function leaseSentence({ id, holder, untilMs }: Lease): string {
  return `publishing waits for the lease of ${holder} (${id}), at most until ${utcTime(untilMs)}`;
}

const MAX_LEASE_BYTES = 64 * 1024;

/** The suffix of a lease's file; a file without it is still being written. */
const ENDING = '.json';

function leaseFile({ leases }: DirectoryLayout, id: string): string {
  return join(leases, `${id}${ENDING}`);
}

/**
 * The leases by the names of their files. An unreadable or malformed file may be a lease, until it is older than a lease can be;
 * anything but a plain file is none.
 */
async function readLeases({ leases }: DirectoryLayout): Promise<ReadonlyMap<string, Lease>> {
  const found = new Map<string, Lease>();
  for (const name of (await unlessMissing(readdir(leases))) ?? []) {
    const file = join(leases, name);
    const lease = await readOwnDocument(file, MAX_LEASE_BYTES, leaseSchema).catch(() => null);
    // After it was read: a lease that ends now is not one that cannot be understood.
    const stats = await unlessMissing(lstat(file));
    if (stats?.isFile() !== true) continue;
    const id = name.endsWith(ENDING) ? name.slice(0, -ENDING.length) : name;
    const { mtimeMs: takenAtMs } = stats;
    const holder = 'unknown (malformed lease file)';
    const unknown = { id, holder, takenAtMs, untilMs: takenAtMs + LONGEST_LEASE_MS };
    found.set(name, lease?.id === id ? lease : unknown);
  }
  return found;
}

/** The leases that publishing waits for. @param nowMs milliseconds since the epoch @throws MirrorError `disk.*` */
export async function leasesInForce(layout: DirectoryLayout, nowMs: number): Promise<readonly Lease[]> {
  const leases = await onDisk('reading the leases', () => readLeases(layout));
  return [...leases].flatMap(([name, lease]) =>
    name.endsWith(ENDING) && holdsAt(lease, nowMs) ? [lease] : [],
  );
}

/** Refuses to publish while a lease holds. @param nowMs milliseconds since the epoch @throws LeasedError; MirrorError `disk.*` */
export async function refuseLeased(layout: DirectoryLayout, nowMs: number): Promise<void> {
  const [last] = (await leasesInForce(layout, nowMs)).toSorted((a, b) => b.untilMs - a.untilMs);
  if (last !== undefined) throw new LeasedError(last);
}

/**
 * Removes expired leases, and files that no process can still be writing. Others may write in this folder: everything else in it
 * stays, above all folders, as their contents may be swapped for something elsewhere.
 * @param nowMs milliseconds since the epoch
 */
export async function sweepLeases(layout: DirectoryLayout, nowMs: number): Promise<void> {
  for (const [name, lease] of await readLeases(layout))
    if (lease.untilMs <= nowMs) await unlessMissing(unlink(join(layout.leases, name)));
}

/** Every publisher must be able to read a lease, even if its holder has a strict umask. */
function writeLease(layout: DirectoryLayout, lease: Lease): Promise<void> {
  return replaceFile(leaseFile(layout, lease.id), `${JSON.stringify(lease)}\n`, layout.leases, 0o644);
}

/**
 * The gate for every step that readers of the mirror may notice, or that removes files that they may still read: no step begins
 * while a lease holds, and a step that has begun ends before a lease is given.
 *
 * A publisher takes a shared lock first and then looks for leases; the taker of a lease writes it first and then has the
 * exclusive lock for an instant. So either the publish sees the lease, or the taker waits for the end of the publish. The
 * kernel frees a lock when its holder ends, however it ends (flock(2)).
 */
export interface PublishGate {
  /**
   * Runs a step; many may run at once.
   * @param signal ends the wait for the lock; a step that has begun goes on
   * @throws MirrorError `publish.leased` and `disk.*` before it, and the errors of the step
   */
  readonly pass: <T>(step: () => Promise<T>, signal?: AbortSignal) => Promise<T>;
}

/** Another process keeps the lock on publishing. */
export class GateBlockedError extends MirrorError {
  constructor({ gate }: DirectoryLayout) {
    super('disk.failed', `Another program holds the lock on ${gate} and does not release it.`, {
      hint: `Nothing can be published until then. \`fuser ${gate}\` names the program.`,
    });
  }
}

/** How long to try for the lock, in milliseconds: it is free within moments, unless its holder hangs. */
const GATE_PATIENCE_MS = 5000;

/**
 * Opens the gate of a directory.
 * @param now milliseconds since the epoch
 * @param patienceMs how long to wait for the lock, in milliseconds
 */
export function createGate(
  layout: DirectoryLayout,
  native: NativeCalls,
  now: () => number,
  patienceMs = GATE_PATIENCE_MS,
): PublishGate {
  return {
    pass: async (step, signal) => {
      // The lock belongs to the open file, so each step opens its own, also within one process.
      const fd = await onDisk('opening the lock on publishing', async () => openGate(layout));
      try {
        if (!(await lockWithin(() => native.tryLockShared(fd), patienceMs, signal)))
          throw new GateBlockedError(layout);
        await refuseLeased(layout, now());
        return await step();
      } finally {
        closeAnyway(fd);
      }
    },
  };
}

/**
 * Makes the lock on publishing. A process that can open it, even only to read it, can stop publishing for any time (flock(2)): the group
 * may do so only while it may also take leases (manual, "Backups").
 * @throws system errors
 */
export async function prepareGate({ gate, leases }: DirectoryLayout): Promise<void> {
  const handle = await openOwnFile(gate);
  try {
    const [lock, folder] = await Promise.all([handle.stat(), lstat(leases)]);
    const mayTakeLeases = (folder.mode & constants.S_IWGRP) !== 0 && folder.gid === lock.gid;
    await restrict(handle, mayTakeLeases ? 0o660 : 0o600);
  } finally {
    await handle.close();
  }
}

/**
 * Opens the file to lock: for writing if allowed, as some network file systems require (flock(2)). Blocks no longer than
 * flock(2) on it does, and costs a fraction of a call in a thread.
 * @throws system errors
 */
function openGate({ gate }: DirectoryLayout): number {
  try {
    return openSync(gate, constants.O_RDWR | constants.O_NOFOLLOW);
  } catch (error) {
    if (!isDenied(error)) throw error;
    return openSync(gate, constants.O_RDONLY | constants.O_NOFOLLOW);
  }
}

/** How long a lease waits for a running publish before it is refused, in milliseconds. */
const ACQUIRE_PATIENCE_MS = 120_000;

/**
 * Takes a lease. Once it is taken, no publish is running, and none begins before it ends.
 * @param holder its name, for people
 * @param durationMs milliseconds
 * @param now milliseconds since the epoch
 * @throws MirrorError `directory.unusable`, `lease.not_granted` if a publish does not end, `disk.*`
 */
export async function acquireLease(
  layout: DirectoryLayout,
  native: NativeCalls,
  { holder, durationMs, signal }: { holder: string; durationMs: number; signal: AbortSignal },
  now: () => number,
): Promise<Lease> {
  const fd = await openForLease(layout);
  const takenAtMs = now();
  const lease = { id: randomUUID(), holder, takenAtMs, untilMs: takenAtMs + durationMs };
  try {
    // It holds from now on: running publishes end, and none follows.
    await permitted(layout, 'writing the lease', () => writeLease(layout, lease));
    await waitForPublishes(native, fd, signal);
    const inForce = await leasesInForce(layout, now());
    if (inForce.some(({ id }) => id === lease.id)) return lease;
    throw new MirrorError('lease.not_granted', 'The lease was over before it could be given.', {
      hint: 'It waited for a publish. Someone ended it, or its time was too short.',
    });
  } catch (error) {
    await rm(leaseFile(layout, lease.id), { force: true }).catch(() => {});
    throw error;
  } finally {
    closeAnyway(fd);
  }
}

/**
 * Waits until every process that has passed the gate is done. The lock is released immediately: a holder
 * that is stopped or hangs must not block others.
 */
async function waitForPublishes(native: NativeCalls, fd: number, signal: AbortSignal): Promise<void> {
  const tryOnce = (): boolean => {
    const isFree = native.tryLock(fd);
    if (isFree) native.unlock(fd);
    return isFree;
  };
  if (await lockWithin(tryOnce, ACQUIRE_PATIENCE_MS, signal)) return;
  throw new MirrorError(
    'lease.not_granted',
    `A running publish did not end within ${ACQUIRE_PATIENCE_MS / 1000} s: no lease was taken.`,
    {
      hint: `Try again later. If this persists, \`${ownCommand('status')}\` and the log of the daemon say what it is doing.`,
    },
  );
}

/** @throws MirrorError `directory.unusable`, `disk.*` */
function openForLease(layout: DirectoryLayout): Promise<number> {
  return permitted(layout, 'opening the lock on publishing', async () => {
    await refuseLinks(layout, [relative(layout.root, layout.leases)]);
    try {
      return openGate(layout);
    } catch (error) {
      if (!isMissing(error)) throw error;
      const message = `No version that knows leases has opened ${layout.root} yet.`;
      const hint = `Name the right directory by the setting directory; \`${ownCommand('sync')}\`, or the start of the daemon, makes what leases need.`;
      throw new MirrorError('directory.unusable', message, { cause: error, hint });
    }
  });
}

function isDenied(error: unknown): boolean {
  const code = systemCode(error);
  return code === 'EACCES' || code === 'EPERM' || code === 'EROFS';
}

/** Works on leases, and explains missing permissions. @throws MirrorError `directory.unusable`, `disk.*` */
async function permitted<T>(layout: DirectoryLayout, doing: string, work: () => Promise<T>): Promise<T> {
  try {
    return await onDisk(doing, work);
  } catch (error) {
    const cause = error instanceof MirrorError ? error.cause : null;
    if (!(cause instanceof Error) || !isDenied(cause)) throw error;
    const isReadOnly = systemCode(cause) === 'EROFS';
    throw new MirrorError('directory.unusable', `This user cannot take or end leases: ${cause.message}.`, {
      cause,
      hint: isReadOnly
        ? 'Leases are files in the directory: take them where it is mounted for writing.'
        : `Do it as root or as the user of the daemon, or give this one write permission on ${layout.leases} and read permission on ${layout.gate} (and access to the folders above).`,
    });
  }
}

/** Ends a lease; one that is gone is no error. @throws MirrorError `directory.unusable`, `disk.*` */
export function releaseLease(layout: DirectoryLayout, id: string): Promise<void> {
  return permitted(layout, 'ending the lease', () => rm(leaseFile(layout, id), { force: true }));
}

const LOOK_EVERY_MS = 1000;

/**
 * Watches a lease until `signal` fires or it is lost: it ran out, someone ended it, or a clock was set. Time is measured by the
 * system's clock and by a monotonic one.
 * @param now milliseconds since the epoch
 */
export async function watchLease(
  layout: DirectoryLayout,
  { id, takenAtMs, untilMs }: Lease,
  now: () => number,
  signal: AbortSignal,
): Promise<'held' | 'lost'> {
  const endMs = performance.now() + untilMs - takenAtMs;
  const isHeld = async (): Promise<boolean> =>
    performance.now() < endMs && (await leasesInForce(layout, now())).some((lease) => lease.id === id);
  for (;;) {
    // A lease that cannot be read may have ended.
    if (!(await isHeld().catch(() => false))) return 'lost';
    if (signal.aborted) return 'held';
    await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => {});
  }
}
