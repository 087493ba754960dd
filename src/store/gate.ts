import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

import { onDisk } from '../model/disk-errors.ts';
import { MirrorError } from '../model/errors.ts';
import { lastLease, LeasedError } from '../model/lease.ts';
import type { NativeCalls } from '../native/file-calls.ts';
import type { DirectoryLayout } from './layout.ts';
import { readLeases } from './lease-files.ts';

/**
 * What everything passes that readers of the mirror may notice, or that takes away what they may still read: nothing begins while
 * a lease holds, and what has begun comes to its end before a lease is given.
 *
 * Whoever publishes takes a shared lock first and then looks for leases; whoever takes a lease writes it first and then waits once
 * for the exclusive lock. So either the publish sees the lease, or the taker waits for the end of the publish. The kernel frees a
 * lock when its holder ends, however it ends (flock(2)).
 */
export interface PublishGate {
  /** Runs a step; many at once may. @throws MirrorError `publish.leased` before it, `disk.*`, and whatever the step throws */
  readonly pass: <T>(step: () => Promise<T>) => Promise<T>;
  /** Looks for leases without the lock, to spare work that would be for nothing. @throws MirrorError `publish.leased` */
  readonly refuseLeased: () => Promise<void>;
}

/** How long the lock is tried for again, in milliseconds: it is free within moments, unless its holder hangs. */
const GATE_PATIENCE_MS = 60_000;

const TRY_EVERY_MS = 10;

/** Opens the gate of a directory. @param now milliseconds since the epoch */
export function createGate(layout: DirectoryLayout, native: NativeCalls, now: () => number): PublishGate {
  const refuseLeased = async (): Promise<void> => {
    const { inForce } = await onDisk('reading the leases', () => readLeases(layout, now()));
    const lease = lastLease(inForce);
    if (lease !== null) throw new LeasedError(lease);
  };
  return {
    refuseLeased,
    pass: async (step) => {
      // The lock belongs to the open file: each step has its own, and those of one process do not stand for one another.
      const handle = await onDisk('opening the lock on publishing', () => open(layout.gate, 'r+'));
      try {
        if (!(await lockWithin(() => native.tryLockShared(handle.fd), GATE_PATIENCE_MS)))
          throw gateBlocked(layout);
        await refuseLeased();
        return await step();
      } finally {
        await handle.close();
      }
    },
  };
}

/**
 * Tries for a lock until it is free or the patience is at an end.
 * @param patienceMs milliseconds
 * @throws AbortError when `signal` fires meanwhile
 */
export async function lockWithin(
  tryOnce: () => boolean,
  patienceMs: number,
  signal?: AbortSignal,
): Promise<boolean> {
  const startedAtMs = performance.now();
  while (!tryOnce()) {
    if (performance.now() - startedAtMs > patienceMs) return false;
    await sleep(TRY_EVERY_MS, undefined, signal === undefined ? {} : { signal });
  }
  return true;
}

function gateBlocked({ gate }: DirectoryLayout): MirrorError {
  return new MirrorError('disk.failed', `Another program holds the lock on ${gate} and does not let go.`, {
    hint: `Nothing can be published meanwhile. \`fuser ${gate}\` names the program; it is tried again by itself.`,
  });
}
