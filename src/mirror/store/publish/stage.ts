import { createHash, randomUUID } from 'node:crypto';
import { lstat, mkdir, open, readdir, rename, rm, symlink, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { makeFolders } from '../../../lib/disk/durable.ts';
import { linkNow } from '../../../lib/disk/read.ts';
import type { FlushMark, SharedFlush } from '../../../lib/disk/shared-flush.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import type { NativeCalls } from '../../../lib/native/file-calls.ts';
import type { Disk } from '../disk.ts';
import { type DirectoryLayout, manifestPath, treePath } from '../layout.ts';
import { type ManifestFile, PERMISSION_BITS } from '../manifest.ts';
import {
  linkedTree,
  linkText,
  placeBelowRoot,
  publishedTree,
  refuseLinks,
  removeTree,
  treeNameOf,
} from '../published-tree.ts';
import { removeLinked } from './gate.ts';
import { makeFolderAs, modelFor } from './inheritance.ts';
import { hasJournal } from './journal.ts';
import { STAGED } from './moves.ts';

/** A file that was staged. */
export type StagedFile = Pick<ManifestFile, 'path' | 'sizeBytes' | 'sha256' | 'mode' | 'mtimeMs'>;

/** A private folder on the mirror's file system in which a target's new state is made ready. Places are absolute. */
export interface Stage {
  readonly folder: string;
  /** The path of its target, below `mirror/`. */
  readonly target: string;
  /** The folder of its target's published files when the stage was opened, whether it is there or not. */
  readonly published: string;
  /** Taken before anything was written to it. */
  readonly flushMark: FlushMark;
  /** The folder of the new tree. */
  readonly tree: string;
  /** Times of files are kept in multiples of this, in milliseconds. */
  readonly timeStepMs: number;
  /** Paths of the files that were made for the new tree. */
  readonly staged: Set<string>;
  /** Folders of the new tree that are known to be there. */
  readonly folders: Set<string>;
  /** Whether it holds hard links to published files: these leave through the gate alone. */
  hasLinks: boolean;
}

/** The parts of a disk that a stage can be opened on. */
interface StageDisk extends Pick<Disk, 'layout' | 'inUse' | 'timeStepMs'> {
  readonly flush: Pick<SharedFlush, 'mark'>;
  /** Without, what is made gets the permissions of the staging area. */
  readonly native: NativeCalls | null;
}

/** Opens a stage for a target in a directory that still is the one that was locked. @throws MirrorError `directory.*`, `disk.*` */
export async function stageOn(disk: Disk, target: string): Promise<Stage> {
  await disk.lock.check();
  return openStage(disk, target);
}

/**
 * Opens a stage for a target.
 * @param target where the target's published tree stands, below `mirror/`
 * @throws MirrorError `disk.*`
 */
export async function openStage(
  { layout, inUse, flush, native, timeStepMs }: StageDisk,
  target: string,
): Promise<Stage> {
  const name = randomUUID();
  const folder = join(layout.staging, name);
  const published = publishedTree(layout, target);
  const flushMark = flush.mark();
  // Before it is there: a recovery may look at any time.
  inUse.add(name);
  await onDisk('making a stage', () => makeStage(layout, native, folder, target));
  const tree = join(folder, STAGED.tree);
  const state = { staged: new Set<string>(), folders: new Set([tree]), hasLinks: false };
  return { folder, target, published, flushMark, tree, timeStepMs, ...state };
}

/**
 * Makes the folders of a stage. What is made there gets the group and the ACL that it would get at its place: the tree those of the tree
 * that it replaces or of the folder around it, the manifest, which is written beside it, those of its own.
 */
async function makeStage(
  layout: DirectoryLayout,
  native: NativeCalls | null,
  folder: string,
  path: string,
): Promise<void> {
  const tree = join(folder, STAGED.tree);
  if (native === null) {
    await mkdir(tree, { recursive: true });
    return;
  }
  await makeFolderAs(native, modelFor(native, manifestPath(layout, path)), folder);
  const model = modelFor(native, treePath(layout, path), publishedTree(layout, path));
  await makeFolderAs(native, model, tree);
}

/** Writes a file of the new tree. @param onBytes called whenever bytes were written */
export function stageFile(
  stage: Stage,
  path: string,
  mtimeMs: number,
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  onBytes: () => void,
): Promise<StagedFile> {
  const write = async (): Promise<StagedFile> => {
    await makeParents(stage, path);
    const written = await writeFile(join(stage.tree, path), mtimeMs, chunks, onBytes);
    stage.staged.add(path);
    return { path, mtimeMs, ...written };
  };
  return onDisk(`writing ${path}`, write, stage.tree);
}

/** Makes the folders around the place of a file of the new tree, each once. */
export async function makeParents({ tree, folders }: Stage, path: string): Promise<void> {
  const parent = dirname(join(tree, path));
  if (folders.has(parent)) return;
  await onDisk(`making room for ${path}`, () => mkdir(parent, { recursive: true }));
  folders.add(parent);
}

/** Removes the file that was made at a path of the new tree, if there is one. */
export async function dropFile({ tree, staged }: Stage, path: string): Promise<void> {
  await onDisk(`dropping ${path}`, () => rm(join(tree, path), { force: true }));
  staged.delete(path);
}

/** Removes all that was made for the new tree. */
export async function emptyStage({ tree, staged, folders }: Stage): Promise<void> {
  await onDisk('emptying a stage', async () => {
    // The folder itself stays, as it has the permissions of its place.
    for (const name of await readdir(tree)) await rm(join(tree, name), { recursive: true, force: true });
  });
  folders.clear();
  folders.add(tree);
  staged.clear();
}

/** The time that the file system keeps when a file of a stage gets this one; both in milliseconds since the epoch. */
export function keptTime({ timeStepMs }: Pick<Stage, 'timeStepMs'>, timeMs: number): number {
  return timeMs - (timeMs % timeStepMs);
}

/** Gives a file that was made in the new tree its time. @returns its permission bits */
export function setTime({ tree }: Stage, path: string, mtimeMs: number): Promise<number> {
  return onDisk(`writing ${path}`, async () => {
    const mtime = new Date(mtimeMs);
    await utimes(join(tree, path), mtime, mtime);
    return (await lstat(join(tree, path))).mode & PERMISSION_BITS;
  });
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

/** Puts the whole new tree where a link is to lead to it, and makes that link. @param path the target */
export async function makeTreeLink(
  layout: DirectoryLayout,
  { folder, tree }: Stage,
  path: string,
): Promise<void> {
  await onDisk('making a link to a tree', async () => {
    const treeName = treeNameOf(folder);
    const place = linkedTree(layout, treeName);
    await refuseLinks(layout, [dirname(placeBelowRoot(treeName))]);
    await makeFolders(dirname(place));
    await symlink(linkText(path, treeName), join(folder, STAGED.link));
    // Making it may have taken days, and no link leads to it yet: see `restartAge`.
    await utimes(tree, new Date(), new Date());
    await rename(tree, place);
  });
}

/** Removes a stage, unless its publishing was begun: then recovery brings it to its end. Links wait for the end of a lease. */
export async function discardStage(
  { layout, inUse, gate }: Pick<Disk, 'layout' | 'inUse' | 'gate'>,
  stage: Stage,
): Promise<void> {
  const discard = (): Promise<void> => discardBehindGate({ layout, inUse }, stage);
  try {
    if (stage.hasLinks && (await isLeft(stage))) await removeLinked(gate, discard);
    else await discard();
  } finally {
    inUse.delete(treeNameOf(stage.folder));
  }
}

/** As {@link discardStage}, for those who have passed the gate. */
export async function discardBehindGate(
  { layout, inUse }: Pick<Disk, 'layout' | 'inUse'>,
  stage: Stage,
): Promise<void> {
  try {
    await onDisk('removing a stage', async () => {
      if (await isLeft(stage)) await removeUnpublished(layout, stage.folder);
    });
  } finally {
    inUse.delete(treeNameOf(stage.folder));
  }
}

/** Whether a stage is there and nothing of it was published. */
async function isLeft({ folder }: Stage): Promise<boolean> {
  return (await unlessMissing(lstat(folder))) !== null && !(await hasJournal(folder));
}

/** Removes a stage of which nothing was published, and the tree that was to be linked to. */
export async function removeUnpublished(layout: DirectoryLayout, stage: string): Promise<void> {
  // Once the link has left the stage, a reader may be at its tree, whatever became of the journal.
  const name = treeNameOf(stage);
  if (linkNow(join(stage, STAGED.link))?.endsWith(`/${name}`) === true) await removeTree(layout, name);
  await rm(stage, { recursive: true, force: true });
}
