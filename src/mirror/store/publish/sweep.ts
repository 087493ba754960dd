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
import { isTreeName, treeAt } from '../published-tree.ts';
import { forEachInSlices } from '../slices.ts';
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

/** A stage in the trash, of which the intent may name a tree; what the history lost has no intent. */
interface Trash {
  readonly place: string;
  /** The tree that no link leads to any more. */
  readonly tree: string | null;
}

async function trashAt(layout: DirectoryLayout, name: string): Promise<Trash> {
  const place = join(layout.trash, name);
  const isStage = isTreeName(name.slice(name.indexOf('-') + 1));
  const intent = isStage ? await readIntent(place) : null;
  return { place, tree: intent === null ? null : leavesTree(intent) };
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

/** The trees that the links of targets lead to. */
async function linkedNow(layout: DirectoryLayout): Promise<Set<string>> {
  const names = new Set<string>();
  await forEachInSlices(await manifestPaths(layout), (path) => {
    const place = treeAt(layout, path);
    if ('name' in place) names.add(place.name);
  });
  return names;
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
  const linked = trash.some(({ tree }) => tree !== null) ? await linkedNow(layout) : new Set<string>();
  try {
    for (const each of trash) await gate.pass(() => removeTrash(layout, each, linked), signal);
  } catch (error) {
    if (!(error instanceof LeasedError)) throw error;
  }
}
