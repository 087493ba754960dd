import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { lstat, mkdir, readdir, rename, rm, symlink, utimes } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';

import { forEachConcurrently } from '../../../lib/concurrency/concurrency.ts';
import { makeFolders } from '../../../lib/disk/durable.ts';
import { statsNow } from '../../../lib/disk/read.ts';
import type { FlushMark } from '../../../lib/disk/shared-flush.ts';
import { onDisk, systemCode, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { foldersWith } from '../../../lib/paths/file-name.ts';
import { BULK_THREADS, doInThread } from '../../file-work/pool.ts';
import { type LinkRequest, PERMISSION_BITS } from '../../file-work/trees.ts';
import type { Disk } from '../disk.ts';
import { type DirectoryLayout, manifestPath, treePath } from '../layout.ts';
import type { ManifestFile } from '../manifest.ts';
import {
  linkedTree,
  linkText,
  placeBelowRoot,
  publishedTree,
  refuseLinks,
  makeFolderFor,
} from '../published-tree.ts';
import { STAGED } from './moves.ts';

/** A private folder on the mirror's file system in which a target's new state is prepared. Places are absolute. */
export interface Stage {
  readonly folder: string;
  /** The path of its target, below `mirror/`. */
  readonly target: string;
  /** The folder of its target's published files when the stage was opened, even if it does not exist. */
  readonly published: string;
  /** The inode of the target's published manifest when the stage was opened; null for none. */
  readonly manifestInode: number | null;
  /** Taken before anything was written to it. */
  readonly flushMark: FlushMark;
  /** The folder of the new tree. */
  readonly tree: string;
  /** File times are stored in multiples of this, in milliseconds. */
  readonly timeStepMs: number;
  /** Paths of the files that were made for the new tree. */
  readonly staged: Set<string>;
  /** Whether it holds hard links to published files: these may only leave through the gate. */
  hasLinks: boolean;
  /** Whether the new tree holds links to all published files that stay. */
  isWhole: boolean;
}

/**
 * Opens a stage for a target, in a directory that still is the one that was locked. Everything made there gets the group and the ACL of
 * its final place. For the tree that is the tree that it replaces or the folder around it, for the manifest the folder
 * around it.
 * @param target where the target's published tree belongs, below `mirror/`
 * @throws MirrorError `directory.*`, `disk.*`
 */
export async function openStage(disk: Disk, target: string): Promise<Stage> {
  const { layout, native, timeStepMs } = disk;
  await disk.lock.check();
  return onDisk('making a stage', async () => {
    // Found before a download, not only before the publish.
    await refuseLinks(layout, [dirname(`mirror/${target}`)]);
    const name = randomUUID();
    const folder = join(layout.staging, name);
    const manifest = manifestPath(layout, target);
    const published = publishedTree(layout, target);
    const manifestInode = statsNow(manifest)?.ino ?? null;
    const flushMark = disk.flush.mark();
    // Register the stage before its folder exists: a recovery may run at any time.
    disk.inUse.add(name);
    const stage = stageIn(folder, { target, published, manifestInode, flushMark, timeStepMs });
    await makeFolderFor(native, folder, manifest);
    await makeFolderFor(native, stage.tree, treePath(layout, target), published);
    return stage;
  });
}

/** A stage with nothing in it, by default for a target that is not published; makes no folder. */
export function stageIn(folder: string, facts: Pick<Stage, 'target' | 'published'> & Partial<Stage>): Stage {
  const nothing = { manifestInode: null, staged: new Set<string>(), hasLinks: false, isWhole: false };
  return { ...nothing, flushMark: 0, timeStepMs: 1, tree: join(folder, STAGED.tree), ...facts, folder };
}

/**
 * Makes the folders around the place of a file of the new tree. Synchronous, as most exist. The tree itself is never made: the directory may
 * have been unmounted or moved away, and a new one at its place would pass for it.
 */
export async function makeParents({ tree }: Stage, path: string): Promise<void> {
  await onDisk(`making room for ${path}`, async () => {
    // The outermost first.
    for (const folder of [...foldersWith([path])].reverse()) {
      try {
        mkdirSync(join(tree, folder));
      } catch (error) {
        if (systemCode(error) !== 'EEXIST') throw error;
      }
    }
  });
}

/** Removes the file that was made at a path of the new tree, if there is one. */
export async function dropFile({ tree, staged }: Stage, path: string): Promise<void> {
  await onDisk(`dropping ${path}`, () => rm(join(tree, path), { force: true }));
  staged.delete(path);
}

/** Removes everything that was made for the new tree. */
export async function emptyStage({ tree, staged }: Stage): Promise<void> {
  await onDisk('emptying a stage', async () => {
    // The folder itself stays, as it has the permissions of its final place.
    for (const name of await readdir(tree)) await rm(join(tree, name), { recursive: true, force: true });
  });
  staged.clear();
}

/** The time that the file system stores if a file of a stage gets this one; both in milliseconds since the epoch. */
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

/** Moves the whole new tree to the place that a link will lead to, and makes that link. */
export async function makeTreeLink(layout: DirectoryLayout, { folder, tree, target }: Stage): Promise<void> {
  // It has the same name as its stage, so that recovery recognises it.
  const name = basename(folder);
  const place = linkedTree(layout, name);
  await refuseLinks(layout, [dirname(placeBelowRoot(name))]);
  await makeFolders(dirname(place));
  await symlink(linkText(target, name), join(folder, STAGED.link));
  // Making it may have taken days, and no link leads to it yet: see `restartAge`.
  await utimes(tree, new Date(), new Date());
  await rename(tree, place);
}

/** How many files one thread links together. */
const LINKS_TOGETHER = 512;

/**
 * Gives files of one tree names in another one, by hard links, or by copies if links are impossible.
 * @param facts the expected facts of the files, in the order of the paths; null if only their presence counts
 * @returns the path of a file that differs, by `lstat`; null for none
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

/** Hard-links files of the tree `from` into the new tree. @returns the path of a file that differs, by `lstat`; null for none */
export function linkFiles(
  stage: Stage,
  from: string,
  files: readonly ManifestFile[],
  onLinks: () => void,
): Promise<string | null> {
  const paths = files.map(({ path }) => path);
  return onDisk('linking files', () => linkAll(stage, { from, to: stage.tree }, paths, files, onLinks));
}

/** Links published files into a tree beside the new one. @param paths some, or `all` that are there, also those of others */
export async function keepPublished(
  stage: Stage,
  tree: string,
  paths: readonly string[] | 'all',
  onLinks: () => void,
): Promise<void> {
  const kept = join(stage.folder, STAGED.kept);
  await mkdir(kept);
  const found = paths === 'all' ? await filesIn(tree) : paths;
  // If someone removed a file, or replaced it by a folder, there is nothing to keep.
  const present = found.filter((path) => statsNow(join(tree, path))?.isFile() === true);
  await linkAll(stage, { from: tree, to: kept }, present, null, onLinks);
}

/** The paths of all files in a tree, also of files that others added. */
async function filesIn(tree: string): Promise<string[]> {
  const entries = (await unlessMissing(readdir(tree, { recursive: true, withFileTypes: true }))) ?? [];
  return entries.map((each) => relative(tree, join(each.parentPath, each.name)));
}

/** Completes a new tree with links to unchanged files. @throws MirrorError `disk.changed` if someone changed one of them */
export async function linkUnchanged(
  stage: Stage,
  files: readonly ManifestFile[],
  onLinks: () => void,
): Promise<void> {
  if (stage.isWhole) return;
  const unchanged = files.filter(({ path }) => !stage.staged.has(path));
  const modified = await linkFiles(stage, stage.published, unchanged, onLinks);
  if (modified !== null) throw changedSinceStaged(`changed ${JSON.stringify(modified)} of ${stage.target}`);
  stage.isWhole = true;
}

/** The error if something changed since a stage was made from it. */
export function changedSinceStaged(what: string): MirrorError {
  return new MirrorError('disk.changed', `Someone ${what} while the new tree was being prepared.`, {
    hint: 'Nothing was published.',
  });
}

/**
 * Shows a caller the whole new tree before it is published, for reading only. Links to unchanged files are made behind the gate, as
 * readers may notice them.
 * @param look receives the folder
 * @returns whether the tree is unchanged afterwards, as far as `lstat` shows; if not, the stage must be discarded
 * @throws the errors of `look`; MirrorError `publish.leased`, `disk.*`
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
  // A tree that cannot be read any more counts as changed, too.
  return (await doInThread('identify', stage.tree).catch(() => null)) === shown;
}
