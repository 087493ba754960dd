import { createHash, randomUUID } from 'node:crypto';
import { lstat, mkdir, open, readdir, rename, rm, symlink, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { linkNow } from '../../../lib/disk/read.ts';
import type { FlushMark } from '../../../lib/disk/shared-flush.ts';
import { type ManifestFile, PERMISSION_BITS } from '../manifest.ts';
import { makeFolders } from '../../../lib/disk/durable.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import type { Disk } from '../disk.ts';
import { removeLinked } from './gate.ts';
import { hasJournal } from './journal.ts';
import { STAGED } from './moves.ts';
import { makeFolderAs, modelFor } from './inheritance.ts';
import { type DirectoryLayout, manifestPath, treePath } from '../layout.ts';
import type { NativeCalls } from '../../../lib/native/file-calls.ts';
import { refuseLinks } from '../links.ts';
import { linkedTree, linkText, placeBelowRoot, publishedTree, treeNameOf } from '../published-tree.ts';
import { removeTree } from '../unlinked-trees.ts';
import { linkedTrees, parentMaker, type StagePlaces } from './stage-links.ts';

/** A file that was staged. */
export type StagedFile = Pick<ManifestFile, 'path' | 'sizeBytes' | 'sha256' | 'mode' | 'mtimeMs'>;

/** A private place on the mirror's file system in which a target's new state is made ready. */
export interface Stage {
  readonly folder: string;
  /** The path of its target, below `mirror/`. */
  readonly target: string;
  /** The folder of its target's published files when the stage was opened: an absolute path, whether it is there or not. */
  readonly published: string;
  /** Taken before anything was written to it. */
  readonly flushMark: FlushMark;
  /** The folder of the new tree: an absolute path. */
  readonly tree: string;
  /** Where the part of an archive is kept that is not unpacked while it arrives. */
  readonly archivePath: string;
  /** A place beside the tree where nothing is. */
  readonly asidePath: string;
  /** Writes a file of the new tree. */
  readonly write: (
    path: string,
    mtimeMs: number,
    chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  ) => Promise<StagedFile>;
  /** Where a file of the new tree is to be made: an absolute path. */
  readonly placeOf: (path: string) => string;
  /** Where the published file of a path stands: an absolute path. */
  readonly publishedPlaceOf: (path: string) => string;
  /** Makes the folders around the place of a file. */
  readonly makeRoom: (path: string) => Promise<void>;
  /** Removes the entry that was made at the place of a file, if there is one. */
  readonly drop: (path: string) => Promise<void>;
  /** Removes all that was made for the new tree. */
  readonly startAnew: () => Promise<void>;
  /** Takes a file into the new tree that was made at its place. */
  readonly adopt: (path: string) => void;
  /** Paths of the files that were made for the new tree. */
  readonly staged: ReadonlySet<string>;
  /** The time that the file system keeps when a file gets this one; both in milliseconds since the epoch. */
  readonly timeFor: (timeMs: number) => number;
  /** Gives an adopted file its time. @returns its permission bits */
  readonly setTime: (path: string, mtimeMs: number) => Promise<number>;
  /**
   * Hard-links the published copies of files into the new tree.
   * @returns the path of one that is not as its manifest says, by `lstat`; null for none
   */
  readonly linkPublished: (files: readonly ManifestFile[]) => Promise<string | null>;
  /** Hard-links the files of a tree elsewhere into the new tree. */
  readonly linkFrom: (tree: string, paths: readonly string[]) => Promise<void>;
  /** Makes a tree of hard links to published files beside the new tree: to some, or to `all` in the tree, also to what others put there. */
  readonly keepPublished: (paths: readonly string[] | 'all') => Promise<void>;
  /** Makes the whole new tree of hard links beside it, to be looked at: staged files, and published ones where none is staged. */
  readonly makeView: (paths: readonly string[]) => Promise<string>;
  /** Puts the whole new tree where a link is to lead to it, and makes that link. @param path the target @returns the tree's name */
  readonly link: (path: string) => Promise<string>;
  /** Removes everything, unless its publishing was begun: then the store brings it to its end. */
  readonly discard: () => Promise<void>;
}

/** The parts of the store that a stage uses. */
export interface StageSurroundings {
  readonly flushMark: FlushMark;
  /** Called whenever bytes were written, or a link was made. */
  readonly onProgress?: () => void;
  /** Runs the removal of links to published files when that is allowed; a removal that it does not run is left for recovery. */
  readonly removeLinked?: (remove: () => Promise<void>) => Promise<void>;
  /** The names of the stages that are in use: it is among them until it is discarded. */
  readonly inUse: Set<string>;
  /** See `FileSystemFacts`; 1 unless told. */
  readonly timeStepMs?: number;
  /** Without, what is made gets the permissions of the staging area. */
  readonly native?: NativeCalls;
}

/** Opens a stage for a target in a directory that is still the one that was locked. @throws MirrorError `directory.*`, `disk.*` */
export async function stageOn(disk: Disk, currentPath: string): Promise<Stage> {
  await disk.lock.check();
  const { layout, inUse, flush, native, onProgress, timeStepMs } = disk;
  return openStage(layout, currentPath, {
    onProgress,
    removeLinked: (remove) => removeLinked(disk.gate, remove),
    inUse,
    flushMark: flush.mark(),
    native,
    timeStepMs,
  });
}

/**
 * Opens a stage for a target.
 * @param currentPath where the target's published tree stands, below `mirror/`
 */
export async function openStage(
  layout: DirectoryLayout,
  currentPath: string,
  {
    flushMark,
    inUse,
    onProgress = () => {},
    removeLinked = (remove) => remove(),
    timeStepMs = 1,
    native,
  }: StageSurroundings,
): Promise<Stage> {
  const name = randomUUID();
  const folder = join(layout.staging, name);
  const tree = join(folder, STAGED.tree);
  const published = publishedTree(layout, currentPath);
  // Before it is there: a recovery may look at any time.
  inUse.add(name);
  await onDisk('making a stage', () => makeStage(layout, native, folder, currentPath));
  const staged = new Set<string>();
  const files = stagedFiles({ folder, published, staged, onProgress });
  const { exist, ...links } = linkedTrees({ folder, published, staged, onProgress });
  return {
    folder,
    target: currentPath,
    published,
    staged,
    flushMark,
    archivePath: join(folder, STAGED.archive),
    asidePath: join(folder, STAGED.aside),
    tree,
    ...files,
    timeFor: (timeMs) => timeMs - (timeMs % timeStepMs),
    ...links,
    link: (path) =>
      onDisk('making a link to a tree', async () => {
        const treeName = treeNameOf(folder);
        const place = linkedTree(layout, treeName);
        await refuseLinks(layout, [dirname(placeBelowRoot(treeName))]);
        await makeFolders(dirname(place));
        await symlink(linkText(path, treeName), join(folder, STAGED.link));
        // Making it may have taken days, and no link leads to it yet: see `restartAge`.
        await utimes(tree, new Date(), new Date());
        await rename(tree, place);
        return treeName;
      }),
    discard: async () => {
      try {
        await onDisk('removing a stage', async () => {
          // A stage that was published is gone.
          if ((await unlessMissing(lstat(folder))) === null || (await hasJournal(folder))) return;
          const remove = (): Promise<void> => removeUnpublished(layout, folder);
          await (exist() ? removeLinked(remove) : remove());
        });
      } finally {
        inUse.delete(name);
      }
    },
  };
}

/**
 * Makes the folders of a stage. What is made there gets the group and the ACL that it would get at its place: the tree those of the tree
 * that it replaces or of the folder around it, the manifest, which is written beside it, those of its own.
 */
async function makeStage(
  layout: DirectoryLayout,
  native: NativeCalls | undefined,
  folder: string,
  path: string,
): Promise<void> {
  const tree = join(folder, STAGED.tree);
  if (native === undefined) {
    await mkdir(tree, { recursive: true });
    return;
  }
  await makeFolderAs(native, modelFor(native, manifestPath(layout, path)), folder);
  const model = modelFor(native, treePath(layout, path), publishedTree(layout, path));
  await makeFolderAs(native, model, tree);
}

/** The files of a stage's new tree. */
function stagedFiles({
  folder,
  published,
  staged,
  onProgress,
}: StagePlaces): Pick<
  Stage,
  'write' | 'placeOf' | 'publishedPlaceOf' | 'makeRoom' | 'drop' | 'startAnew' | 'adopt' | 'setTime'
> {
  const tree = join(folder, STAGED.tree);
  let ensureParent = parentMaker(tree);
  return {
    startAnew: () =>
      onDisk('starting a stage anew', async () => {
        // The folder itself stays, as it has the permissions of its place.
        for (const name of await readdir(tree)) await rm(join(tree, name), { recursive: true, force: true });
        ensureParent = parentMaker(tree);
        staged.clear();
      }),
    write: (path, mtimeMs, chunks) =>
      onDisk(
        `writing ${path}`,
        async () => {
          const written = await writeFile(await ensureParent(path), mtimeMs, chunks, onProgress);
          staged.add(path);
          return { path, mtimeMs, ...written };
        },
        tree,
      ),
    // Paths of a tree have nothing that `join` would change, and there are very many of them.
    placeOf: (path) => `${tree}/${path}`,
    publishedPlaceOf: (path) => `${published}/${path}`,
    makeRoom: (path) => onDisk(`making room for ${path}`, async () => void (await ensureParent(path))),
    drop: (path) =>
      onDisk(`dropping ${path}`, async () => {
        await rm(join(tree, path), { force: true });
        staged.delete(path);
      }),
    adopt: (path) => void staged.add(path),
    setTime: (path, mtimeMs) =>
      onDisk(`writing ${path}`, async () => {
        const mtime = new Date(mtimeMs);
        await utimes(join(tree, path), mtime, mtime);
        return (await lstat(join(tree, path))).mode & PERMISSION_BITS;
      }),
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
    return { sizeBytes, sha256: hash.digest('hex'), mode: mode & PERMISSION_BITS };
  } finally {
    await handle.close();
  }
}

async function writeAll(handle: Awaited<ReturnType<typeof open>>, chunk: Uint8Array): Promise<void> {
  for (let offset = 0; offset < chunk.byteLength;) {
    offset += (await handle.write(chunk, offset)).bytesWritten;
  }
}

/** Removes a stage of which nothing was published, and the tree that was to be linked to. */
export async function removeUnpublished(layout: DirectoryLayout, stage: string): Promise<void> {
  // Once the link has left the stage, a reader may be at its tree, whatever became of the journal.
  const name = treeNameOf(stage);
  if (linkNow(join(stage, STAGED.link))?.endsWith(`/${name}`) === true) await removeTree(layout, name);
  await rm(stage, { recursive: true, force: true });
}
