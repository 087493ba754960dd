import { lstat, readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { byCodeUnits, type Manifest } from '../model/manifest.ts';
import type { Published } from '../model/targets.ts';
import { onDisk, unlessMissing } from '../model/disk-errors.ts';
import { type DirectoryLayout, manifestPath, treePath } from './layout.ts';
import { readManifest } from './manifest-file.ts';

/** Reads what is published, from the manifests: the disk is the truth. */
export interface Inventory {
  /** Everything that has a manifest. A manifest that cannot be understood counts as none. */
  readonly read: () => Promise<InventoryReading>;
}

/** What an inventory found. */
export interface InventoryReading {
  readonly published: readonly Published[];
  /** Paths whose manifest the disk does not give: what stands there is not known, which is not the same as nothing. */
  readonly unreadable: readonly string[];
}

interface Remembered {
  readonly stamp: string;
  readonly summary: Omit<Published, 'treePresent'> | null;
}

/** Makes an inventory that reads a manifest again only when its file changed. */
export function createInventory(layout: DirectoryLayout): Inventory {
  const remembered = new Map<string, Remembered>();
  const summarise = async (path: string): Promise<Omit<Published, 'treePresent'> | null> => {
    const stamp = await manifestStamp(layout, path);
    if (stamp === null) return null;
    const known = remembered.get(path);
    if (known?.stamp === stamp) return known.summary;
    const manifest = await readManifest(manifestPath(layout, path));
    const summary = manifest === null ? null : summaryOf(manifest, path);
    remembered.set(path, { stamp, summary });
    return summary;
  };
  return {
    read: () =>
      onDisk('reading the manifests', async () => {
        const published: Published[] = [];
        const unreadable: string[] = [];
        const seen = new Set<string>();
        for (const path of await manifestPaths(layout)) {
          seen.add(path);
          const summary = await summarise(path).catch(() => 'unreadable' as const);
          if (summary === 'unreadable') unreadable.push(path);
          if (summary === null || summary === 'unreadable') continue;
          const tree = await unlessMissing(lstat(treePath(layout, path)));
          published.push({ ...summary, treePresent: tree?.isDirectory() === true });
        }
        for (const path of remembered.keys()) if (!seen.has(path)) remembered.delete(path);
        return { published, unreadable };
      }),
  };
}

/** The targets that have a manifest, whether it can be understood or not: paths below `mirror/`, sorted. */
export async function manifestPaths(layout: DirectoryLayout): Promise<string[]> {
  return onDisk('listing the manifests', async () => {
    const entries =
      (await unlessMissing(readdir(layout.manifests, { recursive: true, withFileTypes: true }))) ?? [];
    return entries
      .filter((entry) => entry.isFile() && entry.name.endsWith('.json'))
      .map((entry) =>
        relative(layout.manifests, join(entry.parentPath, entry.name)).slice(0, -'.json'.length),
      )
      .sort(byCodeUnits);
  });
}

/** Tells one manifest of a target from the next; null where there is none. */
export async function manifestStamp(layout: DirectoryLayout, path: string): Promise<string | null> {
  const stats = await unlessMissing(lstat(manifestPath(layout, path)));
  return stats === null ? null : `${stats.ino} ${stats.size} ${stats.mtimeMs} ${stats.ctimeMs}`;
}

function summaryOf(manifest: Manifest, path: string): Omit<Published, 'treePresent'> {
  return {
    path,
    repository: manifest.repository,
    branch: manifest.branch,
    fingerprint: manifest.fingerprint,
    borrowed: manifest.borrowed,
    settled: manifest.settled,
    etag: manifest.etag,
    verifiedAtMs: manifest.verifiedAtMs,
    comparedAtMs: manifest.comparedAtMs,
    publishedAtMs: manifest.publishedAtMs,
    restoredAtMs: manifest.restoredAtMs,
    archiveBytes: manifest.archiveBytes,
    fileCount: manifest.files.length,
    sizeBytes: manifest.files.reduce((sum, file) => sum + file.sizeBytes, 0),
  };
}
