import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { systemCode, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { type EntryKind } from './drift.ts';
import { foldersWith } from '../manifest.ts';
import { byCodeUnits, type Manifest } from '../manifest.ts';
import { kindOf } from '../../file-work/walk.ts';
import { readJournal } from '../publish/journal.ts';
import { type DirectoryLayout, manifestPath } from '../layout.ts';
import { manifestPaths, manifestStamp } from '../inventory.ts';
import { otherInstances } from '../shards/other-instances.ts';
import { manifestProblem, readManifest } from '../manifest-file.ts';

/** A manifest as it is on disk now. */
export interface ManifestOnDisk {
  /** Changes with every replacement of the file. */
  readonly stamp: string;
  /** Null where it cannot be understood or read; then `problem` says why. */
  readonly manifest: Manifest | null;
  readonly problem: string | null;
}

/** Something below `mirror/` that belongs to no manifest; where it is a folder, with everything in it. */
export interface Stray {
  /** Below `mirror/`. */
  readonly path: string;
  readonly entry: EntryKind | 'unreadable';
}

/** How long is waited for a publish to come to its end, and how often it is looked at, in milliseconds. */
export const PUBLISH_PATIENCE_MS = 10_000;
export const PUBLISH_POLL_MS = 50;

/** Reads a target's manifest; null where there is none. The stamp is never younger than what was read. */
export async function readStampedManifest(
  layout: DirectoryLayout,
  path: string,
): Promise<ManifestOnDisk | null> {
  for (;;) {
    const stamp = await manifestStamp(layout, path);
    if (stamp === null) return null;
    try {
      const manifest = await readManifest(manifestPath(layout, path));
      if (manifest !== null) return { stamp, manifest, problem: null };
      // One that was moved away since the look at it is none, and so cannot be understood.
      const problem = await manifestProblem(manifestPath(layout, path));
      if (problem !== null && (await manifestStamp(layout, path)) === stamp)
        return { stamp, manifest, problem };
    } catch (error) {
      return { stamp, manifest: null, problem: systemCode(error) ?? 'unknown error' };
    }
  }
}

/** The entries that belong to no manifest, and to no publish that is on its way either. */
export async function settledStrays(layout: DirectoryLayout, signal: AbortSignal): Promise<readonly Stray[]> {
  const patientUntilMs = performance.now() + PUBLISH_PATIENCE_MS;
  for (;;) {
    signal.throwIfAborted();
    const seen = await findStrays(layout, await manifestPaths(layout));
    if (seen.length === 0) return [];
    const inChange = await pathsInChange(layout);
    const targets = [...inChange, ...(await manifestPaths(layout))];
    const strays: Stray[] = [];
    for (const stray of seen) if (await isStanding(layout, stray.path)) strays.push(stray);
    const settled = strays.filter(({ path }) => !targets.some((target) => meets(path, target)));
    if (settled.length === strays.length || performance.now() >= patientUntilMs) return strays;
    await pause(PUBLISH_POLL_MS);
  }
}

/**
 * Finds entries below `mirror/` that belong to no manifest: only the topmost ones, sorted. Trees are not looked into.
 * @param targets paths of the targets that have a manifest
 */
async function findStrays(layout: DirectoryLayout, targets: readonly string[]): Promise<Stray[]> {
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

/** Whether something still stands at a path below `mirror/`. */
async function isStanding(layout: DirectoryLayout, path: string): Promise<boolean> {
  return (await unlessMissing(lstat(join(layout.mirror, path))).catch(() => undefined)) !== null;
}

/**
 * The paths below `mirror/` that a publish has begun to change and not yet brought to its end: between its step and the
 * removal of its journal a tree and its manifest may disagree.
 */
export async function pathsInChange(layout: DirectoryLayout): Promise<ReadonlySet<string>> {
  const paths = new Set<string>();
  for (const { staging } of [layout, ...(await otherInstances(layout))]) {
    for (const name of await readdir(staging).catch(() => [])) {
      const journal = await readJournal(join(staging, name)).catch(() => null);
      for (const path of journal?.targets ?? []) paths.add(path);
    }
  }
  return paths;
}

/** Whether a path is another one, or lies in it, or holds it. */
function meets(one: string, other: string): boolean {
  return one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`);
}
