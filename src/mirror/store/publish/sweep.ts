import { randomUUID } from 'node:crypto';
import { lstat, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';

import { removeEmptyFolders } from '../../../lib/disk/durable.ts';
import { linkNow } from '../../../lib/disk/read.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { toMirrorError } from '../../../lib/errors/errors.ts';
import { CLOCK_STEP_MS } from '../../../lib/time/wrong-clock.ts';
import type { Disk, RetentionPolicy } from '../disk.ts';
import { forgetKept, type HistoryEntry, prunable, readHistory, targetKept } from '../history/history.ts';
import { manifestPaths } from '../inventory.ts';
import type { DirectoryLayout } from '../layout.ts';
import { GateBlockedError, LeasedError, sweepLeases, type PublishGate } from '../leases.ts';
import { isTreeName, linkedTree, refuseLinks, removeTree, treeAt } from '../published-tree.ts';
import { onDiskOfAll, withCommonLock } from '../shards.ts';

/**
 * Removes expired leases, replaced trees that no reader needs any more, and trees that the history no longer keeps.
 * @param historyNowMs the time for judging the history, in milliseconds since the epoch
 * @returns the pruned trees, as `<target>/<name>`, and why something else could not be removed; null if all was
 */
export async function sweep(
  disk: Disk,
  historyNowMs: number,
  signal?: AbortSignal,
): Promise<{ readonly pruned: readonly string[]; readonly failure: Error | null }> {
  const { layout, native, now } = disk;
  await disk.lock.check();
  const removed = await Promise.allSettled([
    onDisk('removing leases that are over', () => sweepLeases(layout, now())),
    onDisk('removing replaced trees', () => onDiskOfAll(disk, 'trash', (each) => sweepTrash(each, signal))),
    onDisk('removing trees that no link leads to', () => removeOldTrees(disk, signal)),
  ]);
  signal?.throwIfAborted();
  const pruned = await withCommonLock(layout, native, () => pruneHistory(disk, historyNowMs, signal));
  const failures = removed.flatMap((each) =>
    each.status === 'rejected' ? [toMirrorError(each.reason)] : [],
  );
  return { pruned: pruned.map(({ path, name }) => `${path}/${name}`), failure: failures[0] ?? null };
}

/** Removes trees that are due, and trees that a clock that was ahead would keep for ever; stops once a lease holds. */
async function sweepTrash({ layout, gate, now, readerGraceMs }: Disk, signal?: AbortSignal): Promise<void> {
  const nowMs = now();
  const due = (await readdir(layout.trash)).filter((name) => {
    const untilMs = Number(name.slice(0, name.indexOf('-')));
    return untilMs <= nowMs || untilMs > nowMs + readerGraceMs + CLOCK_STEP_MS || Number.isNaN(untilMs);
  });
  await removeUnlessLeased(gate, due, signal, (name) =>
    rm(join(layout.trash, name), { recursive: true, force: true }),
  );
}

/** Removes trees in order, also after a failure; stops once a lease holds. @throws the first failure, at the end */
async function removeUnlessLeased<Tree>(
  gate: PublishGate,
  trees: readonly Tree[],
  signal: AbortSignal | undefined,
  remove: (tree: Tree) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  for (const tree of trees) {
    try {
      await gate.pass(() => remove(tree), signal);
    } catch (error) {
      if (error instanceof LeasedError) break;
      failures.push(error);
      // The others would wait as long for the same lock.
      if (error instanceof GateBlockedError || signal?.aborted === true) break;
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** How often to search for unlinked trees, in milliseconds: it reads the place of every target. */
const SEARCH_EVERY_MS = 3_600_000;

/** The shortest life of such a tree, in milliseconds: the publish that changes its link may take long. */
const LEAST_AGE_MS = 24 * 3_600_000;

/**
 * Removes trees that have been unlinked for so long that no reader can still be in them, as git-sync does with its worktrees
 * (github.com/kubernetes/git-sync, `removeStaleWorktrees`).
 */
async function removeOldTrees(
  { layout, gate, now, readerGraceMs, searched, unfinished, linked }: Disk,
  signal?: AbortSignal,
): Promise<void> {
  const nowMs = now();
  if (searched.atMs !== null && Math.abs(nowMs - searched.atMs) < SEARCH_EVERY_MS) return;
  // An interrupted publish may still put its link in place.
  if (unfinished.size > 0) return;
  const names = await findOldTrees(layout, Math.max(readerGraceMs, LEAST_AGE_MS), nowMs);
  searched.atMs = nowMs;
  await removeUnlessLeased(gate, names, signal, async (name) => {
    await removeTree(layout, name);
    linked.delete(name);
  });
}

/**
 * Finds the trees that no link below `mirror/` leads to and that are older than an age. Publishes may go on at the same
 * time. While a target has no tree it finds none: one of them may be all that is left of that target.
 * @param ageMs see {@link restartAge}; a negative age, from a clock that was ahead, counts by its amount. Milliseconds
 * @param nowMs milliseconds since the epoch
 * @returns their names
 * @throws system errors
 */
export async function findOldTrees(
  layout: DirectoryLayout,
  ageMs: number,
  nowMs: number,
): Promise<readonly string[]> {
  const names = await treeNames(layout);
  if (names.length === 0) return [];
  const linked = await linkedNames(layout);
  const old: string[] = [];
  for (const name of names.filter((each) => !linked.has(each))) {
    // Read after the links: a tree whose link moved during that, and was seen in neither place, is young.
    const stats = await unlessMissing(lstat(linkedTree(layout, name)));
    if (stats !== null && Math.abs(nowMs - stats.mtimeMs) > ageMs) old.push(name);
  }
  return old.length > 0 && (await haveAllTrees(layout)) ? old : [];
}

async function haveAllTrees(layout: DirectoryLayout): Promise<boolean> {
  const paths = await manifestPaths(layout);
  return paths.every((path) => ['folder', 'link'].includes(treeAt(layout, path).kind));
}

async function treeNames({ trees }: DirectoryLayout): Promise<string[]> {
  const folders = (await unlessMissing(readdir(trees, { withFileTypes: true }))) ?? [];
  const names: string[] = [];
  for (const folder of folders.filter((each) => each.isDirectory()))
    names.push(...(await readdir(join(trees, folder.name))).filter((name) => name.startsWith(folder.name)));
  return names.filter(isTreeName);
}

/** The last segment of every link below `mirror/`; for the program's own links, the name of the tree. */
async function linkedNames({ mirror }: DirectoryLayout): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  const folders = [mirror];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const entry of (await unlessMissing(readdir(folder, { withFileTypes: true }))) ?? []) {
      const place = join(folder, entry.name);
      if (entry.isDirectory()) folders.push(place);
      else if (entry.isSymbolicLink()) names.add(basename(linkNow(place) ?? ''));
    }
  }
  return names;
}

/**
 * The states that the history no longer keeps. An older state that it keeps, also at another path of its repository, needs the files of
 * later ones.
 * @param path of the one target that is meant, as below `mirror/`; null for all
 * @param clockMs as for {@link prunable}
 */
export async function statesToPrune(
  layout: DirectoryLayout,
  path: string | null,
  policy: RetentionPolicy,
  nowMs: number,
  clockMs = nowMs,
): Promise<HistoryEntry[]> {
  const entries = await readHistory(layout);
  const over = prunable(entries, policy, nowMs, clockMs).filter(
    (entry) => entry.path === (path ?? entry.path),
  );
  if (over.length === 0) return [];
  const isOver = new Set(over);
  const latestMs = Math.max(...over.map(({ atMs }) => atMs));
  const neededSinceMs = new Map<string, number>();
  for (const entry of entries) {
    if (isOver.has(entry) || entry.atMs >= latestMs) continue;
    const key = await targetKept(entry);
    if (key !== null) neededSinceMs.set(key, Math.min(entry.atMs, neededSinceMs.get(key) ?? entry.atMs));
  }
  if (neededSinceMs.size === 0) return over;
  const free: HistoryEntry[] = [];
  for (const entry of over) {
    const sinceMs = neededSinceMs.get((await targetKept(entry)) ?? '');
    if (sinceMs === undefined || sinceMs > entry.atMs) free.push(entry);
  }
  return free;
}

/**
 * Removes states that the history no longer keeps: first moves the tree out of sight in one step, then its manifest, then the rest. If a
 * lease is taken during that, the rest stays until the next time.
 * @param path of the one target that is pruned, as below `mirror/`; null for all
 * @returns what was removed
 */
export async function pruneHistory(
  disk: Pick<Disk, 'layout' | 'gate' | 'serially' | 'now' | 'retention'>,
  nowMs: number,
  signal?: AbortSignal,
  path: string | null = null,
): Promise<HistoryEntry[]> {
  const { layout, gate, now, retention } = disk;
  const states = await statesToPrune(layout, path, retention, nowMs, now());
  const left = Map.groupBy(states, (entry) => entry.path);
  const removed: HistoryEntry[] = [];
  const removeNext = async (entry: HistoryEntry): Promise<void> => {
    const ofTarget = left.get(entry.path) ?? [];
    // An older state, which could not be removed, needs the files of this one.
    if (ofTarget[0] !== entry) return;
    await remove(disk, entry);
    removed.push(...ofTarget.splice(0, 1));
  };
  await onDisk('pruning the history', () => removeUnlessLeased(gate, states, signal, removeNext));
  return removed;
}

async function remove(
  { layout, serially }: Pick<Disk, 'layout' | 'serially'>,
  entry: HistoryEntry,
): Promise<void> {
  const { tree, manifest } = entry;
  await refuseLinks(layout, [relative(layout.root, dirname(tree))]);
  const trash = join(layout.trash, `0-${randomUUID()}-${basename(tree)}`);
  const isMoved = await serially(async () => {
    const isThere = (await unlessMissing(rename(tree, trash).then(() => true))) ?? false;
    await rm(manifest, { force: true });
    forgetKept(entry);
    removeEmptyFolders(dirname(tree), layout.history);
    return isThere;
  });
  if (isMoved) await rm(trash, { recursive: true, force: true });
}
