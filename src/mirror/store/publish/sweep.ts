import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { onDisk } from '../../../lib/errors/disk-errors.ts';
import { LeasedError } from '../leases/lease.ts';
import type { RetentionPolicy } from '../../plan/retention.ts';
import type { PublishContext } from './commit.ts';
import { pruneHistory } from '../history/history.ts';
import type { PublishGate } from './gate.ts';
import { layoutOf } from '../layout.ts';
import { findOldTrees, removeTree } from '../unlinked-trees.ts';
import { withCommonLock } from '../shards/directory-locks.ts';
import { namesIn } from '../shards/other-instances.ts';
import { sweepLeases } from '../leases/lease-files.ts';

/** The rules for removing replaced trees and history. Times in milliseconds. */
export interface SweepOptions {
  readonly readerGraceMs: number;
  readonly retention: RetentionPolicy;
}

/**
 * Removes leases that are over, replaced trees that no reader needs any more, and trees that the history no longer keeps.
 * @param historyNowMs the time by which the history is judged, in milliseconds since the epoch
 * @returns what the history lost, as `<target>/<name>`
 */
export async function sweep(
  context: PublishContext,
  { readerGraceMs, retention }: SweepOptions,
  historyNowMs: number,
  signal?: AbortSignal,
): Promise<readonly string[]> {
  const { layout, now } = context;
  await context.checkDirectory();
  await onDisk('removing leases that are over', () => sweepLeases(layout, now()));
  await onDisk('removing replaced trees', () => sweepAllTrash(context, readerGraceMs, signal));
  await onDisk('removing trees that no link leads to', () => removeOldTrees(context, readerGraceMs, signal));
  const pruned = await withCommonLock(layout, context.native, () =>
    pruneHistory(context, retention, historyNowMs, signal),
  );
  return pruned.map(({ path, name }) => `${path}/${name}`);
}

/** Also what earlier instances left, where several share the directory. */
async function sweepAllTrash(
  context: PublishContext,
  readerGraceMs: number,
  signal?: AbortSignal,
): Promise<void> {
  const { layout, native } = context;
  await sweepTrash(context, readerGraceMs, signal);
  const whole = layoutOf(layout.root);
  if (layout.shardIndex === null || (await namesIn(whole.trash)).length === 0) return;
  await withCommonLock(layout, native, () =>
    sweepTrash({ ...context, layout: whole }, readerGraceMs, signal),
  );
}

/** Removes trees that are due, and trees that a clock which was ahead would keep for ever; stops once a lease holds. */
async function sweepTrash(
  { layout, gate, now }: PublishContext,
  readerGraceMs: number,
  signal?: AbortSignal,
): Promise<void> {
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
  { layout, gate, now, searched, unrecovered }: PublishContext,
  readerGraceMs: number,
  signal?: AbortSignal,
): Promise<void> {
  const nowMs = now();
  if (searched.atMs !== null && Math.abs(nowMs - searched.atMs) < SEARCH_EVERY_MS) return;
  // A publish that was cut off may still put its link in place.
  if (unrecovered.size > 0) return;
  const names = await findOldTrees(layout, Math.max(readerGraceMs, LEAST_AGE_MS), nowMs);
  searched.atMs = nowMs;
  await removeUnlessLeased(gate, names, signal, (name) => removeTree(layout, name));
}
