import { createHash, randomUUID } from 'node:crypto';
import { lstat, mkdir, open, readdir, rename, rm, symlink, utimes } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';

import { forEachConcurrently } from '../../../lib/concurrency/concurrency.ts';
import { makeFolders } from '../../../lib/disk/durable.ts';
import { statsNow } from '../../../lib/disk/read.ts';
import type { FlushMark } from '../../../lib/disk/shared-flush.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { BULK_THREADS, doInThread } from '../../file-work/pool.ts';
import type { LinkRequest } from '../../file-work/trees.ts';
import type { Disk } from '../disk.ts';
import { type DirectoryLayout, manifestPath, treePath } from '../layout.ts';
import { type ManifestFile, PERMISSION_BITS } from '../manifest.ts';
import {
  linkedTree,
  linkText,
  placeBelowRoot,
  publishedTree,
  refuseLinks,
  makeFolderFor,
} from '../published-tree.ts';
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
  /** Of the manifest of what was published at the target's path when the stage was opened; null for none. */
  readonly manifestInode: number | null;
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
  /** Whether the new tree holds links to all published files that stay. */
  isWhole: boolean;
}

/**
 * Opens a stage for a target, in a directory that still is the one that was locked. Everything made there gets the group and the ACL that
 * it would get at its place: the tree those of the tree that it replaces or of the folder around it, the manifest, which is written
 * beside it, those of its own.
 * @param target where the target's published tree belongs, below `mirror/`
 * @throws MirrorError `directory.*`, `disk.*`
 */
export async function openStage(disk: Disk, target: string): Promise<Stage> {
  const { layout, native } = disk;
  await disk.lock.check();
  return onDisk('making a stage', async () => {
    const name = randomUUID();
    const folder = join(layout.staging, name);
    const manifest = manifestPath(layout, target);
    const published = publishedTree(layout, target);
    const manifestInode = statsNow(manifest)?.ino ?? null;
    const flushMark = disk.flush.mark();
    // Before it is there: a recovery may look at any time.
    disk.inUse.add(name);
    const stage = stageIn(folder, {
      target,
      published,
      manifestInode,
      flushMark,
      timeStepMs: disk.timeStepMs,
    });
    await makeFolderFor(native, folder, manifest);
    await makeFolderFor(native, stage.tree, treePath(layout, target), published);
    return stage;
  });
}

/** An empty stage in a folder; makes nothing. */
export function stageIn(
  folder: string,
  facts: Pick<Stage, 'target' | 'published' | 'manifestInode' | 'flushMark' | 'timeStepMs'>,
): Stage {
  const tree = join(folder, STAGED.tree);
  return {
    ...facts,
    folder,
    tree,
    staged: new Set(),
    folders: new Set([tree]),
    hasLinks: false,
    isWhole: false,
  };
}

/** Writes a file of the new tree. @param onBytes called whenever bytes were written */
export function stageFile(
  stage: Stage,
  path: string,
  mtimeMs: number,
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  onBytes: () => void,
): Promise<StagedFile> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  const digested = async function* (): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      hash.update(chunk);
      sizeBytes += chunk.byteLength;
      yield chunk;
      onBytes();
    }
  };
  const write = async (): Promise<StagedFile> => {
    await makeParents(stage, path);
    const handle = await open(join(stage.tree, path), 'wx', 0o644);
    try {
      await handle.writeFile(digested());
    } finally {
      await handle.close();
    }
    stage.staged.add(path);
    const mode = await setTime(stage, path, mtimeMs);
    return { path, mtimeMs, sizeBytes, sha256: hash.digest('hex'), mode };
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

/** Puts the whole new tree where a link is to lead to it, and makes that link. */
export async function makeTreeLink(layout: DirectoryLayout, { folder, tree, target }: Stage): Promise<void> {
  // It is named as its stage, so that recovery knows it by that.
  const name = basename(folder);
  const place = linkedTree(layout, name);
  await refuseLinks(layout, [dirname(placeBelowRoot(name))]);
  await makeFolders(dirname(place));
  await symlink(linkText(target, name), join(folder, STAGED.link));
  // Making it may have taken days, and no link leads to it yet: see `restartAge`.
  await utimes(tree, new Date(), new Date());
  await rename(tree, place);
}

/** Files that are linked together by one thread. */
const LINKS_TOGETHER = 512;

/**
 * Gives files of one tree names in another one, by hard links, or copies where there are none.
 * @param facts those that the files should have, in the order of the paths; null where only their presence counts
 * @returns the path of one that is not as it should be, by `lstat`; null for none
 */
async function linkAll(
  stage: Stage,
  { from, to }: Pick<LinkRequest, 'from' | 'to'>,
  paths: readonly string[],
  facts: readonly ManifestFile[] | null,
  onLinks: () => void,
): Promise<string | null> {
  stage.hasLinks = true;
  const count = Math.ceil(paths.length / LINKS_TOGETHER);
  const parts = Array.from({ length: count }, (_, at) => [at * LINKS_TOGETHER, (at + 1) * LINKS_TOGETHER]);
  let changed: string | null = null;
  await forEachConcurrently(parts, BULK_THREADS, async ([start, end]) => {
    const wanted = facts === null ? null : factsOf(facts.slice(start, end));
    const found = await doInThread('link', { from, to, paths: paths.slice(start, end), facts: wanted });
    changed ??= found;
    onLinks();
  });
  return changed;
}

function factsOf(files: readonly ManifestFile[]): LinkRequest['facts'] {
  return {
    sizesBytes: Float64Array.from(files, ({ sizeBytes }) => sizeBytes),
    modes: Uint16Array.from(files, ({ mode }) => mode),
    mtimesMs: Float64Array.from(files, ({ mtimeMs }) => mtimeMs),
  };
}

/**
 * Hard-links files of a tree into the new tree.
 * @param from the folder of the tree
 * @returns the path of one that is not as its manifest says, by `lstat`; null for none
 */
export function linkFiles(
  stage: Stage,
  from: string,
  files: readonly ManifestFile[],
  onLinks: () => void,
): Promise<string | null> {
  const paths = files.map(({ path }) => path);
  return onDisk('linking files', () => linkAll(stage, { from, to: stage.tree }, paths, files, onLinks));
}

/**
 * Makes a tree of links to published files beside the new tree.
 * @param tree absolute
 * @param paths some files, or `all` that are in the tree, also those that others put there
 */
export async function keepPublished(
  stage: Stage,
  tree: string,
  paths: readonly string[] | 'all',
  onLinks: () => void,
): Promise<void> {
  const kept = join(stage.folder, STAGED.kept);
  await mkdir(kept);
  const found = paths === 'all' ? await filesIn(tree) : paths;
  // A file that someone took away, or put a folder in the place of, has nothing to keep.
  const present = found.filter((path) => statsNow(join(tree, path))?.isFile() === true);
  await linkAll(stage, { from: tree, to: kept }, present, null, onLinks);
}

/** The paths of all files in a tree, also of those that somebody else put there. */
async function filesIn(tree: string): Promise<string[]> {
  const entries = (await unlessMissing(readdir(tree, { recursive: true, withFileTypes: true }))) ?? [];
  return entries.map((each) => relative(tree, join(each.parentPath, each.name)));
}

/** Completes a new tree with links to what did not change. @throws MirrorError `disk.changed` where someone changed what is linked */
export async function linkUnchanged(
  stage: Stage,
  files: readonly ManifestFile[],
  onLinks: () => void,
): Promise<void> {
  if (stage.isWhole) return;
  const unchanged = files.filter(({ path }) => !stage.staged.has(path));
  const modified = await linkFiles(stage, stage.published, unchanged, onLinks);
  if (modified !== null) throw changedMeanwhile(`changed ${JSON.stringify(modified)} of ${stage.target}`);
  stage.isWhole = true;
}

/** The error where something is not what a stage was made from. */
export function changedMeanwhile(what: string): MirrorError {
  return new MirrorError('disk.changed', `Someone ${what} while the new tree was made ready.`, {
    hint: 'Nothing was published.',
  });
}

/**
 * Shows someone the whole new tree before it is published; it is to be read only. Links to what stays are made behind the gate, as
 * readers may notice them.
 * @param look is given the folder
 * @returns whether the tree still is what it was, as far as `lstat` tells; if not, the stage is of no use any more
 * @throws whatever `look` throws; MirrorError `publish.leased`, `disk.*`
 */
export async function showStage(
  { gate, onProgress }: Pick<Disk, 'gate' | 'onProgress'>,
  stage: Stage,
  files: readonly ManifestFile[],
  look: (folder: string) => Promise<void>,
  signal: AbortSignal,
): Promise<boolean> {
  await gate.pass(() => linkUnchanged(stage, files, onProgress), signal);
  const shown = await doInThread('identify', stage.tree);
  await look(stage.tree);
  signal.throwIfAborted();
  // A tree that cannot be looked at any more is another one, too.
  return (await doInThread('identify', stage.tree).catch(() => null)) === shown;
}
