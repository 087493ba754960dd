import { createHash, randomUUID } from 'node:crypto';
import { link, lstat, mkdir, open, rm, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import type { ManifestFile } from '../model/manifest.ts';
import { forEachConcurrently } from '../model/concurrency.ts';
import { onDisk, unlessMissing } from '../model/disk-errors.ts';
import { hasIntent, STAGED } from './intent.ts';
import { type DirectoryLayout, treePath } from './layout.ts';
import { linkOrCopy } from './links.ts';

/** A file that was staged. */
export type StagedFile = Pick<ManifestFile, 'path' | 'sizeBytes' | 'sha256' | 'mode' | 'mtimeMs'>;

/** A private place on the mirror's file system in which a target's new state is made ready. */
export interface Stage {
  readonly folder: string;
  /** Where the archive is downloaded to. */
  readonly archivePath: string;
  /** Writes a file of the new tree. */
  readonly write: (
    path: string,
    mtimeMs: number,
    chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  ) => Promise<StagedFile>;
  /** Takes a staged file back, because the published one is the same. */
  readonly drop: (path: string) => Promise<void>;
  /** Whether the published copy of a file still is what its manifest says, as far as `lstat` tells. */
  readonly isIntact: (file: ManifestFile) => Promise<boolean>;
  /** Hard-links the published copies of files into the new tree. */
  readonly linkPublished: (paths: readonly string[]) => Promise<void>;
  /** Hard-links the files of a tree elsewhere into the new tree. */
  readonly linkFrom: (tree: string, paths: readonly string[]) => Promise<void>;
  /** Makes a tree of hard links to the published files, beside the new tree. */
  readonly keepPublished: (paths: readonly string[]) => Promise<void>;
  /** Makes the whole new tree of hard links beside it, to be looked at: staged files, and published ones where none is staged. */
  readonly makeView: (paths: readonly string[]) => Promise<string>;
  /** Removes everything, unless its publishing was begun: then the store brings it to its end. */
  readonly discard: () => Promise<void>;
}

/** What a stage has to do with. */
export interface StageSurroundings {
  /** Called whenever bytes were written, or a link was made. */
  readonly onProgress?: () => void;
  /** Runs what removes links to published files, when it may; what it does not run is left for the store to settle. */
  readonly removeLinked?: (remove: () => Promise<void>) => Promise<void>;
}

/** Links that are made at a time: Node has four threads for them, and each should have a next one at hand. */
const LINKS_AT_ONCE = 16;

/**
 * Opens a stage for a target.
 * @param currentPath where the target's published tree stands, below `mirror/`
 */
export async function openStage(
  layout: DirectoryLayout,
  currentPath: string,
  { onProgress = () => {}, removeLinked = (remove) => remove() }: StageSurroundings = {},
): Promise<Stage> {
  const folder = join(layout.staging, randomUUID());
  const tree = join(folder, STAGED.tree);
  const published = treePath(layout, currentPath);
  await onDisk('making a stage', () => mkdir(tree, { recursive: true }));
  const ensureParent = parentMaker(tree);
  const staged = new Set<string>();
  let hasLinks = false;
  const linkAll = async (from: string, paths: readonly string[]): Promise<void> => {
    hasLinks = true;
    for (const path of paths) await link(join(from, path), await ensureParent(path));
  };
  return {
    folder,
    archivePath: join(folder, STAGED.archive),
    write: (path, mtimeMs, chunks) =>
      onDisk(`writing ${path}`, async () => {
        const written = await writeFile(await ensureParent(path), mtimeMs, chunks, onProgress);
        staged.add(path);
        return { path, mtimeMs, ...written };
      }),
    drop: (path) =>
      onDisk(`dropping ${path}`, async () => {
        await unlink(join(tree, path));
        staged.delete(path);
      }),
    isIntact: (file) => onDisk(`looking at ${file.path}`, () => isIntact(join(published, file.path), file)),
    linkPublished: (paths) => onDisk('linking unchanged files', () => linkAll(published, paths)),
    linkFrom: (from, paths) => onDisk('linking files', () => linkAll(from, paths)),
    keepPublished: (paths) =>
      onDisk('keeping the files before', async () => {
        const kept = join(folder, STAGED.kept);
        hasLinks = true;
        await mkdir(kept);
        const place = parentMaker(kept);
        // A file that someone took away has nothing to keep.
        for (const path of paths) await unlessMissing(linkOrCopy(join(published, path), await place(path)));
      }),
    makeView: (paths) =>
      onDisk('showing the new tree', async () => {
        const view = join(folder, STAGED.view);
        hasLinks = true;
        await makeView(view, paths, (path) => (staged.has(path) ? tree : published), onProgress);
        return view;
      }),
    discard: async () => {
      if (await hasIntent(folder)) return;
      const remove = (): Promise<void> => rm(folder, { recursive: true, force: true });
      const isLinked = hasLinks && (await unlessMissing(lstat(folder))) !== null;
      await (isLinked ? removeLinked(remove) : remove());
    },
  };
}

/** Makes a tree of links. @param treeOf where the file of a path lies */
async function makeView(
  view: string,
  paths: readonly string[],
  treeOf: (path: string) => string,
  onProgress: () => void,
): Promise<void> {
  await mkdir(view);
  const place = parentMaker(view);
  await forEachConcurrently(paths, LINKS_AT_ONCE, async (path) => {
    await linkOrCopy(join(treeOf(path), path), await place(path));
    onProgress();
  });
}

/** Makes the folders that paths below a root need, each once, and gives where the paths lead. */
function parentMaker(root: string): (path: string) => Promise<string> {
  const folders = new Set<string>([root]);
  return async (path) => {
    const destination = join(root, path);
    const parent = dirname(destination);
    if (!folders.has(parent)) {
      await mkdir(parent, { recursive: true });
      folders.add(parent);
    }
    return destination;
  };
}

async function writeFile(
  destination: string,
  mtimeMs: number,
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  onBytes: () => void,
): Promise<{ sizeBytes: number; sha256: string; mode: number }> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  const handle = await open(destination, 'wx', 0o644);
  try {
    for await (const chunk of chunks) {
      hash.update(chunk);
      sizeBytes += chunk.byteLength;
      await writeAll(handle, chunk);
      onBytes();
    }
    const mtime = new Date(mtimeMs);
    await handle.utimes(mtime, mtime);
    const { mode } = await handle.stat();
    return { sizeBytes, sha256: hash.digest('hex'), mode: mode & 0o7777 };
  } finally {
    await handle.close();
  }
}

async function writeAll(handle: Awaited<ReturnType<typeof open>>, chunk: Uint8Array): Promise<void> {
  for (let offset = 0; offset < chunk.byteLength;) {
    offset += (await handle.write(chunk, offset)).bytesWritten;
  }
}

async function isIntact(path: string, file: ManifestFile): Promise<boolean> {
  const found = await unlessMissing(lstat(path));
  return (
    found !== null &&
    found.isFile() &&
    found.size === file.sizeBytes &&
    Math.round(found.mtimeMs) === file.mtimeMs &&
    (found.mode & 0o7777) === file.mode
  );
}
