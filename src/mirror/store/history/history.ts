import { constants, copyFile, lstat, readdir, utimes, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { statsNow } from '../../../lib/disk/read.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { ownCommand } from '../../../lib/text/own-command.ts';
import { isAhead } from '../../../lib/time/wrong-clock.ts';
import { type Approval, markOf } from '../../plan/guard.ts';
import { treeKey } from '../../plan/record.ts';
import type { Disk, RetentionPolicy } from '../disk.ts';
import { manifestPaths, readManifest, readManifestFile } from '../inventory.ts';
import {
  type DirectoryLayout,
  type HistoryKind,
  historyName,
  manifestPath,
  parseHistoryName,
} from '../layout.ts';
import { formatManifest } from '../manifest-text.ts';
import { byCodeUnits, isUnchanged, type Manifest, type ManifestFile, type TreeChanges } from '../manifest.ts';
import { isTreeAt, publishedTree, type TreePlace } from '../published-tree.ts';
import { type Keeping, STAGED } from '../publish/moves.ts';
import { keepPublished, type Stage } from '../publish/stage.ts';
import { sha256Of } from '../verify/examine.ts';

/** A tree in the history, with the facts that pruning needs. */
export interface Kept {
  /** The target's path below `mirror/`. */
  readonly path: string;
  readonly kind: HistoryKind;
  /** When it left the mirror, in milliseconds since the epoch. */
  readonly atMs: number;
}

/**
 * The states that are no longer kept, the oldest of each target first. A state needs the later ones of its target, which hold
 * its unchanged files: so each stays while an older one does. A state with a time in the future is kept and
 * not counted: its place in the order is unknown.
 * @param clockMs this machine's time, by which states are named, in milliseconds since the epoch
 * @param nowMs milliseconds since the epoch; if two clocks disagree, the earlier time, as a wrong clock must not prune
 */
export function prunable<T extends Kept>(
  kept: readonly T[],
  policy: RetentionPolicy,
  nowMs: number,
  clockMs = nowMs,
): T[] {
  const newestFirst = kept.toSorted((a, b) => b.atMs - a.atMs);
  /** How many later ones of the same target and kind there are. */
  const newer = new Map<string, number>();
  const over = newestFirst.filter(({ path, kind, atMs }) => {
    const retention = policy[kind];
    if (retention.kind === 'off') return true;
    if (retention.kind === 'forever') return false;
    if (retention.kind === 'age') return nowMs - atMs > retention.ageMs;
    if (isAhead(clockMs, atMs)) return false;
    const key = `${kind} ${path}`;
    const count = newer.get(key) ?? 0;
    newer.set(key, count + 1);
    return count >= retention.count;
  });
  const isOver = new Set(over);
  const needsLater = new Set<string>();
  return newestFirst.toReversed().filter((each) => {
    if (!isOver.has(each)) needsLater.add(each.path);
    return !needsLater.has(each.path);
  });
}

/**
 * The tree that was published at a time: the first that left the mirror at or after that time. A tree with a time in the future
 * is found by exactly that time.
 * @param kept the trees of one target
 * @param nowMs milliseconds since the epoch
 */
export function keptAt<T extends Kept>(kept: readonly T[], timeMs: number, nowMs: number): T | null {
  const later = kept.filter(({ atMs }) => atMs === timeMs || (atMs >= timeMs && !isAhead(nowMs, atMs)));
  return later.sort((a, b) => a.atMs - b.atMs)[0] ?? null;
}

/** A tree in the history. */
export interface HistoryEntry extends Kept {
  /** The name of its folder. */
  readonly name: string;
  readonly tree: string;
  /** Its manifest. One of the two may be missing: pruning removes the tree before its manifest. */
  readonly manifest: string;
}

/**
 * Finds the trees in the history, sorted by target and time.
 * @param of the path of a target, below `mirror/`: only its trees; left out for all
 */
export async function readHistory(layout: DirectoryLayout, of?: string): Promise<HistoryEntry[]> {
  return onDisk('reading the history', async () => {
    const entries: HistoryEntry[] = [];
    await collect(layout.history, join(layout.history, of ?? ''), entries);
    const found = entries.filter(({ path }) => path === (of ?? path));
    return found.sort((a, b) => byCodeUnits(a.path, b.path) || a.atMs - b.atMs);
  });
}

/** The targets of kept states, by their manifests, which never change: reading thousands again in each pass would take long. */
const targetsKept = new Map<string, string>();

/** The key of the target of a kept state, whichever name its repository had then; null if its manifest cannot be used. */
export async function targetKept({ manifest: file }: HistoryEntry): Promise<string | null> {
  const known = targetsKept.get(file);
  if (known !== undefined) return known;
  const manifest = await readManifest(file);
  if (manifest === null) return null;
  const key = treeKey(manifest);
  targetsKept.set(file, key);
  return key;
}

/** Forgets the target of a kept state. Call it once its manifest is removed. */
export function forgetKept({ manifest: file }: HistoryEntry): void {
  targetsKept.delete(file);
}

/** How many bytes the history stores for a state: for a replaced one, only the files that left with it. */
export async function storedBytes({ tree }: Pick<HistoryEntry, 'tree'>): Promise<number> {
  let sizeBytes = 0;
  for (const file of (await unlessMissing(readdir(tree, { recursive: true, withFileTypes: true }))) ?? []) {
    const stats = file.isFile() ? await unlessMissing(lstat(join(file.parentPath, file.name))) : null;
    sizeBytes += stats?.size ?? 0;
  }
  return sizeBytes;
}

/** A target's path has at least two segments, so trees are at least that deep. */
const LEAST_DEPTH = 2;

async function collect(root: string, folder: string, entries: HistoryEntry[]): Promise<void> {
  const present = (await unlessMissing(readdir(folder, { withFileTypes: true }))) ?? [];
  const path = relative(root, folder);
  const isTarget = path.split('/').length >= LEAST_DEPTH;
  const found = new Map<string, HistoryEntry>();
  for (const entry of present) {
    const name = entry.isFile() ? entry.name.replace(/\.json$/, '') : entry.name;
    const dated = isTarget ? parseHistoryName(name) : null;
    const tree = join(folder, name);
    if (dated !== null) found.set(name, { path, ...dated, name, tree, manifest: `${tree}.json` });
    else if (entry.isDirectory()) await collect(root, tree, entries);
  }
  // There may be more of them than a call takes arguments.
  for (const entry of found.values()) entries.push(entry);
}

/** The path of a tree of the history, below the directory. */
export function placeOf({ path, name }: HistoryEntry): string {
  return `history/${path}/${name}`;
}

/** The manifest of a tree of the history, even if the tree is gone. @throws MirrorError `history.damaged`, `disk.failed` */
export async function manifestOfEntry(entry: HistoryEntry): Promise<Manifest> {
  const found = await readManifestFile(entry.manifest);
  const { manifest = null, problem = 'it is not there' } = found ?? {};
  if (manifest !== null) return manifest;
  throw new MirrorError(
    'history.damaged',
    `The manifest of ${placeOf(entry)} cannot be used: ${problem ?? ''}.`,
    { hint: `Look at the folder by hand; \`${ownCommand('history list')}\` shows what else is kept.` },
  );
}

/**
 * Finds an intact copy of each of some files of a target: in its published tree, in its history, and then also
 * under any other path that its repository has or had. Every byte of each copy was read.
 * @param path the target's path below `mirror/`
 * @param first the tree to search first
 * @param onFound receives the number of bytes just found
 * @returns the absolute places of the copies by the paths of the files; a file whose bytes are nowhere is left out
 * @throws the reason of `signal`; MirrorError `disk.*`
 */
export async function findCopies(
  layout: DirectoryLayout,
  path: string,
  files: readonly ManifestFile[],
  signal: AbortSignal,
  first: string | null = null,
  onFound: (bytes: number) => void = () => {},
): Promise<ReadonlyMap<string, string>> {
  const missing = Map.groupBy(files, ({ sha256 }) => sha256);
  const copies = new Map<string, string>();
  const targets = new Set<string>();
  /** Takes the missing contents that a tree has. */
  const search = async ({ tree, manifest: file }: FilesOfState, isOwn: boolean): Promise<void> => {
    if (missing.size === 0) return;
    const manifest = await readManifest(file).catch(() => null);
    if (manifest === null && !isOwn) return;
    if (manifest !== null) {
      const key = treeKey(manifest);
      if (isOwn) targets.add(key);
      if (!targets.has(key)) return;
    }
    // A tree that lost its manifest may have a file at the same path.
    for (const { path: name, sha256, sizeBytes } of manifest?.files ?? [...missing.values()].flat()) {
      signal.throwIfAborted();
      const same = missing.get(sha256);
      const copy = join(tree, name);
      if (same === undefined || (await digestOf(copy, sizeBytes)) !== sha256) continue;
      for (const each of same) copies.set(each.path, copy);
      missing.delete(sha256);
      onFound(sizeBytes * same.length);
    }
  };
  const own = [publishedAt(layout, path), ...(await readHistory(layout, path))];
  for (const each of [...own.filter(({ tree }) => tree === first), ...own]) await search(each, true);
  if (missing.size === 0) return copies;
  const others = (await manifestPaths(layout)).map((other) => publishedAt(layout, other));
  for (const each of [...others, ...(await readHistory(layout))]) await search(each, false);
  return copies;
}

type FilesOfState = Pick<HistoryEntry, 'tree' | 'manifest'>;

function publishedAt(layout: DirectoryLayout, path: string): FilesOfState {
  return { tree: publishedTree(layout, path), manifest: manifestPath(layout, path) };
}

/** How many bytes of a file are read at a time. */
const READ_BYTES = 64 * 1024;

/** SHA-256 of a plain file of an expected size, in hexadecimal digits; null if it cannot be read. */
export async function digestOf(file: string, sizeBytes: number): Promise<string | null> {
  const isFile = (await lstat(file).catch(() => null))?.isFile() === true;
  return isFile ? sha256Of(file, sizeBytes, Buffer.allocUnsafe(READ_BYTES)).catch(() => null) : null;
}

/** A state and the one before it, which the history takes. */
export interface ReplacedState {
  readonly manifest: Manifest;
  /** The manifest that the stage was compared with; null if the target was not published. */
  readonly before: Manifest | null;
  /** The approval of its deletions: then the old tree is kept under the rules for trees that are gone from the service. Null for none. */
  readonly approval?: Approval | null;
}

/** Stages what the history will take of the previous state; null for nothing. */
export async function stageHistory(
  disk: Disk,
  stage: Stage,
  place: TreePlace,
  { manifest, before, approval = null }: ReplacedState,
  changes: TreeChanges,
): Promise<Keeping | null> {
  const { target } = stage;
  if (!isTreeAt(place)) return null;
  // A repair alone replaces no state: changes that someone made in the tree are not a state.
  if (before !== null && isUnchanged(changes)) return null;
  const isReplaced = before !== null && approval === null && manifest.files.length > 0;
  const isUnkept = isReplaced && disk.retention.replaced.kind === 'off';
  if (isUnkept && (await keptOf(disk.layout, target, treeKey(manifest))).length === 0) return null;
  const isStaged = before !== null || place.kind === 'link';
  const files = before === null ? 'all' : [...changes.changed, ...changes.removed];
  if (isStaged) await keepPublished(stage, stage.published, files, disk.onProgress);
  // The previous manifest stays in its place until the new one replaces it: it is never absent.
  const hasManifest = await stageKeptManifest(disk, stage, target, before && marked(before, approval));
  const kind = isReplaced ? 'replaced' : 'retired';
  return { place: await freeHistoryPath(disk, target, kind, before), isStaged, hasManifest };
}

/** The states of a target, also under former names: they share their unchanged files with later ones and the published tree. */
async function keptOf(layout: DirectoryLayout, path: string, key: string): Promise<HistoryEntry[]> {
  const kept: HistoryEntry[] = [];
  for (const entry of await readHistory(layout))
    if (entry.path === path || (await targetKept(entry)) === key) kept.push(entry);
  return kept;
}

/** The manifest of a state for the history; null if the mirror's manifest is kept without a mark. */
export function marked(manifest: Manifest, approval: Approval | null): Manifest | null {
  const mark = approval && markOf(approval);
  return mark && { ...manifest, approval: mark };
}

/**
 * Stages a manifest for the history, with the time of the published one: a marked one, or a copy of the published one.
 * @returns false if none is published
 */
export async function stageKeptManifest(
  { layout }: Disk,
  stage: Stage,
  target: string,
  manifest: Manifest | null,
): Promise<boolean> {
  const from = manifestPath(layout, target);
  const to = join(stage.folder, STAGED.keptManifest);
  const stats = statsNow(from);
  // Copying a pipe would never end.
  if (stats === null || (manifest === null && !stats.isFile())) return false;
  if (manifest === null) await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  else await writeFile(to, formatManifest(manifest), { flag: 'wx' });
  await utimes(to, stats.atime, stats.mtime);
  return true;
}

/** How far ahead of the clock a state may be named, in milliseconds: a clock that was further ahead would name all later states, too. */
const MOST_AHEAD_MS = 24 * 3_600_000;

/**
 * A free place in the history, below the root. Clocks go back, and are coarse: a state comes after all earlier ones of its target, or
 * pruning would take the files that those need.
 * @param before the manifest of the state; null for none
 */
export async function freeHistoryPath(
  disk: Disk,
  path: string,
  kind: HistoryKind,
  before: Manifest | null = null,
): Promise<string> {
  const { layout } = disk;
  const nowMs = disk.now();
  // States under a former name are earlier, too, but reading all is only needed once the clock has gone back.
  const isBack = before !== null && isAhead(nowMs, before.publishedAtMs);
  const kept = isBack ? await keptOf(layout, path, treeKey(before)) : await readHistory(layout, path);
  const lastMs = Math.max(0, ...kept.map(({ atMs }) => atMs));
  const isAfter = lastMs >= nowMs && lastMs - nowMs < MOST_AHEAD_MS;
  for (let atMs = isAfter ? lastMs + 1 : nowMs; ; atMs += 1) {
    const place = join(layout.history, path, historyName(atMs, kind));
    if (statsNow(place) === null && statsNow(`${place}.json`) === null) return relative(layout.root, place);
  }
}
