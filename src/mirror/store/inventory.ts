import { readdirSync, type Stats } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { readNow, statsNow } from '../../lib/disk/read.ts';
import { againWhileStale } from '../../lib/disk/stale.ts';
import { onDisk, unlessMissingNow } from '../../lib/errors/disk-errors.ts';
import { checkOf, type Published, type RememberedTree, type TreeSummary } from '../plan/record.ts';
import type { Shard } from '../plan/selection.ts';
import { type DirectoryLayout, manifestPath } from './layout.ts';
import { type ManifestReading, parseManifest } from './manifest-text.ts';
import { byCodeUnits, type Manifest } from './manifest.ts';
import { linkFinder, treeAt } from './published-tree.ts';
import { ownTreesIn } from './shards.ts';

/** The targets that an inventory found. */
export interface InventoryReading {
  /** The paths of all manifests, sorted. */
  readonly paths: readonly string[];
  readonly published: readonly Published[];
  /** The trees that other instances mirror; they count as present. */
  readonly others: readonly Published[];
  /** Paths whose manifest cannot be read: their contents are unknown, not absent. */
  readonly unreadable: readonly string[];
  /** Summaries of the published trees to remember, by their paths. */
  readonly trees: ReadonlyMap<string, RememberedTree>;
  /** Tells whether this instance mirrors a repository. */
  readonly isOwn: (repositoryId: string) => boolean;
}

/** Finds the published targets by their manifests: the disk is the truth. */
export type Inventory = ReturnType<typeof createInventory>;

/**
 * Makes an inventory that reads a manifest only if its file has changed since it was summarised.
 * @param shard the share of this instance, among several; null if it has all
 * @param linked receives the targets of linked trees, by the names of the trees
 */
export function createInventory(
  layout: DirectoryLayout,
  shard: Shard | null = null,
  linked = new Map<string, string>(),
) {
  let known = new Map<string, RememberedTree>();
  let ofOthers: ReadonlySet<string> = new Set();
  return {
    /** Takes remembered summaries of trees, which saves reading their manifests. */
    recall: (trees: Iterable<RememberedTree>): void => {
      for (const tree of trees) if (!known.has(tree.summary.path)) known.set(tree.summary.path, tree);
    },
    /**
     * The target that contains a path below the directory; null for none, and for a target that another instance mirrored when the
     * manifests were last read.
     */
    targetAt: async (path: string): Promise<string | null> => {
      const [top, ...names] = path.split('/');
      const below = names.join('/');
      const target = top === 'trees' ? linked.get(names[1] ?? '') : await targetAround(layout, below);
      return target === undefined || ofOthers.has(target) ? null : target;
    },
    /**
     * Takes the manifest of a tree that was just published, which saves reading it.
     * @returns the summary to remember; null if its manifest file is gone
     */
    note: (path: string, manifest: Manifest): Promise<RememberedTree | null> =>
      onDisk('looking at a manifest', async () => {
        const stamp = manifestStamp(layout, path);
        if (stamp === null) return null;
        const tree = rememberedTree(stamp, manifest, path);
        known.set(path, tree);
        return tree;
      }),
    /** All targets with a manifest. A malformed manifest is ignored. */
    read: (): Promise<InventoryReading> =>
      onDisk('reading the manifests', async () => {
        const isOwn = await ownTreesIn(layout, shard);
        const paths = await manifestPaths(layout);
        const present = new Map<string, RememberedTree>();
        const published: Published[] = [];
        const others: Published[] = [];
        const unreadable: string[] = [];
        const trees = new Map<string, RememberedTree>();
        const isBehindLink = linkFinder(layout);
        await forEachInSlices(paths, (path) => {
          try {
            const tree = readUnlessKnown(layout, path, known.get(path));
            if (tree === null) return;
            present.set(path, tree);
            if (!isOwn(tree.summary.repository.id)) {
              others.push({ ...tree.summary, treePresent: true });
              return;
            }
            trees.set(path, tree);
            const { kind, name } = treeAt(layout, path);
            if (kind === 'link' && name !== null) linked.set(name, path);
            const isThere = (kind === 'folder' || kind === 'link') && !isBehindLink(path);
            published.push({ ...tree.summary, treePresent: isThere });
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

async function targetAround(layout: DirectoryLayout, path: string): Promise<string | undefined> {
  for (let folder = path; folder !== '.' && folder !== ''; folder = dirname(folder)) {
    // A path that cannot even be looked up, as its name is too long with the manifest's suffix, is not a target.
    if ((await lstat(manifestPath(layout, folder)).catch(() => null)) !== null) return folder;
  }
  return undefined;
}

/** The known facts of a target's manifest while its file is the same, else a new reading; null if there is no valid one. */
function readUnlessKnown(
  layout: DirectoryLayout,
  path: string,
  known: RememberedTree | undefined,
): RememberedTree | null {
  if (known !== undefined && manifestStamp(layout, path) === known.stamp) return known;
  const found = readManifestNow(manifestPath(layout, path));
  return found?.manifest ? rememberedTree(found.stamp, found.manifest, path) : null;
}

/** The targets that have a manifest, valid or not: paths below `mirror/`, sorted. */
export async function manifestPaths(layout: DirectoryLayout): Promise<string[]> {
  return onDisk('listing the manifests', async () => {
    const paths: string[] = [];
    const folders = [''];
    await forEachInSlices(folders, (folder) => {
      // A folder that became empty when a target moved may be removed at any time.
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

/** Distinguishes successive manifests of a target; null if there is no file. */
export function manifestStamp(layout: DirectoryLayout, path: string): string | null {
  const stats = statsNow(manifestPath(layout, path));
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
export interface ManifestOnDisk extends ManifestReading {
  /** Changes with every replacement of the file. */
  readonly stamp: string;
}

/** Reads a file that should be a manifest; null if there is no file. @throws MirrorError `disk.*` */
export function readManifestFile(file: string): Promise<ManifestOnDisk | null> {
  return onDisk('reading a manifest', () => againWhileStale(async () => readManifestNow(file)));
}

function readManifestNow(file: string): ManifestOnDisk | null {
  // A manifest is replaced, never overwritten: an open file always has one state.
  const found = unlessMissingNow(() => readNow(file));
  return found && { stamp: stampOf(found.stats), ...parseManifest(found.bytes) };
}

/** Reads a manifest from disk; null if there is no valid one. @throws MirrorError `disk.*` */
export async function readManifest(file: string): Promise<Manifest | null> {
  return (await readManifestFile(file))?.manifest ?? null;
}

/** The manifest of a published tree; null if there is no valid one. @throws MirrorError `disk.*` */
export function publishedManifest(layout: DirectoryLayout, target: string): Promise<Manifest | null> {
  return readManifest(manifestPath(layout, target));
}

/** The longest time that the event loop may be blocked, in milliseconds. */
const SLICE_MS = 5;

/**
 * Takes a short step for every item, one after the other, and lets the event loop run in between. Awaiting each system call
 * that is answered from memory would cost several times as much.
 * @param items may grow during the run
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
