import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { onDisk } from '../../../lib/errors/disk-errors.ts';
import { LeasedError } from '../leases/lease.ts';
import type { RetentionPolicy } from '../../plan/retention.ts';
import { leavesTree } from './apply-intent.ts';
import type { PublishContext } from './commit.ts';
import { pruneHistory } from '../history/history.ts';
import { manifestPaths } from '../inventory.ts';
import { readIntent } from './intent.ts';
import type { DirectoryLayout } from '../layout.ts';
import { isLinkedTo } from '../published-tree.ts';
import { removeTree } from '../unlinked-trees.ts';
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
  await onDisk('removing replaced trees', () => sweepTrash(context, readerGraceMs, signal));
  const pruned = await pruneHistory(context, retention, historyNowMs, signal);
  return pruned.map(({ path, name }) => `${path}/${name}`);
}

/** Removes what a publish has left, the tree that no link leads to any more first: this names it. */
async function removeTrash(layout: DirectoryLayout, place: string): Promise<void> {
  const intent = await readIntent(place);
  const tree = intent === null ? null : leavesTree(intent);
  // Somebody may have copied a link.
  if (tree !== null && !(await isLinked(layout, tree))) await removeTree(layout, tree);
  await rm(place, { recursive: true, force: true });
}

async function isLinked(layout: DirectoryLayout, tree: string): Promise<boolean> {
  return (await manifestPaths(layout)).some((path) => isLinkedTo(layout, path, tree));
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
  try {
    for (const name of due) await gate.pass(() => removeTrash(layout, join(layout.trash, name)), signal);
  } catch (error) {
    if (!(error instanceof LeasedError)) throw error;
  }
}
