import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { readLockHolder } from '../../../lib/disk/lock.ts';
import type { ListedTarget } from '../../plan/record.ts';
import {
  createInventory,
  type Inventory,
  manifestPaths,
  manifestStamp,
  readStampedManifest,
} from '../inventory.ts';
import { kindOf } from '../../file-work/walk.ts';
import { unlessMissing } from '../../../lib/errors/disk-errors.ts';
import type { DirectoryLayout } from '../layout.ts';
import { byCodeUnits, foldersWith } from '../manifest.ts';
import { readJournal } from '../publish/journal.ts';
import { otherInstances } from '../shards.ts';
import { findLost, readTargetList } from '../target-list.ts';
import type { Difference, EntryKind } from './drift.ts';
import { examinePublished } from './examine.ts';

/** How a target stands to its manifest. */
export interface VerifiedTarget {
  /** `<repository>/<branch>`. */
  readonly path: string;
  /** `gone`: no folder stands where the tree belongs. */
  readonly state: 'ok' | 'differs' | 'gone';
  readonly differences: readonly Difference[];
  /** Files and bytes that the manifest lists. */
  readonly files: number;
  readonly sizeBytes: number;
}

/** Something below `mirror/` that belongs to no manifest; where it is a folder, with everything in it. */
export interface Stray {
  /** Below `mirror/`. */
  readonly path: string;
  readonly entry: EntryKind | 'unreadable';
}

/** A manifest of which nothing can be verified. */
export interface UnreadableManifest {
  readonly path: string;
  readonly problem: string;
}

/** The findings of a verification. */
export interface VerifyReport {
  readonly directory: string;
  /** False when it was interrupted: then the rest was not looked at. */
  readonly isComplete: boolean;
  /** How many targets were to be examined; those that were retired meanwhile need none. */
  readonly selected: number;
  readonly targets: readonly VerifiedTarget[];
  readonly unreadableManifests: readonly UnreadableManifest[];
  /** Entries below `mirror/` that belong to no manifest; looked for only when no targets are named. */
  readonly strays: readonly Stray[];
  /** How many targets have a manifest in the whole directory, and how many should have one; null where no number was given. */
  readonly mirrored: number;
  readonly expected: number | null;
  /** Targets of the inventory, of those that were asked for, that are gone with their manifests. */
  readonly lost: readonly ListedTarget[];
  /** The `inventory.json` of the directory; where it is `missing` or `damaged`, nothing tells what is lost. */
  readonly inventory: 'ok' | 'missing' | 'damaged';
  /** The problem with a damaged inventory, as a sentence without its full stop; null where it is not damaged. */
  readonly inventoryProblem: string | null;
  /** The process that has the lock of the directory, such as the daemon; null for none, or where that cannot be told. */
  readonly lockedByPid: number | null;
  readonly readBytes: number;
  readonly durationMs: number;
}

/** A step of a verification. */
export type VerifyEvent =
  | {
      readonly kind: 'started';
      readonly selected: number;
      /** The bytes of all files that are to be read; null where that cannot be told. */
      readonly totalBytes: number | null;
    }
  | { readonly kind: 'read'; readonly bytes: number }
  | { readonly kind: 'examined'; readonly target: VerifiedTarget | UnreadableManifest | null };

/** Which targets are verified, and how. */
export interface VerifyOptions {
  /** The paths of targets; null for everything. */
  readonly chosen: ReadonlySet<string> | null;
  /** How many targets the directory must have; null for any number but none. */
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
  const isEverything = chosen === null;
  const selected = chosen === null ? paths : paths.filter((path) => chosen.has(path));
  const manifests = createInventory(layout);
  const targets: VerifiedTarget[] = [];
  const unreadableManifests: UnreadableManifest[] = [];
  let strays: readonly Stray[] = [];
  let inventory: InventoryFound = { inventory: 'ok', inventoryProblem: null, lost: [] };
  let readBytes = 0;
  const onBytes = (bytes: number): void => {
    readBytes += bytes;
    onEvent({ kind: 'read', bytes });
  };
  onEvent({
    kind: 'started',
    selected: selected.length,
    totalBytes: await bytesOf(manifests, new Set(selected)),
  });
  try {
    for (const path of selected) {
      const target = await verifyTarget({ layout, signal, onBytes }, path);
      if (target !== null && 'problem' in target) unreadableManifests.push(target);
      else if (target !== null) targets.push(target);
      onEvent({ kind: 'examined', target });
    }
    strays = isEverything ? await findStrays(layout) : [];
    inventory = await readInventory(layout, manifests);
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
    ...inventory,
    lost: inventory.lost.filter(({ path }) => chosen?.has(path) !== false),
    lockedByPid: await lockedByPid(layout),
    readBytes,
    durationMs: performance.now() - startedAtMs,
  };
}

/** The other process that works in a directory, as far as can be told. */
export async function lockedByPid({ lockFile }: DirectoryLayout): Promise<number | null> {
  const holder = await readLockHolder(lockFile);
  return holder?.isAlive === true && holder.pid !== process.pid ? holder.pid : null;
}

/** Whether a verification came to its end, everything is as its manifest says, and nothing is missing. */
export function isClean(report: VerifyReport): boolean {
  const { isComplete, targets, unreadableManifests, lost, inventory } = report;
  const isWell = targets.every((target) => target.state === 'ok');
  const isAllThere = hasExpected(report) && lost.length === 0 && inventory !== 'damaged';
  const isAllReadable = unreadableManifests.length === 0;
  return isComplete && isWell && isAllThere && isAllReadable && hasNothingElse(report);
}

/** Whether nothing was found that belongs to no target. */
export function hasNothingElse({ strays }: Pick<VerifyReport, 'strays'>): boolean {
  return strays.length === 0;
}

/** Whether a directory has as many targets as it should; a wrong or an empty folder has none. */
export function hasExpected({ mirrored, expected }: Pick<VerifyReport, 'mirrored' | 'expected'>): boolean {
  return expected === null ? mirrored > 0 : mirrored === expected;
}

/** The paths of the targets that a pull would put right. */
export function damagedTargets(report: VerifyReport): string[] {
  const damaged = report.targets.filter((target) => target.state !== 'ok');
  return [...damaged, ...report.unreadableManifests, ...report.lost].map((target) => target.path).sort();
}

/** The bytes of all files of targets, by the inventory; null where that cannot be told. */
async function bytesOf(manifests: Inventory, paths: ReadonlySet<string>): Promise<number | null> {
  const reading = await manifests.read().catch(() => null);
  if (reading === null) return null;
  const chosen = reading.published.filter(({ path }) => paths.has(path));
  return chosen.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

interface VerifyContext {
  readonly layout: DirectoryLayout;
  readonly signal: AbortSignal;
  readonly onBytes: (bytes: number) => void;
}

/** How long a publish of a target is waited for, and how often it is looked at, in milliseconds. */
const PUBLISH_PATIENCE_MS = 10_000;
const PUBLISH_POLL_MS = 50;

/** How often a target is examined again because it was replaced in between; each time only what changed is read. */
const MAX_REPLACEMENTS = 100;

/**
 * Verifies one target beside a daemon that may be publishing it: a difference counts only if no publish was under way when it was seen.
 * A publish writes its journal, makes its moves, the manifest among them, and removes the journal. So a difference that it makes is seen
 * while the journal is there, or else with another manifest afterwards.
 * @returns null when the target has no manifest any more
 */
async function verifyTarget(
  { layout, signal, onBytes }: VerifyContext,
  path: string,
): Promise<VerifiedTarget | UnreadableManifest | null> {
  const known = new Map<string, string>();
  let replacements = 0;
  let patientUntilMs = Number.POSITIVE_INFINITY;
  for (;;) {
    signal.throwIfAborted();
    const found = await readStampedManifest(layout, path);
    if (found === null) return null;
    const { stamp, manifest, problem } = found;
    if (manifest === null) return { path, problem: problem ?? 'unknown' };
    const options = { depth: 'bytes', signal, onBytes, known } as const;
    const { isGone, differences } = await examinePublished(layout, path, manifest.files, options);
    const state = isGone ? 'gone' : differences.length > 0 ? 'differs' : 'ok';
    const target: VerifiedTarget = { path, state, differences, ...totalsOf(manifest.files) };
    if (state === 'ok') return target;
    const isInChange = (await pathsInChange(layout)).has(path);
    const isReplaced = (await manifestStamp(layout, path)) !== stamp;
    if (isReplaced && (replacements += 1) <= MAX_REPLACEMENTS) {
      patientUntilMs = Number.POSITIVE_INFINITY;
      continue;
    }
    const nowMs = performance.now();
    patientUntilMs = Math.min(patientUntilMs, nowMs + PUBLISH_PATIENCE_MS);
    if (!isInChange || nowMs >= patientUntilMs) return target;
    await pause(PUBLISH_POLL_MS);
  }
}

function totalsOf(files: readonly { readonly sizeBytes: number }[]): { files: number; sizeBytes: number } {
  return { files: files.length, sizeBytes: files.reduce((sum, file) => sum + file.sizeBytes, 0) };
}

type InventoryFound = Pick<VerifyReport, 'inventory' | 'inventoryProblem' | 'lost'>;

/**
 * Reads the inventory, and finds which of its targets are lost. A publish beside this takes no manifest away but to the history, or once
 * the one of its new name is there; so one look will do.
 */
export async function readInventory(layout: DirectoryLayout, manifests: Inventory): Promise<InventoryFound> {
  const found = await readTargetList(layout);
  if (found.kind === 'missing') return { inventory: 'missing', inventoryProblem: null, lost: [] };
  if (found.kind === 'damaged') return { inventory: 'damaged', inventoryProblem: found.problem, lost: [] };
  const isOwn = (): boolean => true;
  const lost = await findLost(layout, found.list, isOwn, () => manifests.read(), Date.now());
  return { inventory: 'ok', inventoryProblem: null, lost };
}

/** Finds the entries below `mirror/` that belong to no manifest, and to no publish that is under way: the topmost ones, sorted. */
async function findStrays(layout: DirectoryLayout): Promise<readonly Stray[]> {
  const strays = await entriesBeside(layout, await manifestPaths(layout));
  if (strays.length === 0) return [];
  // A tree is shown before its manifest, and taken away before it.
  const targets = [...(await pathsInChange(layout)), ...(await manifestPaths(layout))];
  const meets = (one: string, other: string): boolean =>
    one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`);
  const left: Stray[] = [];
  for (const stray of strays) {
    if (targets.some((target) => meets(stray.path, target))) continue;
    // A folder that a move left empty is removed last.
    const stats = await unlessMissing(lstat(join(layout.mirror, stray.path))).catch(() => undefined);
    if (stats !== null) left.push(stray);
  }
  return left;
}

/**
 * Finds entries below `mirror/` beside the trees of some targets and the folders that lead there: only the topmost ones, sorted. Trees are
 * not looked into.
 */
async function entriesBeside(layout: DirectoryLayout, targets: readonly string[]): Promise<Stray[]> {
  const trees = new Set(targets);
  const leading = foldersWith(targets);
  const strays: Stray[] = [];
  const folders = [''];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const name of await namesIn(layout, folder, strays)) {
      const path = folder === '' ? name : `${folder}/${name}`;
      const stats = await unlessMissing(lstat(join(layout.mirror, path))).catch(() => undefined);
      if (stats === null) continue;
      const entry = stats === undefined ? 'unreadable' : kindOf(stats);
      if (entry === 'folder' && leading.has(path) && !trees.has(path)) folders.push(path);
      else if (!trees.has(path)) strays.push({ path, entry });
    }
  }
  return strays.sort((a, b) => byCodeUnits(a.path, b.path));
}

async function namesIn(layout: DirectoryLayout, folder: string, strays: Stray[]): Promise<string[]> {
  try {
    return (await unlessMissing(readdir(join(layout.mirror, folder)))) ?? [];
  } catch {
    strays.push({ path: folder === '' ? '.' : folder, entry: 'unreadable' });
    return [];
  }
}

/**
 * The paths below `mirror/` that a publish has begun to change and not yet brought to its end: between its step and the
 * removal of its journal a tree and its manifest may disagree.
 */
async function pathsInChange(layout: DirectoryLayout): Promise<ReadonlySet<string>> {
  const paths = new Set<string>();
  for (const { staging } of [layout, ...(await otherInstances(layout))]) {
    for (const name of await readdir(staging).catch(() => [])) {
      const journal = await readJournal(join(staging, name)).catch(() => null);
      for (const path of journal?.targets ?? []) paths.add(path);
    }
  }
  return paths;
}
