import { randomUUID } from 'node:crypto';
import { constants, type FileHandle, lstat, open } from 'node:fs/promises';
import { relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { isMissing, onDisk, systemCode, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { type Lease, LONGEST_LEASE_MS, readLeases, removeLease, writeLease } from './lease.ts';
import { ownCommand } from '../../../lib/text/own-command.ts';
import type { NativeCalls } from '../../../lib/native/file-calls.ts';
import { lockWithin } from '../publish/gate.ts';
import type { DirectoryLayout } from '../layout.ts';
import { refuseLinks } from '../published-tree.ts';
import { interruptedPublishes } from '../publish/commit.ts';

/** How long a publish that is going on may take before no lease is given, in milliseconds. */
const ACQUIRE_PATIENCE_MS = 120_000;

/** A lease that was taken. */
export interface TakenLease {
  readonly lease: Lease;
  /**
   * Targets whose publish was interrupted earlier and is still to be completed: their tree may not be what their manifest says.
   * Null where this user may not see that.
   */
  readonly interrupted: readonly string[] | null;
}

export interface LeaseRequest {
  /** Who takes it, for people. */
  readonly holder: string;
  /** Milliseconds. */
  readonly durationMs: number;
  readonly signal: AbortSignal;
}

/**
 * Takes a lease. When it is there, no publish is going on, and none begins before it ends.
 * @param now milliseconds since the epoch
 * @throws MirrorError `directory.unusable`, `lease.not_granted` when a publish does not come to its end, `disk.*`
 */
export async function acquireLease(
  layout: DirectoryLayout,
  native: NativeCalls,
  { holder, durationMs, signal }: LeaseRequest,
  now: () => number,
): Promise<TakenLease> {
  const handle = await openGate(layout);
  const id = randomUUID();
  try {
    const takenAtMs = now();
    // It holds from now on: what is being published comes to its end, and nothing follows. Its time begins to run after that.
    const untilMs = takenAtMs + Math.min(durationMs + ACQUIRE_PATIENCE_MS, LONGEST_LEASE_MS);
    await write(layout, { id, holder, takenAtMs, untilMs });
    await waitForPublishes(native, handle.fd, signal);
    const grantedAtMs = now();
    const lease = { id, holder, takenAtMs: grantedAtMs, untilMs: grantedAtMs + durationMs };
    await write(layout, lease);
    // If someone ended the first lease meanwhile, publishes may have begun: these must end before the lease is given, too.
    await waitForPublishes(native, handle.fd, signal);
    const interrupted = await interruptedOf(layout);
    await refuseUnseen(layout, lease, now());
    return { lease, interrupted };
  } catch (error) {
    await removeLease(layout, id).catch(() => {});
    throw error;
  } finally {
    await handle.close();
  }
}

/**
 * Waits until whoever has passed the gate has come to the end. The lock is given back at once, without anything between: a holder
 * that is stopped or hangs must block nobody.
 */
async function waitForPublishes(native: NativeCalls, fd: number, signal: AbortSignal): Promise<void> {
  const tryOnce = (): boolean => {
    const isFree = native.tryLock(fd);
    if (isFree) native.unlock(fd);
    return isFree;
  };
  if (!(await lockWithin(tryOnce, ACQUIRE_PATIENCE_MS, signal))) throw notGranted();
}

/** The interrupted publishes; null where this user may not look for them. */
async function interruptedOf(layout: DirectoryLayout): Promise<readonly string[] | null> {
  return onDisk('looking for interrupted work', () =>
    interruptedPublishes({ layout, inUse: new Set() }).catch((error: unknown) => {
      if (isDenied(error)) return null;
      throw error;
    }),
  );
}

/** Makes sure that a publishing process sees a lease. @throws MirrorError `lease.not_granted` */
async function refuseUnseen(layout: DirectoryLayout, { id }: Lease, nowMs: number): Promise<void> {
  const { inForce } = await onDisk('reading the lease back', () => readLeases(layout, nowMs));
  if (inForce.some((lease) => lease.id === id)) return;
  throw new MirrorError('lease.not_granted', 'The lease is not in force although it was written.', {
    hint: 'It was ended meanwhile, its time was over before it began, or its holder has too long a name.',
  });
}

function write(layout: DirectoryLayout, lease: Lease): Promise<void> {
  return onDisk('writing the lease', () => writeLease(layout, lease)).catch((error: unknown) => {
    throw error instanceof MirrorError && isDenied(error.cause) ? denied(layout, error.cause) : error;
  });
}

/** Opens what is locked: for writing where that is allowed, as some network file systems want it (flock(2)). */
async function openGate(layout: DirectoryLayout): Promise<FileHandle> {
  try {
    const { O_NOFOLLOW, O_RDONLY, O_RDWR } = constants;
    const handle = await open(layout.gate, O_RDWR | O_NOFOLLOW).catch((error: unknown) => {
      if (isDenied(error)) return open(layout.gate, O_RDONLY | O_NOFOLLOW);
      throw error;
    });
    await refuseLinks(layout, [relative(layout.root, layout.leases)]);
    return handle;
  } catch (error) {
    if (isDenied(error)) throw denied(layout, error);
    if (!isMissing(error)) throw error;
    const isMirror = (await unlessMissing(lstat(layout.internal))) !== null;
    throw new MirrorError(
      'directory.unusable',
      isMirror
        ? `No workbook-mirror that waits for leases has worked in ${layout.root} yet.`
        : `${layout.root} is not the directory of a mirror: it has no folder .workbook-mirror.`,
      {
        cause: error,
        hint: `Name the right one by the setting directory; \`${ownCommand('sync')}\`, or the start of the daemon, makes what leases need.`,
      },
    );
  }
}

function isDenied(error: unknown): boolean {
  const code = systemCode(error);
  return code === 'EACCES' || code === 'EPERM' || code === 'EROFS';
}

function denied({ leases, gate }: DirectoryLayout, cause: unknown): MirrorError {
  const why = cause instanceof Error ? cause.message : 'not permitted';
  return new MirrorError('directory.unusable', `This user cannot take or end leases: ${why}.`, {
    cause,
    hint: `Do it as root or as the user of the daemon, or give this one write permission on ${leases} and read permission on ${gate} (and access to the folders above).`,
  });
}

function notGranted(): MirrorError {
  return new MirrorError(
    'lease.not_granted',
    `A publish that is going on did not end within ${ACQUIRE_PATIENCE_MS / 1000} s: no lease was taken.`,
    {
      hint: `Try again later. If it stays so, \`${ownCommand('status')}\` and the log of the daemon say what it is doing.`,
    },
  );
}

/** Ends a lease. @throws MirrorError `directory.unusable`, `disk.*` */
export async function releaseLease(layout: DirectoryLayout, id: string): Promise<void> {
  try {
    await onDisk('ending the lease', () => removeLease(layout, id));
  } catch (error) {
    if (error instanceof MirrorError && isDenied(error.cause)) throw denied(layout, error.cause);
    throw error;
  }
}

const LOOK_EVERY_MS = 1000;

/**
 * Watches a lease until `signal` fires or it is lost: it ran out, someone ended it, or a clock was set. Time is measured by the
 * system's clock and by one that nobody sets.
 * @param now milliseconds since the epoch
 */
export async function watchLease(
  layout: DirectoryLayout,
  { id, takenAtMs, untilMs }: Lease,
  now: () => number,
  signal: AbortSignal,
): Promise<'held' | 'lost'> {
  const endMs = performance.now() + untilMs - takenAtMs;
  const isHeld = async (): Promise<boolean> => {
    const { inForce } = await readLeases(layout, now());
    return performance.now() < endMs && inForce.some((lease) => lease.id === id);
  };
  for (;;) {
    // What cannot be seen may have ended.
    if (!(await isHeld().catch(() => false))) return 'lost';
    if (signal.aborted) return 'held';
    await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => {});
  }
}
