import { open, readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { diskError, onDisk } from '../../lib/errors/disk-errors.ts';
import type { TargetRecord } from '../../mirror/plan/record.ts';
import { parseManifest } from '../../mirror/store/manifest-text.ts';
import { foldersWith } from '../../lib/paths/file-name.ts';
import { byCodeUnits } from '../../mirror/store/manifest.ts';
import type { MirroredTarget } from './catalogue.ts';
import { READ_FLAGS, unlessAbsent } from './tree.ts';

/** The published mirror, as a replica reads it. The replica writes and locks nothing in it. */
export interface MirrorPort {
  /** The setting `directory`. */
  readonly directory: string;
  /** The names of the folders that lead from the directory down to the tree of a target. */
  readonly wayToTree: (target: string) => readonly string[];
  /**
   * The daemon's records of the targets, by `targetKey`: it verifies unchanged targets without touching the manifest. Empty if
   * there are no records, as in a backup.
   */
  readonly records: () => Promise<ReadonlyMap<string, TargetRecord>>;
}

/** A target, as read from its manifest. */
export interface StampedTarget extends Omit<MirroredTarget, 'manifest'> {
  /** Identifies one state of the file. */
  readonly stamp: string;
  /** Null if it cannot be understood. */
  readonly manifest: MirroredTarget['manifest'] | null;
}

/** Paths of targets, `<repository>/<branch>`, sorted. */
export interface ListedTargets {
  /** The targets that have a manifest. */
  readonly targets: readonly string[];
  /** Entries that are neither a manifest nor a folder, such as a link; they may hide targets. */
  readonly hidden: readonly string[];
}

const SUFFIX = '.json';

/**
 * Lists the targets that have a manifest. Folders in `manifests/` may vanish while they are listed. `manifests/` itself vanishes only
 * with the disk, which must not look like an empty mirror.
 * @throws MirrorError `disk.failed`
 */
export function listTargets({ directory }: MirrorPort): Promise<ListedTargets> {
  return onDisk('listing the manifests', async () => {
    const root = join(directory, 'manifests');
    const targets: string[] = [];
    const hidden: string[] = [];
    const folders = [''];
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      const listing = readdir(join(root, folder), { withFileTypes: true });
      const entries = folder === '' ? await listing : ((await unlessAbsent(listing)) ?? []);
      for (const entry of entries) {
        const path = join(folder, entry.name);
        if (entry.isDirectory()) folders.push(path);
        else if (!path.endsWith(SUFFIX)) {
          if (!entry.isFile()) hidden.push(path);
        } else (entry.isFile() ? targets : hidden).push(path.slice(0, -SUFFIX.length));
      }
    }
    return { targets: targets.sort(byCodeUnits), hidden: hidden.sort(byCodeUnits) };
  });
}

/**
 * Reads one state of the manifest of a target; null if it has none.
 * @param known the state that was read before, which is returned again if the file is the same
 * @throws MirrorError `disk.failed`
 */
export async function readTarget(
  { directory }: MirrorPort,
  path: string,
  known: StampedTarget | null,
): Promise<StampedTarget | null> {
  try {
    const handle = await unlessAbsent(open(join(directory, 'manifests', `${path}${SUFFIX}`), READ_FLAGS));
    if (handle === null) return null;
    try {
      const { dev, ino, size, mtimeNs, ctimeNs } = await handle.stat({ bigint: true });
      const stamp = `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`;
      if (stamp === known?.stamp) return known;
      // A manifest is replaced, never changed in place: one handle reads one state.
      const { manifest } = parseManifest(await handle.readFile());
      return { path, stamp, writtenAtMs: Number(mtimeNs) / 1e6, manifest };
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw diskError(error, 'reading a manifest');
  }
}

/** A file of a tree is at least this deep below `mirror/`: repository, branch, file. Files higher up are not part of a tree. */
const LEAST_FILE_DEPTH = 3;

/** Whether a folder holds a file that may be one of a published tree; true also if that cannot be determined. */
async function holdsTree(mirror: string, path: string): Promise<boolean> {
  try {
    const entries = await readdir(join(mirror, path), { recursive: true, withFileTypes: true });
    return entries.some(
      (entry) =>
        entry.isFile() &&
        relative(mirror, join(entry.parentPath, entry.name)).split('/').length >= LEAST_FILE_DEPTH,
    );
  } catch {
    return true;
  }
}

/**
 * Finds folders below `mirror/` that look like published trees and have no manifest. Each tree that is published for the
 * first time is briefly one.
 * @param targets paths of the targets that have a manifest, also those whose manifest cannot be read
 * @returns the topmost of them, sorted
 * @throws MirrorError `disk.failed`
 */
export function findUnclaimed({ directory }: MirrorPort, targets: readonly string[]): Promise<string[]> {
  return onDisk('listing the mirror', async () => {
    const mirror = join(directory, 'mirror');
    const trees = new Set(targets);
    const leading = foldersWith(targets);
    const unclaimed: string[] = [];
    const folders = [''];
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      const entries = await unlessAbsent(readdir(join(mirror, folder), { withFileTypes: true }));
      for (const entry of entries ?? []) {
        const path = join(folder, entry.name);
        if (!entry.isDirectory() || trees.has(path)) continue;
        if (leading.has(path)) folders.push(path);
        else if (await holdsTree(mirror, path)) unclaimed.push(path);
      }
    }
    return unclaimed.sort(byCodeUnits);
  });
}
