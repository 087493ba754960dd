import { randomUUID } from 'node:crypto';
import { chmod, lstat, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import { unlessMissing } from '../model/disk-errors.ts';
import { type Lease, leasesInForce, LONGEST_LEASE_MS } from '../model/lease.ts';
import { syncDirectory, writeNewFile } from './durable.ts';
import type { DirectoryLayout } from './layout.ts';

const leaseSchema = z.object({
  id: z.uuid(),
  holder: z.string(),
  takenAtMs: z.number(),
  untilMs: z.number(),
});

const MAX_LEASE_BYTES = 64 * 1024;

/** What the folder of the leases holds. */
export interface LeaseFiles {
  /** Those that hold. */
  readonly inForce: readonly Lease[];
  /** Those that held once. */
  readonly expired: readonly Lease[];
  /** Names of files that cannot be read or understood: they hold nothing. */
  readonly unreadable: readonly string[];
}

/** The name of a lease's file in the folder of the leases. */
function leaseFile(layout: DirectoryLayout, id: string): string {
  return join(layout.leases, `${id}.json`);
}

/**
 * Reads all leases.
 * @param nowMs milliseconds since the epoch
 * @throws what keeps the folder itself from being read, if it is there
 */
export async function readLeases(layout: DirectoryLayout, nowMs: number): Promise<LeaseFiles> {
  const found: Lease[] = [];
  const unreadable: string[] = [];
  for (const name of (await unlessMissing(readdir(layout.leases))) ?? []) {
    const lease = await readLease(join(layout.leases, name));
    if (lease === 'gone') continue;
    if (lease !== null && name === `${lease.id}.json`) found.push(lease);
    else unreadable.push(name);
  }
  const inForce = leasesInForce(found, nowMs);
  return { inForce, expired: found.filter((lease) => !inForce.includes(lease)), unreadable };
}

async function readLease(file: string): Promise<Lease | 'gone' | null> {
  try {
    const found = await unlessMissing(lstat(file));
    if (found === null) return 'gone';
    // A pipe would be waited for, and the folder may be open to other users.
    if (!found.isFile() || found.size > MAX_LEASE_BYTES) return null;
    const text = await unlessMissing(readFile(file, 'utf8'));
    return text === null ? 'gone' : leaseSchema.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

/**
 * Writes a lease, or changes it, in one step that survives a power cut. Whoever publishes must be able to read it, whatever the
 * umask of its holder.
 */
export async function writeLease(layout: DirectoryLayout, lease: Lease): Promise<void> {
  const temporary = join(layout.leases, randomUUID());
  await writeNewFile(temporary, `${JSON.stringify(lease)}\n`);
  try {
    await chmod(temporary, 0o644);
    await rename(temporary, leaseFile(layout, lease.id));
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncDirectory(layout.leases);
}

/** Ends a lease; one that is gone is no error. */
export async function removeLease(layout: DirectoryLayout, id: string): Promise<void> {
  await rm(leaseFile(layout, id), { force: true });
}

/**
 * Removes what holds nothing: leases that are over, and what nobody can still be writing.
 * @param nowMs milliseconds since the epoch
 */
export async function sweepLeases(layout: DirectoryLayout, nowMs: number): Promise<void> {
  const { expired, unreadable } = await readLeases(layout, nowMs);
  for (const { id, untilMs } of expired) {
    if (untilMs <= nowMs) await removeLease(layout, id);
  }
  for (const name of unreadable) {
    const file = join(layout.leases, name);
    const found = await unlessMissing(lstat(file));
    if (found !== null && nowMs - found.mtimeMs > LONGEST_LEASE_MS)
      await rm(file, { recursive: true, force: true });
  }
}
