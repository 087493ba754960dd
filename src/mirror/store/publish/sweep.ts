import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { onDisk } from '../../../lib/errors/disk-errors.ts';
import { LeasedError } from '../leases/lease.ts';
import type { RetentionPolicy } from '../../plan/retention.ts';
import { leavesTree } from './apply-intent.ts';
import type { PublishContext } from './commit.ts';
import { pruneHistory } from '../history/history.ts';
import { readIntent } from './intent.ts';
import { type DirectoryLayout, layoutOf } from '../layout.ts';
import { isTreeName } from '../published-tree.ts';
import {
  findUnlinkedTrees,
  linkedNames,
  linksOfTargets,
  noteName,
  notedTree,
  removeTree,
} from '../unlinked-trees.ts';
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
  await onDisk('looking for trees that nothing leads to', () => noteUnlinked(context));
  const pruned = await withCommonLock(layout, context.native, () =>
    pruneHistory(context, retention, historyNowMs, signal),
  );
  return pruned.map(({ path, name }) => `${path}/${name}`);
}

/** A stage in the trash, of which the intent may name a tree, or a note that does; what the history lost has neither. */
interface Trash {
  readonly place: string;
  /** The tree that no link leads to any more. */
  readonly tree: string | null;
  readonly isNote: boolean;
}

async function trashAt(layout: DirectoryLayout, name: string): Promise<Trash> {
  const place = join(layout.trash, name);
  const noted = notedTree(name);
  if (noted !== null) return { place, tree: noted, isNote: true };
  const isStage = isTreeName(name.slice(name.indexOf('-') + 1));
  const intent = isStage ? await readIntent(place) : null;
  return { place, tree: intent === null ? null : leavesTree(intent), isNote: false };
}

/** Removes what a publish has left, the tree first: the rest names it. @param linked trees that links lead to, as somebody copied one */
async function removeTrash(
  layout: DirectoryLayout,
  { place, tree }: Trash,
  linked: ReadonlySet<string>,
): Promise<void> {
  if (tree !== null && !linked.has(tree)) await removeTree(layout, tree);
  await rm(place, { recursive: true, force: true });
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
  const trash: Trash[] = [];
  for (const name of due) trash.push(await trashAt(layout, name));
  const { linked, isComplete } = trash.some(({ tree }) => tree !== null)
    ? await linksOfTargets(layout)
    : { linked: new Set<string>(), isComplete: true };
  // A tree whose link somebody has put back since, wherever.
  const allLinked = isComplete && trash.some(({ isNote }) => isNote) ? await linkedNames(layout) : linked;
  try {
    for (const each of trash) {
      if (each.isNote && !isComplete) continue;
      await gate.pass(() => removeTrash(layout, each, each.isNote ? allLinked : linked), signal);
    }
  } catch (error) {
    if (!(error instanceof LeasedError)) throw error;
  }
}

/** How often trees that nothing names are looked for, in milliseconds: it takes a look at every target. */
const SEARCH_EVERY_MS = 24 * 3_600_000;

/**
 * Notes in the trash which trees nothing names, so that they are removed once no reader can be in them any more. Where a target has
 * no files, one of them may be all that is left of it.
 */
async function noteUnlinked({ layout, now, searched, trashUntilMs }: PublishContext): Promise<void> {
  const nowMs = now();
  if (searched.atMs !== null && Math.abs(nowMs - searched.atMs) < SEARCH_EVERY_MS) return;
  const names = await findUnlinkedTrees(layout);
  searched.atMs = nowMs;
  if (names.length === 0 || !(await linksOfTargets(layout)).isComplete) return;
  for (const name of names) await mkdir(join(layout.trash, noteName(name, trashUntilMs())));
}
