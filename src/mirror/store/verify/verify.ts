import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { statsNow } from '../../../lib/disk/read.ts';
import { unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { toMirrorError } from '../../../lib/errors/errors.ts';
import { type EntryKind, kindOf } from '../../file-work/trees.ts';
import type { MirrorStore } from '../disk.ts';
import { findCopies } from '../history/history.ts';
import { stageCopies } from '../history/restore.ts';
import { createInventory, type Inventory, manifestPaths } from '../inventory.ts';
import type { DirectoryLayout } from '../layout.ts';
import { foldersWith } from '../../../lib/paths/file-name.ts';
import { byCodeUnits, type ManifestFile } from '../manifest.ts';
import { publishStage } from '../publish/publish.ts';
import { openStage } from '../publish/stage.ts';
import { checkTargetList, type ListCheck } from '../documents.ts';
import { discardStage, unfinishedPublishes } from '../publish/journal.ts';
import {
  type Difference,
  examineTarget,
  examineWithManifest,
  foreignIn,
  isGone,
  trustOf,
} from './examine.ts';

/** The result for a target. */
export interface VerifiedTarget {
  /** `<repository>/<branch>`. */
  readonly path: string;
  /** `gone`: there is no folder in the place of the tree. */
  readonly state: 'ok' | 'differs' | 'gone';
  readonly differences: readonly Difference[];
  /** Files and bytes that the manifest lists. */
  readonly files: number;
  readonly sizeBytes: number;
}

/** An entry below `mirror/` that belongs to no manifest; a folder includes everything in it. */
export interface Stray {
  /** Below `mirror/`. */
  readonly path: string;
  readonly entry: EntryKind | 'unreadable';
}

/** A manifest that cannot be used for verification. */
export interface UnreadableManifest {
  readonly path: string;
  readonly problem: string;
}

/** The findings of a verification. */
export interface VerifyReport extends ListCheck {
  readonly directory: string;
  /** False if it was interrupted: then the rest was not examined. */
  readonly isComplete: boolean;
  /** How many targets had to be examined, without those that were retired during the run. */
  readonly selected: number;
  readonly targets: readonly VerifiedTarget[];
  readonly unreadableManifests: readonly UnreadableManifest[];
  /** Entries below `mirror/` that belong to no manifest; looked for only when no targets are named. */
  readonly strays: readonly Stray[];
  /** How many targets have a manifest in the whole directory, and how many should have one; null if no number was given. */
  readonly mirrored: number;
  readonly expected: number | null;
  readonly readBytes: number;
  readonly durationMs: number;
}

/** A step of a verification. */
export type VerifyEvent =
  | {
      readonly kind: 'started';
      readonly selected: number;
      /** The total bytes of all files to read; null if unknown. */
      readonly totalBytes: number | null;
    }
  | { readonly kind: 'read'; readonly bytes: number }
  | { readonly kind: 'examined' };

/** Which targets are verified, and how. */
export interface VerifyOptions {
  /** The paths of targets; null for everything. */
  readonly chosen: ReadonlySet<string> | null;
  /** How many targets the directory must have; null for any number except 0. */
  readonly expected: number | null;
  /** Interrupts it; the report then says how far it got. */
  readonly signal: AbortSignal;
  readonly onEvent: (event: VerifyEvent) => void;
}

/** Compares every byte of the published trees with their manifests. Needs neither the service nor the lock, and writes nothing. */
export async function verifyTrees(
  layout: DirectoryLayout,
  { chosen, expected, signal, onEvent }: VerifyOptions,
): Promise<VerifyReport> {
  const startedAtMs = performance.now();
  const paths = await manifestPaths(layout);
  const selected = paths.filter((path) => chosen?.has(path) !== false);
  const inventory = createInventory(layout);
  const targets: VerifiedTarget[] = [];
  const unreadableManifests: UnreadableManifest[] = [];
  let strays: readonly Stray[] = [];
  let list: ListCheck = { inventory: 'ok', inventoryProblem: null, lost: [] };
  let readBytes = 0;
  const onBytes = (bytes: number): void => {
    readBytes += bytes;
    onEvent({ kind: 'read', bytes });
  };
  onEvent({
    kind: 'started',
    selected: selected.length,
    totalBytes: await bytesOf(inventory, new Set(selected)),
  });
  try {
    for (const path of selected) {
      const target = await verifyTarget(layout, path, signal, onBytes);
      if (target !== null && 'problem' in target) unreadableManifests.push(target);
      else if (target !== null) targets.push(target);
      onEvent({ kind: 'examined' });
    }
    list = await checkTargetList({ layout, inventory, now: Date.now });
    strays = chosen === null ? await findStrays(layout, list.lost) : [];
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return {
    directory: layout.root,
    isComplete: !signal.aborted,
    selected: selected.length,
    targets,
    unreadableManifests,
    strays,
    mirrored: paths.length,
    expected,
    ...list,
    lost: list.lost.filter(({ path }) => chosen?.has(path) !== false),
    readBytes,
    durationMs: performance.now() - startedAtMs,
  };
}

/** Whether a verification finished, everything matches its manifest, and nothing is missing or belongs to no manifest. */
export function isClean(report: VerifyReport): boolean {
  const { isComplete, targets, unreadableManifests, strays, lost, inventory } = report;
  const isAllThere = hasExpected(report) && lost.length === 0 && inventory !== 'damaged';
  const isAllWell = targets.every(({ state }) => state === 'ok') && unreadableManifests.length === 0;
  return isComplete && isAllWell && isAllThere && strays.length === 0;
}

/** Whether a directory has as many targets as it should; a wrong or an empty folder has none. */
export function hasExpected({ mirrored, expected }: Pick<VerifyReport, 'mirrored' | 'expected'>): boolean {
  return expected === null ? mirrored > 0 : mirrored === expected;
}

/** The paths of the targets that a pull would repair. */
export function damagedTargets(report: VerifyReport): string[] {
  const damaged = report.targets.filter((target) => target.state !== 'ok');
  return [...damaged, ...report.unreadableManifests, ...report.lost].map((target) => target.path).sort();
}

/** The bytes of all files of targets, by the inventory; null if unknown. */
async function bytesOf(inventory: Inventory, paths: ReadonlySet<string>): Promise<number | null> {
  const reading = await inventory.read().catch(() => null);
  if (reading === null) return null;
  const chosen = reading.published.filter(({ path }) => paths.has(path));
  return chosen.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

/** @returns null if the target no longer has a manifest */
async function verifyTarget(
  layout: DirectoryLayout,
  path: string,
  signal: AbortSignal,
  onBytes: (bytes: number) => void,
): Promise<VerifiedTarget | UnreadableManifest | null> {
  try {
    const found = await examineTarget(layout, path, { depth: 'bytes', signal, onBytes });
    if (found === null) return null;
    const { manifest, problem, differences } = found;
    if (manifest === null) return { path, problem: problem ?? 'unknown' };
    const { files } = manifest;
    const sizeBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
    const facts = { path, files: files.length, sizeBytes };
    if (isGone(differences)) return { ...facts, state: 'gone', differences: [] };
    return { ...facts, state: differences.length > 0 ? 'differs' : 'ok', differences };
  } catch (error) {
    signal.throwIfAborted();
    return { path, problem: toMirrorError(error).message };
  }
}

/**
 * Finds the entries below `mirror/` that belong to no manifest, no running publish, and no lost target, whose next pull replaces its
 * tree: the topmost ones, sorted.
 */
async function findStrays(layout: DirectoryLayout, lost: ListCheck['lost']): Promise<readonly Stray[]> {
  const awaited = lost.map(({ path }) => path);
  const strays = await straysBeside(layout, [...(await manifestPaths(layout)), ...awaited]);
  if (strays.length === 0) return [];
  // A tree is there before its manifest.
  const published = [...(await unfinishedPublishes(layout)).targets, ...(await manifestPaths(layout))];
  const expected = new Set([...published, ...foldersWith(published)]);
  return strays.filter(({ path }) => !expected.has(path));
}

/** Finds entries below `mirror/` other than the trees of some targets and their parent folders. Trees are not searched. */
async function straysBeside(layout: DirectoryLayout, targets: readonly string[]): Promise<Stray[]> {
  const trees = new Set(targets);
  const leading = foldersWith(targets);
  const strays: Stray[] = [];
  const folders = [''];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const read = unlessMissing(readdir(join(layout.mirror, folder), { withFileTypes: true }));
    const entries = await read.catch(() => undefined);
    if (entries === undefined) strays.push({ path: folder === '' ? '.' : folder, entry: 'unreadable' });
    for (const entry of entries ?? []) {
      const path = join(folder, entry.name);
      if (entry.isDirectory() && leading.has(path) && !trees.has(path)) folders.push(path);
      else if (!trees.has(path)) strays.push({ path, entry: kindOf(entry) });
    }
  }
  return strays.sort((a, b) => byCodeUnits(a.path, b.path));
}

/**
 * Repairs a published tree without the service: from its intact files, and from the history.
 * @returns false if some bytes are found nowhere on this disk; then nothing was changed
 * @throws MirrorError `disk.*`, `history.damaged` if someone changed a file after it was found
 */
export async function repairFromDisk(
  store: MirrorStore,
  path: string,
  signal: AbortSignal,
): Promise<boolean> {
  const options = { depth: 'bytes', signal, onBytes: store.onProgress } as const;
  const { manifest = null, differences = [] } =
    (await examineWithManifest(store.layout, path, options)) ?? {};
  if (manifest === null) return false;
  if (differences.length === 0) return true;
  const isTrusted = trustOf(differences);
  const suspects = manifest.files.filter((file) => !isTrusted(file.path));
  const copied = await findCopies(store.layout, path, suspects, signal);
  // A size that contradicts the SHA-256 is an error of the manifest, which a copy would not correct.
  const isFound = ({ path: name, sizeBytes }: ManifestFile): boolean =>
    statsNow(copied.get(name) ?? '')?.size === sizeBytes;
  if (!suspects.every(isFound)) return false;
  const stage = await openStage(store, path);
  try {
    const place = `mirror/${path}`;
    const files = await stageCopies(stage, place, manifest.files, copied, signal, store.onProgress);
    const foreign = foreignIn(differences, manifest.files);
    const next = { manifest: { ...manifest, files }, before: manifest, isDamaged: true, foreign };
    await publishStage(store, stage, { ...next, rewritten: [...copied.keys()] });
    return true;
  } finally {
    await discardStage(store, stage);
  }
}
