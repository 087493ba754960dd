import { randomUUID } from 'node:crypto';
import { readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';

import { diskError, onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { LeasedError } from '../leases/lease.ts';
import { type Kept, prunable } from '../../plan/retention.ts';
import { removeEmptyFolders } from '../../../lib/disk/durable.ts';
import type { Disk } from '../disk.ts';
import { GateBlockedError } from '../publish/gate.ts';
import { refuseLinks } from '../links.ts';
import { type DirectoryLayout, parseHistoryName } from '../layout.ts';

/** A tree in the history. */
export interface HistoryEntry extends Kept {
  /** The name of its folder. */
  readonly name: string;
  readonly tree: string;
  /** The file of its manifest, which need not be there. */
  readonly manifest: string;
  /** Whether the tree is there: pruning takes it before its manifest. */
  readonly treePresent: boolean;
}

/**
 * Finds everything in the history, sorted by target and time.
 * @param path of a target, as below `mirror/`: looks no further than at what is kept of it, and of targets with longer paths
 */
export async function readHistory(layout: DirectoryLayout, path = ''): Promise<HistoryEntry[]> {
  return onDisk('reading the history', async () => {
    const entries: HistoryEntry[] = [];
    await collect(layout.history, join(layout.history, path), entries);
    return entries.sort((a, b) => (a.path === b.path ? a.atMs - b.atMs : a.path < b.path ? -1 : 1));
  });
}

/** A target's path has two segments at least, so that its trees lie at least so deep. */
const LEAST_DEPTH = 2;

async function collect(root: string, folder: string, entries: HistoryEntry[]): Promise<void> {
  const present = (await unlessMissing(readdir(folder, { withFileTypes: true }))) ?? [];
  const path = relative(root, folder);
  const isTarget = path.split('/').length >= LEAST_DEPTH;
  const names = new Map<string, boolean>();
  for (const entry of present) {
    const name = entry.isFile() ? entry.name.replace(/\.json$/, '') : entry.name;
    const isDated = isTarget && parseHistoryName(name) !== null;
    if (isDated) names.set(name, entry.isDirectory() || names.get(name) === true);
    else if (entry.isDirectory()) await collect(root, join(folder, entry.name), entries);
  }
  for (const [name, treePresent] of names) {
    const dated = parseHistoryName(name);
    if (dated === null) continue;
    const tree = join(folder, name);
    entries.push({ path, ...dated, name, tree, manifest: `${tree}.json`, treePresent });
  }
}

/**
 * Removes what the history keeps no longer: the tree out of sight in one step, then its manifest, then the rest. A lease that is
 * taken meanwhile leaves what is left of it to the next time.
 * @returns what was removed
 */
export async function pruneHistory(
  {
    layout,
    gate,
    serially,
    now,
    retention,
  }: Pick<Disk, 'layout' | 'gate' | 'serially' | 'now' | 'retention'>,
  nowMs: number,
  signal?: AbortSignal,
): Promise<HistoryEntry[]> {
  const removed: HistoryEntry[] = [];
  let failure: unknown = null;
  for (const entry of prunable(await readHistory(layout), retention, nowMs, now())) {
    try {
      await gate.pass(() => remove({ layout, serially }, entry), signal);
      removed.push(entry);
    } catch (error) {
      if (error instanceof LeasedError) break;
      failure ??= error;
      // The others would wait as long for the same lock.
      if (error instanceof GateBlockedError || signal?.aborted === true) break;
    }
  }
  if (failure !== null) throw diskError(failure, 'pruning the history');
  return removed;
}

async function remove(
  { layout, serially }: Pick<Disk, 'layout' | 'serially'>,
  { tree, manifest }: HistoryEntry,
): Promise<void> {
  await refuseLinks(layout, [relative(layout.root, dirname(tree))]);
  const trash = join(layout.trash, `0-${randomUUID()}-${basename(tree)}`);
  const isMoved = await serially(async () => {
    const isThere = (await unlessMissing(rename(tree, trash).then(() => true))) ?? false;
    await rm(manifest, { force: true });
    await removeEmptyFolders(dirname(tree), layout.history);
    return isThere;
  });
  if (isMoved) await rm(trash, { recursive: true, force: true });
}
