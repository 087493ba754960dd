import { constants, readdirSync, type Stats } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import { readNow, statsNow, withOpen } from '../../lib/disk/read.ts';
import { againWhileStale } from '../../lib/disk/stale.ts';
import { onDisk, systemCode, unlessMissing, unlessMissingNow } from '../../lib/errors/disk-errors.ts';
import {
  checkOf,
  type OtherTree,
  type Published,
  type RememberedTree,
  type TreeSummary,
} from '../plan/record.ts';
import type { Shard } from '../plan/selection.ts';
import { type DirectoryLayout, manifestPath } from './layout.ts';
import { parseManifest, understandManifest } from './manifest-text.ts';
import { byCodeUnits, type Manifest } from './manifest.ts';
import { treeAt } from './published-tree.ts';
import { ownTreesIn } from './shards.ts';

/** The targets that an inventory found. */
export interface InventoryReading {
  /** The paths of all manifests, sorted. */
  readonly paths: readonly string[];
  readonly published: readonly Published[];
  /** The trees there that other instances mirror. */
  readonly others: readonly OtherTree[];
  /** Paths whose manifest cannot be read: their contents are unknown, which is not the same as none. */
  readonly unreadable: readonly string[];
  /** Summaries of the published trees to remember, by their paths. */
  readonly trees: ReadonlyMap<string, RememberedTree>;
  /** Tells whether a repository is this instance's to mirror. */
  readonly isOwn: (repositoryId: string) => boolean;
}

/** Reads which targets are published, from the manifests: the disk is the truth. */
export type Inventory = ReturnType<typeof createInventory>;

/**
 * Makes an inventory that reads a manifest only when its file is not the one that was summarised before.
 * @param shard the share of this instance, among several; null where it has all
 * @param linked receives the targets of the trees that links lead to, by the names of these
 */
export function createInventory(
  layout: DirectoryLayout,
  shard: Shard | null = null,
  linked = new Map<string, string>(),
) {
  let known = new Map<string, RememberedTree>();
  let ofOthers: ReadonlySet<string> = new Set();
  return {
    /** Takes remembered summaries of trees, so that their manifests need not be read. */
    recall: (trees: Iterable<RememberedTree>): void => {
      for (const tree of trees) if (!known.has(tree.summary.path)) known.set(tree.summary.path, tree);
    },
    /** Whether another instance mirrored a target when the manifests were read last. */
    isOthers: (path: string): boolean => ofOthers.has(path),
    /**
     * Takes the manifest of a tree that was just published, so that it need not be read.
     * @returns the summary to remember; null where its manifest file is gone
     */
    note: (path: string, manifest: Manifest): Promise<RememberedTree | null> =>
      onDisk('looking at a manifest', async () => {
        const stamp = await manifestStamp(layout, path);
        if (stamp === null) return null;
        const tree = rememberedTree(stamp, manifest, path);
        known.set(path, tree);
        return tree;
      }),
    /** Everything that has a manifest. A manifest that cannot be understood counts as none. */
    read: (): Promise<InventoryReading> =>
      onDisk('reading the manifests', async () => {
        const isOwn = await ownTreesIn(layout, shard);
        const paths = await manifestPaths(layout);
        const present = new Map<string, RememberedTree>();
        const published: Published[] = [];
        const others: OtherTree[] = [];
        const unreadable: string[] = [];
        const trees = new Map<string, RememberedTree>();
        await forEachInSlices(paths, (path) => {
          try {
            const tree = readUnlessKnown(layout, path, known.get(path));
            if (tree === null) return;
            present.set(path, tree);
            const { repository, branch } = tree.summary;
            if (!isOwn(repository.id)) {
              others.push({ path, repositoryId: repository.id, fullName: repository.fullName, branch });
              return;
            }
            trees.set(path, tree);
            const place = treeAt(layout, path);
            if (place.kind === 'link') linked.set(place.name, path);
            published.push({ ...tree.summary, treePresent: ['folder', 'link'].includes(place.kind) });
          } catch {
            unreadable.push(path);
          }
        });
        known = present;
        ofOthers = new Set(others.map(({ path }) => path));
        return { paths, published, others, unreadable, trees, isOwn };
      }),
  };
}

/** What is known of a target's manifest while its file is the same, else what is read now; null where there is none to be understood. */
function readUnlessKnown(
  layout: DirectoryLayout,
  path: string,
  known: RememberedTree | undefined,
): RememberedTree | null {
  const file = manifestPath(layout, path);
  const stats = statsNow(file);
  if (stats === null) return null;
  const stamp = stampOf(stats);
  if (known?.stamp === stamp) return known;
  const text = unlessMissingNow(() => readNow(file));
  const manifest = text === null ? null : parseManifest(text);
  return manifest === null ? null : rememberedTree(stamp, manifest, path);
}

/** The targets that have a manifest, whether it can be understood or not: paths below `mirror/`, sorted. */
export async function manifestPaths(layout: DirectoryLayout): Promise<string[]> {
  return onDisk('listing the manifests', async () => {
    const paths: string[] = [];
    const folders = [''];
    await forEachInSlices(folders, (folder) => {
      // A folder that is empty after a target has moved is removed at any time.
      const entries = unlessMissingNow(() =>
        readdirSync(`${layout.manifests}/${folder}`, { withFileTypes: true }),
      );
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

function rememberedTree(stamp: string, manifest: Manifest, path: string): RememberedTree {
  const { files, skipped: _skipped, isThorough: _isThorough, approval: _, missing = [], ...facts } = manifest;
  const sizeBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
  const summary: TreeSummary = { ...facts, path, missing, fileCount: files.length, sizeBytes };
  return { stamp, summary, check: checkOf({ stamp, summary }) };
}

/** A manifest as it is on disk now. */
export interface ManifestOnDisk {
  /** Changes with every replacement of the file. */
  readonly stamp: string;
  /** Null where it cannot be understood or read; then `problem` says why. */
  readonly manifest: Manifest | null;
  /** A sentence without its end. */
  readonly problem: string | null;
}

/** Reads a file that should be a manifest; null where there is none. @throws system errors */
export function readManifestFile(file: string): Promise<ManifestOnDisk | null> {
  // A manifest is replaced, never written into: what is read through one handle is one state.
  const read = (): Promise<ManifestOnDisk> =>
    withOpen(file, constants.O_RDONLY, async (handle) => {
      const stamp = stampOf(await handle.stat());
      const understood = understandManifest(await handle.readFile());
      return typeof understood === 'string'
        ? { stamp, manifest: null, problem: understood }
        : { stamp, manifest: understood, problem: null };
    });
  return againWhileStale(() => unlessMissing(read()));
}

/** Reads a target's manifest; null where there is none. A system error is a problem, too. */
export async function readStampedManifest(
  layout: DirectoryLayout,
  path: string,
): Promise<ManifestOnDisk | null> {
  try {
    return await readManifestFile(manifestPath(layout, path));
  } catch (error) {
    return { stamp: '', manifest: null, problem: systemCode(error) ?? 'unknown error' };
  }
}

/** Reads a manifest from disk; null where there is none, or none that can be understood. @throws system errors */
export async function readManifest(file: string): Promise<Manifest | null> {
  return (await readManifestFile(file))?.manifest ?? null;
}

/** The manifest of a published tree; null where there is none, or none that can be understood. @throws MirrorError `disk.*` */
export function publishedManifest(layout: DirectoryLayout, target: string): Promise<Manifest | null> {
  return onDisk('reading a manifest', () => readManifest(manifestPath(layout, target)));
}

/** How long the program may be kept from everything else at a time, in milliseconds. */
const SLICE_MS = 5;

/**
 * Takes a short step for every item, one after the other, and lets others have their turn in between. System calls that the disk
 * answers from memory cost several times as much when each is waited for by itself.
 * @param items may grow while it is gone through
 */
async function forEachInSlices<T>(items: Iterable<T>, step: (item: T) => void): Promise<void> {
  let endMs = performance.now() + SLICE_MS;
  for (const item of items) {
    step(item);
    if (performance.now() < endMs) continue;
    await setImmediate();
    endMs = performance.now() + SLICE_MS;
  }
}
