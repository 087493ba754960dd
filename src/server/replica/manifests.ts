import { constants } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { diskError, onDisk } from '../../lib/errors/disk-errors.ts';
import { byCodeUnits, foldersWith, type Manifest } from '../../mirror/store/manifest.ts';
import { unlessAbsent } from './folders.ts';
import type { TargetRecord } from '../../mirror/plan/record.ts';

/** The published mirror, as a replica reads it. Nothing in it is written or locked. */
export interface MirrorPort {
  /** The directory that all else lies in. */
  readonly directory: string;
  /** The folder of the published trees, or of the links to them. */
  readonly mirror: string;
  /** The names of the folders that lead from the directory down to the tree of a target. */
  readonly wayToTree: (target: string) => readonly string[];
  /** The folder of their manifests, `<repository>/<branch>.json`. */
  readonly manifests: string;
  /** Reads a manifest's text; null where it cannot be understood. */
  readonly parseManifest: (text: Buffer) => Manifest | null;
  /**
   * The daemon's records of the targets, by `targetKey`: it verifies unchanged targets without touching the manifest. Empty where
   * there are no records, as in a backup.
   */
  readonly records: () => Promise<ReadonlyMap<string, TargetRecord>>;
}

/** A manifest as it was on disk. */
export interface StampedManifest {
  /** Tells one state of the file from the next. */
  readonly stamp: string;
  /** When the file was written, in milliseconds since the epoch. */
  readonly writtenAtMs: number;
  /** Null where it cannot be understood. */
  readonly manifest: Manifest | null;
}

const SUFFIX = '.json';

function fileOf({ manifests }: MirrorPort, target: string): string {
  return join(manifests, `${target}${SUFFIX}`);
}

/** Sorted paths below `mirror/`. */
export interface ListedTargets {
  /** The targets that have a manifest. */
  readonly targets: readonly string[];
  /** Where something stands that is neither a manifest nor a folder of them, as a link: what it hides is not known. */
  readonly hidden: readonly string[];
}

/**
 * The targets that have a manifest. Other than a folder in it, the folder itself cannot vanish: where
 * it does, the disk does, and that is not to be taken for a mirror of nothing.
 * @throws MirrorError `disk.failed`
 */
export async function listTargets({ manifests }: MirrorPort): Promise<ListedTargets> {
  return onDisk('listing the manifests', async () => {
    const targets: string[] = [];
    const hidden: string[] = [];
    const folders = [''];
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      const listing = readdir(join(manifests, folder), { withFileTypes: true });
      const entries = folder === '' ? await listing : ((await unlessAbsent(listing)) ?? []);
      for (const entry of entries) {
        const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
        if (entry.isDirectory()) folders.push(path);
        else if (path.endsWith(SUFFIX))
          (entry.isFile() ? targets : hidden).push(path.slice(0, -SUFFIX.length));
        else if (!entry.isFile()) hidden.push(path);
      }
    }
    return { targets: targets.sort(byCodeUnits), hidden: hidden.sort(byCodeUnits) };
  });
}

/** Reads one state of a target's manifest; null where there is none. @throws MirrorError `disk.failed` */
export async function readStamped(
  port: MirrorPort,
  target: string,
  knownStamp: string | null = null,
): Promise<StampedManifest | 'known' | null> {
  try {
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    const handle = await unlessAbsent(open(fileOf(port, target), flags));
    if (handle === null) return null;
    try {
      const { dev, ino, size, mtimeNs, ctimeNs } = await handle.stat({ bigint: true });
      const stamp = `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`;
      if (stamp === knownStamp) return 'known';
      // A manifest is replaced, never written into: what is read through one handle is one state.
      const manifest = port.parseManifest(await handle.readFile());
      return { stamp, writtenAtMs: Number(mtimeNs) / 1e6, manifest };
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw diskError(error, 'reading a manifest');
  }
}

/** A file of a tree is at least so deep below `mirror/`: repository, branch, file. What lies higher is somebody's own. */
const LEAST_FILE_DEPTH = 3;

/** Whether a folder holds a file that may be one of a published tree; true also where that cannot be told. */
async function holdsTree(mirror: string, path: string): Promise<boolean> {
  const folders = [path];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const depth = folder.split('/').length + 1;
    try {
      const entries = (await unlessAbsent(readdir(join(mirror, folder), { withFileTypes: true }))) ?? [];
      if (depth >= LEAST_FILE_DEPTH && entries.some((entry) => entry.isFile())) return true;
      for (const entry of entries) if (entry.isDirectory()) folders.push(`${folder}/${entry.name}`);
    } catch {
      return true;
    }
  }
  return false;
}

/**
 * Finds folders below `mirror/` that look like published trees and have no manifest: the topmost of them, sorted. Nobody knows
 * what they are. For a moment, every tree that is published for the first time is one.
 * @param targets paths of the targets that have a manifest, also those whose manifest cannot be read
 * @throws MirrorError `disk.failed`
 */
export async function findUnclaimed({ mirror }: MirrorPort, targets: readonly string[]): Promise<string[]> {
  return onDisk('listing the mirror', async () => {
    const trees = new Set(targets);
    const leading = foldersWith(targets);
    const unclaimed: string[] = [];
    const folders = [''];
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      const listing = readdir(join(mirror, folder), { withFileTypes: true });
      for (const entry of (await unlessAbsent(listing)) ?? []) {
        const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
        if (!entry.isDirectory() || trees.has(path)) continue;
        if (leading.has(path)) folders.push(path);
        else if (await holdsTree(mirror, path)) unclaimed.push(path);
      }
    }
    return unclaimed.sort(byCodeUnits);
  });
}
