import { createHash, randomUUID } from 'node:crypto';
import { open, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';

import { removeEmptyFolders } from '../../../lib/disk/durable.ts';
import { READ_FLAGS } from '../../../lib/disk/own-file.ts';
import { diskError, onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { type Kept, prunable } from '../../plan/retention.ts';
import { targetKey } from '../../upstream/listing.ts';
import type { Disk } from '../disk.ts';
import { manifestPaths, readManifest } from '../inventory.ts';
import { type DirectoryLayout, manifestPath, parseHistoryName } from '../layout.ts';
import { LeasedError } from '../leases/lease.ts';
import { publishedTree, refuseLinks } from '../published-tree.ts';
import { GateBlockedError } from '../leases/gate.ts';

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

/** Finds files that hold certain bytes; what is found was read, every byte. */
export type FindCopy = (sha256: string) => Promise<string | null>;

/** A tree, whole or in part, and where its manifest is. Absolute. */
interface TreeWithManifest {
  readonly tree: string;
  readonly manifest: string;
}

/** Where the bytes of some trees are. */
interface Places {
  /** Absolute places of files, by the SHA-256 that they should have. */
  readonly bySha256: ReadonlyMap<string, readonly string[]>;
  /** Keys of the targets that the trees are of. */
  readonly targets: ReadonlySet<string>;
}

/**
 * Looks for intact copies of a target's files: in its published tree and in all that the history keeps of it, also under the path that
 * it had, or has, as another name of its repository.
 * @param path the target, as below `mirror/`
 */
export async function findCopies(layout: DirectoryLayout, path: string): Promise<FindCopy> {
  const near = await placesIn(await treesOf(layout, [path], path));
  let far: Promise<Places> | null = null;
  const elsewhere = async (): Promise<Places> =>
    placesIn(await treesOf(layout, await manifestPaths(layout), ''), near.targets);
  return async (sha256) => (await intactIn(near, sha256)) ?? intactIn(await (far ??= elsewhere()), sha256);
}

/** The published trees of targets, and what the history keeps below a path. */
async function treesOf(
  layout: DirectoryLayout,
  targets: readonly string[],
  below: string,
): Promise<readonly TreeWithManifest[]> {
  const published = targets.map((path) => ({
    tree: publishedTree(layout, path),
    manifest: manifestPath(layout, path),
  }));
  const kept = await readHistory(layout, below);
  return [...published, ...(below === '' ? kept : kept.filter(({ path }) => path === below))];
}

/** @param only keys of the targets whose trees count; of all unless given */
async function placesIn(
  trees: readonly TreeWithManifest[],
  only: ReadonlySet<string> | null = null,
): Promise<Places> {
  const bySha256 = new Map<string, string[]>();
  const targets = new Set<string>();
  for (const { tree, manifest } of trees) {
    const found = await readManifest(manifest);
    if (found === null) continue;
    const key = targetKey({ repositoryId: found.repository.id, branch: found.branch });
    if (only?.has(key) === false) continue;
    targets.add(key);
    for (const file of found.files) {
      const known = bySha256.get(file.sha256);
      if (known === undefined) bySha256.set(file.sha256, [join(tree, file.path)]);
      else known.push(join(tree, file.path));
    }
  }
  return { bySha256, targets };
}

async function intactIn({ bySha256 }: Places, sha256: string): Promise<string | null> {
  for (const place of bySha256.get(sha256) ?? []) if ((await digestOf(place)) === sha256) return place;
  return null;
}

/** SHA-256 of a plain file in hexadecimal digits; null where none can be read. */
export async function digestOf(file: string): Promise<string | null> {
  try {
    const handle = await open(file, READ_FLAGS);
    try {
      if (!(await handle.stat()).isFile()) return null;
      const hash = createHash('sha256');
      const chunks: AsyncIterable<unknown> = handle.createReadStream({ autoClose: false });
      for await (const chunk of chunks) if (chunk instanceof Uint8Array) hash.update(chunk);
      return hash.digest('hex');
    } finally {
      await handle.close();
    }
  } catch {
    return null;
  }
}
