import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { onDisk } from '../../../lib/errors/disk-errors.ts';
import { LeasedError } from '../leases/lease.ts';
import type { Disk } from '../disk.ts';
import { pruneHistory } from '../history/history.ts';
import type { PublishGate } from './gate.ts';
import { layoutOf } from '../layout.ts';
import { findOldTrees, removeTree } from '../unlinked-trees.ts';
import { withCommonLock } from '../shards/directory-locks.ts';
import { namesIn } from '../shards/other-instances.ts';
import { sweepLeases } from '../leases/lease-files.ts';

/**
 * Removes leases that are over, replaced trees that no reader needs any more, and trees that the history no longer keeps.
 * @param historyNowMs the time by which the history is judged, in milliseconds since the epoch
 * @returns what the history lost, as `<target>/<name>`
 */
export async function sweep(
  disk: Disk,
  historyNowMs: number,
  signal?: AbortSignal,
): Promise<readonly string[]> {
  const { layout, native, now } = disk;
  await disk.lock.check();
  await onDisk('removing leases that are over', () => sweepLeases(layout, now()));
  await onDisk('removing replaced trees', () => sweepAllTrash(disk, signal));
  await onDisk('removing trees that no link leads to', () => removeOldTrees(disk, signal));
  const pruned = await withCommonLock(layout, native, () => pruneHistory(disk, historyNowMs, signal));
  return pruned.map(({ path, name }) => `${path}/${name}`);
}

/** Also what earlier instances left, where several share the directory. */
async function sweepAllTrash(disk: Disk, signal?: AbortSignal): Promise<void> {
  const { layout, native } = disk;
  await sweepTrash(disk, signal);
  const whole = layoutOf(layout.root);
  if (layout.shardIndex === null || (await namesIn(whole.trash)).length === 0) return;
  await withCommonLock(layout, native, () => sweepTrash({ ...disk, layout: whole }, signal));
}

/** Removes trees that are due, and trees that a clock which was ahead would keep for ever; stops once a lease holds. */
async function sweepTrash({ layout, gate, now, readerGraceMs }: Disk, signal?: AbortSignal): Promise<void> {
  const nowMs = now();
  const due = (await readdir(layout.trash)).filter((name) => {
    const untilMs = Number(name.slice(0, name.indexOf('-')));
    return untilMs <= nowMs || untilMs > nowMs + readerGraceMs || Number.isNaN(untilMs);
  });
  await removeUnlessLeased(gate, due, signal, (name) =>
    rm(join(layout.trash, name), { recursive: true, force: true }),
  );
}

/** Removes one after the other; stops once a lease holds. */
async function removeUnlessLeased(
  gate: PublishGate,
  names: readonly string[],
  signal: AbortSignal | undefined,
  remove: (name: string) => Promise<void>,
): Promise<void> {
  try {
    for (const name of names) await gate.pass(() => remove(name), signal);
  } catch (error) {
    if (!(error instanceof LeasedError)) throw error;
  }
}

/** How often trees that no link leads to are looked for, in milliseconds: it takes a look at every target. */
const SEARCH_EVERY_MS = 3_600_000;

/** The least time for which such a tree stays, in milliseconds: the publish that is to link to it, or away from it, may take long. */
const LEAST_AGE_MS = 24 * 3_600_000;

/**
 * Removes trees that no link has led to for so long that no reader can be in them any more, as git-sync does with its worktrees
 * (github.com/kubernetes/git-sync, `removeStaleWorktrees`).
 */
async function removeOldTrees(
  { layout, gate, now, readerGraceMs, searched, unfinished }: Disk,
  signal?: AbortSignal,
): Promise<void> {
  const nowMs = now();
  if (searched.atMs !== null && Math.abs(nowMs - searched.atMs) < SEARCH_EVERY_MS) return;
  // A publish that was cut off may still put its link in place.
  if (unfinished.size > 0) return;
  const names = await findOldTrees(layout, Math.max(readerGraceMs, LEAST_AGE_MS), nowMs);
  searched.atMs = nowMs;
  await removeUnlessLeased(gate, names, signal, (name) => removeTree(layout, name));
}
