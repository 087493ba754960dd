import { lstatSync, readdirSync, readFileSync, type Stats } from 'node:fs';
import { lstat } from 'node:fs/promises';

import { byCodeUnits, type Manifest } from './manifest.ts';
import type { Published } from '../plan/targets.ts';
import { onDisk, systemCode, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { type DirectoryLayout, manifestPath, treePath } from './layout.ts';
import { parseManifest } from './manifest-file.ts';
import { forEachInSlices } from './slices.ts';
import { readSummaries, type StampedSummary, type Summary, writeSummaries } from './summaries.ts';

/** Reads what is published, from the manifests: the disk is the truth. */
export interface Inventory {
  /** Everything that has a manifest. A manifest that cannot be understood counts as none. */
  readonly read: () => Promise<InventoryReading>;
  /** Writes down what was read, if that is news, so that other processes need not read it again. */
  readonly save: () => Promise<void>;
}

/** What an inventory found. */
export interface InventoryReading {
  readonly published: readonly Published[];
  /** Paths whose manifest the disk does not give: what stands there is not known, which is not the same as nothing. */
  readonly unreadable: readonly string[];
}

/** Makes an inventory that reads a manifest only when its file is another than the one of which a summary is at hand. */
export function createInventory(layout: DirectoryLayout): Inventory {
  let known: Map<string, StampedSummary> | null = null;
  let isNews = false;
  return {
    read: () =>
      onDisk('reading the manifests', async () => {
        const before = known ?? (await readSummaries(layout));
        const present = new Map<string, StampedSummary>();
        const published: Published[] = [];
        const unreadable: string[] = [];
        await forEachInSlices(await manifestPaths(layout), (path) => {
          try {
            const found = summarise(layout, path, before.get(path));
            if (found === null) return;
            present.set(path, found);
            if (found !== before.get(path)) isNews = true;
            if (found.summary === null) return;
            published.push({ ...found.summary, treePresent: isFolder(treePath(layout, path)) });
          } catch {
            unreadable.push(path);
          }
        });
        if (present.size !== before.size) isNews = true;
        known = present;
        return { published, unreadable };
      }),
    save: async () => {
      if (known === null || !isNews) return;
      isNews = false;
      // What cannot be written down costs the time of reading it again, and nothing else.
      await writeSummaries(layout, known).catch(() => {});
    },
  };
}

/** The summary of a target's manifest: the one at hand, if it is of the same file; null where there is no manifest. */
function summarise(
  layout: DirectoryLayout,
  path: string,
  known: StampedSummary | undefined,
): StampedSummary | null {
  const file = manifestPath(layout, path);
  const stats = statsOf(file);
  if (stats === null) return null;
  const stamp = stampOf(stats);
  if (known?.stamp === stamp) return known;
  const text = unlessGone(() => readFileSync(file, 'utf8'));
  const manifest = text === null ? null : parseManifest(text);
  return { stamp, summary: manifest === null ? null : summaryOf(manifest, path) };
}

/** The targets that have a manifest, whether it can be understood or not: paths below `mirror/`, sorted. */
export async function manifestPaths(layout: DirectoryLayout): Promise<string[]> {
  return onDisk('listing the manifests', async () => {
    const paths: string[] = [];
    const folders = [''];
    await forEachInSlices(folders, (folder) => {
      // A folder that is empty after a target has moved is removed at any time.
      const entries = unlessGone(() => readdirSync(`${layout.manifests}/${folder}`, { withFileTypes: true }));
      for (const entry of entries ?? []) {
        if (entry.isDirectory()) folders.push(`${folder}${entry.name}/`);
        else if (entry.isFile() && entry.name.endsWith('.json'))
          paths.push(folder + entry.name.slice(0, -'.json'.length));
      }
    });
    return paths.sort(byCodeUnits);
  });
}

/** Tells one manifest of a target from the next; null where there is none. */
export async function manifestStamp(layout: DirectoryLayout, path: string): Promise<string | null> {
  const stats = await unlessMissing(lstat(manifestPath(layout, path)));
  return stats === null ? null : stampOf(stats);
}

function stampOf({ ino, size, mtimeMs, ctimeMs }: Stats): string {
  return `${ino} ${size} ${mtimeMs} ${ctimeMs}`;
}

function isFolder(path: string): boolean {
  return statsOf(path)?.isDirectory() === true;
}

function statsOf(path: string): Stats | null {
  return unlessGone(() => lstatSync(path, { throwIfNoEntry: false }) ?? null);
}

/** Gives null where a path does not exist, and throws everything else. */
function unlessGone<T>(operation: () => T): T | null {
  try {
    return operation();
  } catch (error) {
    const code = systemCode(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw error;
  }
}

function summaryOf(manifest: Manifest, path: string): Summary {
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
    sharedBytes: manifest.files.reduce((sum, file) => sum + (file.isShared === true ? file.sizeBytes : 0), 0),
  };
}
