import { constants, openSync } from 'node:fs';

import { lockWithin } from '../../../lib/disk/lock.ts';
import { closeAnyway } from '../../../lib/disk/read.ts';
import { diskError } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import type { NativeCalls } from '../../../lib/native/file-calls.ts';
import type { DirectoryLayout } from '../layout.ts';
import { lastLease, LeasedError, leasesInForce } from './lease.ts';

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
   * Runs a step; many at once may.
   * @param signal ends the wait for the lock; a step that was begun goes on
   * @throws MirrorError `publish.leased` and `disk.*` before it, and whatever the step throws
   */
  readonly pass: <T>(step: () => Promise<T>, signal?: AbortSignal) => Promise<T>;
}

/** Somebody has the lock on publishing and does not let go of it. */
export class GateBlockedError extends MirrorError {
  constructor({ gate }: DirectoryLayout) {
    super('disk.failed', `Another program holds the lock on ${gate} and does not let go.`, {
      hint: `Nothing can be published meanwhile. \`fuser ${gate}\` names the program.`,
    });
  }
}

/** How long the lock is tried for again, in milliseconds: it is free within moments, unless its holder hangs. */
const GATE_PATIENCE_MS = 60_000;

/** How long it is tried for again after that was in vain, in milliseconds, until it was free once. */
const BLOCKED_PATIENCE_MS = 500;

/**
 * Opens the gate of a directory.
 * @param now milliseconds since the epoch
 * @param firstPatienceMs how long the lock is waited for, in milliseconds
 */
export function createGate(
  layout: DirectoryLayout,
  native: NativeCalls,
  now: () => number,
  firstPatienceMs = GATE_PATIENCE_MS,
): PublishGate {
  let patienceMs = firstPatienceMs;
  return {
    pass: async (step, signal) => {
      // The lock belongs to the open file: each step has its own, and those of one process do not stand for one another.
      const fd = openGate(layout);
      try {
        const isLocked = await lockWithin(() => native.tryLockShared(fd), patienceMs, signal);
        patienceMs = isLocked ? firstPatienceMs : Math.min(patienceMs, BLOCKED_PATIENCE_MS);
        if (!isLocked) throw new GateBlockedError(layout);
        const lease = lastLease(await leasesInForce(layout, now()));
        if (lease !== null) throw new LeasedError(lease);
        return await step();
      } finally {
        closeAnyway(fd);
      }
    },
  };
}

/** Blocks for no longer than flock(2) on it does, and costs a fraction of a call in a thread. @throws MirrorError `disk.*` */
function openGate({ gate }: DirectoryLayout): number {
  try {
    return openSync(gate, constants.O_RDWR | constants.O_NOFOLLOW);
  } catch (error) {
    throw diskError(error, 'opening the lock on publishing');
  }
}

/** Removes links to published files if that can be done now; otherwise recovery does it before the next pass. */
export async function removeIfFree(gate: PublishGate, remove: () => Promise<void>): Promise<void> {
  await gate.pass(remove, AbortSignal.timeout(BLOCKED_PATIENCE_MS)).catch(() => {});
}
