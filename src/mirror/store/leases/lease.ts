import { randomUUID } from 'node:crypto';
import { chmod, lstat, readdir, rename, rm, unlink } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import { syncDirectory, writeNewFile } from '../../../lib/disk/durable.ts';
import { readOwnFile } from '../../../lib/disk/own-file.ts';
import { onDisk, systemCode, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { utcTime } from '../../../lib/text/humanize.ts';
import { ownCommand } from '../../../lib/text/own-command.ts';
import { CLOCK_STEP_MS } from '../../../lib/time/wrong-clock.ts';
import type { DirectoryLayout } from '../layout.ts';

/** A promise that nothing is published for a while, so that a reader such as a backup sees one state of the whole mirror. */
export interface Lease {
  readonly id: string;
  /** Who took it, for people. */
  readonly holder: string;
  /** Milliseconds since the epoch. */
  readonly takenAtMs: number;
  /** When it ends by itself, in milliseconds since the epoch. */
  readonly untilMs: number;
}

/** The longest time that a lease may last, in milliseconds: whatever becomes of its holder, publishing goes on after it. */
export const LONGEST_LEASE_MS = 24 * 60 * 60 * 1000;

/**
 * The leases that still hold. One that ends later than a lease can, or was taken in the future, was written under a clock that
 * was wrong, and holds nothing; a clock that was set back by a little ends none.
 */
export function leasesInForce(leases: readonly Lease[], nowMs: number): Lease[] {
  return leases.filter(
    ({ takenAtMs, untilMs }) =>
      untilMs > nowMs && takenAtMs <= nowMs + CLOCK_STEP_MS && untilMs - takenAtMs <= LONGEST_LEASE_MS,
  );
}

/** The one of some leases that ends last: publishing waits for it. Null when there are none. */
export function lastLease(leases: readonly Lease[]): Lease | null {
  return leases.reduce<Lease | null>(
    (last, lease) => (last === null || lease.untilMs > last.untilMs ? lease : last),
    null,
  );
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

/** A clause that says for which lease publishing waits. */
export function leaseSentence({ id, holder, untilMs }: Lease): string {
  return `publishing waits for the lease of ${holder} (${id}), at most until ${utcTime(untilMs)}`;
}

const leaseSchema = z.object({
  id: z.uuid(),
  holder: z.string(),
  takenAtMs: z.number(),
  untilMs: z.number(),
});

const MAX_LEASE_BYTES = 64 * 1024;

/** The contents of the folder of the leases. */
export interface LeaseFiles {
  /** Those that hold. */
  readonly inForce: readonly Lease[];
  /** Those that held once. */
  readonly expired: readonly Lease[];
  /** Names of what is no lease: it holds nothing. */
  readonly unreadable: readonly string[];
  /** Files that the system does not let us look at: they may hold. */
  readonly unknown: readonly UnknownLease[];
}

/** A file of which cannot be told whether it is a lease. */
export interface UnknownLease {
  readonly name: string;
  readonly error: unknown;
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
  const unknown: UnknownLease[] = [];
  for (const name of (await unlessMissing(readdir(layout.leases))) ?? []) {
    try {
      // What has another ending is still being written, and may be closed to us.
      const lease = name.endsWith('.json') ? await readLease(join(layout.leases, name)) : null;
      if (lease === 'gone') continue;
      if (lease !== null && name === `${lease.id}.json`) found.push(lease);
      else unreadable.push(name);
    } catch (error) {
      unknown.push({ name, error });
    }
  }
  const inForce = leasesInForce(found, nowMs);
  const expired = found.filter((lease) => !inForce.includes(lease));
  return { inForce, expired, unreadable, unknown };
}

/** The leases that hold, as far as this user may see. @throws MirrorError `disk.failed` */
export async function visibleLeases(layout: DirectoryLayout): Promise<readonly Lease[]> {
  return (await onDisk('reading the leases', () => readLeases(layout, Date.now()))).inForce;
}

/** The leases that publishing waits for. @param nowMs milliseconds since the epoch @throws MirrorError `disk.failed` */
export function blockingLeases(layout: DirectoryLayout, nowMs: number): Promise<readonly Lease[]> {
  return onDisk('reading the leases', async () => surelyInForce(await readLeases(layout, nowMs)));
}

/** The leases in force. @throws what keeps a file from being looked at that may be one, where none is known to hold */
function surelyInForce({ inForce, unknown: [first] }: LeaseFiles): readonly Lease[] {
  if (inForce.length === 0 && first !== undefined) throw first.error;
  return inForce;
}

/** Reads a lease; null for what is none. @throws what the system does not let us read */
async function readLease(file: string): Promise<Lease | 'gone' | null> {
  const found = await readOwnFile(file, MAX_LEASE_BYTES);
  if (found.kind === 'missing') return 'gone';
  return found.kind === 'text' ? parseLease(found.text) : null;
}

function parseLease(text: string): Lease | null {
  try {
    return leaseSchema.parse(JSON.parse(text));
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
 * Removes what holds nothing: leases that are over, and files that nobody can still be writing. Others may write in this folder:
 * whatever else stands in it stays, above all folders, as what lies in them may be swapped for something elsewhere.
 * @param nowMs milliseconds since the epoch
 */
export async function sweepLeases(layout: DirectoryLayout, nowMs: number): Promise<void> {
  const { expired, unreadable, unknown } = await readLeases(layout, nowMs);
  for (const { id, untilMs } of expired) {
    if (untilMs <= nowMs) await removeLease(layout, id);
  }
  for (const name of [...unreadable, ...unknown.map((each) => each.name)]) {
    const file = join(layout.leases, name);
    const found = await unlessMissing(lstat(file));
    if (found === null || found.isDirectory() || nowMs - found.mtimeMs <= LONGEST_LEASE_MS) continue;
    await unlessMissing(unlink(file)).catch(leaveFolder);
  }
}

/** A folder took the place of the file meanwhile. */
function leaveFolder(error: unknown): void {
  if (systemCode(error) !== 'EISDIR') throw error;
}
