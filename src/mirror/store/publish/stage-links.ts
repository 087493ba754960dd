import { lstat, mkdir, readdir, rm } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';

import { forEachConcurrently } from '../../../lib/concurrency/concurrency.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { BULK_THREADS, doInThread } from '../../file-work/pool.ts';
import type { LinkRequest } from '../../file-work/trees.ts';
import type { Disk } from '../disk.ts';
import { linkOrCopy } from '../published-tree.ts';
import type { Manifest, ManifestFile } from '../manifest.ts';
import { examineTree } from '../verify/examine.ts';
import { removeLinked } from './gate.ts';
import { STAGED } from './moves.ts';
import type { Stage } from './stage.ts';

/** Links that are made at a time: Node has four threads for them, and each should have a next one at hand. */
const LINKS_AT_ONCE = 16;

/** Links that are made together by one thread. */
const LINKS_TOGETHER = 512;

/** Called whenever a link was made. */
type OnLink = () => void;

/**
 * Hard-links the published copies of files into the new tree.
 * @returns the path of one that is not as its manifest says, by `lstat`; null for none
 */
export function linkPublished(
  stage: Stage,
  files: readonly ManifestFile[],
  onLink: OnLink,
): Promise<string | null> {
  return onDisk('linking unchanged files', () =>
    linkAll(stage, files, (part) => ({ from: stage.published, ...pathsAndFacts(part) }), onLink),
  );
}

/** Hard-links files of a tree elsewhere into the new tree. */
export async function linkFrom(
  stage: Stage,
  from: string,
  paths: readonly string[],
  onLink: OnLink,
): Promise<void> {
  await onDisk('linking files', () =>
    linkAll(stage, paths, (part) => ({ from, paths: part, facts: null }), onLink),
  );
  for (const path of paths) stage.staged.add(path);
}

async function linkAll<T>(
  stage: Stage,
  items: readonly T[],
  requestFor: (part: readonly T[]) => Omit<LinkRequest, 'to'>,
  onLink: OnLink,
): Promise<string | null> {
  stage.hasLinks = true;
  let changed: string | null = null;
  await forEachConcurrently(partsOf(items), BULK_THREADS, async (part) => {
    const result = await doInThread('link', { ...requestFor(part), to: stage.tree });
    changed ??= result.changed;
    onLink();
  });
  return changed;
}

function* partsOf<T>(items: readonly T[]): Generator<readonly T[]> {
  for (let start = 0; start < items.length; start += LINKS_TOGETHER)
    yield items.slice(start, start + LINKS_TOGETHER);
}

function pathsAndFacts(files: readonly ManifestFile[]): Pick<LinkRequest, 'paths' | 'facts'> {
  return {
    paths: files.map(({ path }) => path),
    facts: {
      sizesBytes: Float64Array.from(files, ({ sizeBytes }) => sizeBytes),
      modes: Uint16Array.from(files, ({ mode }) => mode),
      mtimesMs: Float64Array.from(files, ({ mtimeMs }) => mtimeMs),
    },
  };
}

/** Makes a tree of links to published files beside the new tree: to some, or to `all` in the tree, also to what others put there. */
export async function keepPublished(
  stage: Stage,
  paths: readonly string[] | 'all',
  onLink: OnLink,
): Promise<void> {
  const { folder, published } = stage;
  stage.hasLinks = true;
  await onDisk('keeping the files before', async () => {
    const present = paths === 'all' ? await filesIn(published) : paths;
    // A file that someone took away, or put a folder in the place of, has nothing to keep.
    const sourceOf = async (path: string): Promise<string | null> => {
      const source = join(published, path);
      return (await unlessMissing(lstat(source)))?.isFile() === true ? source : null;
    };
    await linkTree(join(folder, STAGED.kept), present, sourceOf, onLink);
  });
}

/** The paths of all files in a tree, also of those that somebody else put there. */
async function filesIn(tree: string): Promise<string[]> {
  const entries = (await unlessMissing(readdir(tree, { recursive: true, withFileTypes: true }))) ?? [];
  return entries
    .filter((each) => each.isFile())
    .map((each) => relative(tree, join(each.parentPath, each.name)));
}

/** Makes a tree of links, or copies where there are none. @param sourceOf where a file is; null for one that is left out */
async function linkTree(
  tree: string,
  paths: readonly string[],
  sourceOf: (path: string) => string | null | Promise<string | null>,
  onLink: OnLink,
): Promise<void> {
  await mkdir(tree);
  const folders = new Set([tree]);
  await forEachConcurrently(paths, LINKS_AT_ONCE, async (path) => {
    const source = await sourceOf(path);
    if (source === null) return;
    const destination = join(tree, path);
    const parent = dirname(destination);
    if (!folders.has(parent)) await mkdir(parent, { recursive: true });
    folders.add(parent);
    await linkOrCopy(source, destination);
    onLink();
  });
}

/**
 * Shows someone the whole new tree of a stage before it is published: what of it is staged and, as hard links, what is published
 * already and stays. It is to be read only. Links are made and removed behind the gate, as readers may notice them; where a lease
 * is taken in between they stay until the next pass.
 * @param look is given the folder, which is gone when this returns, unless a lease holds
 * @returns whether the tree still is what its manifest says, as far as `lstat` tells; if not, the stage is of no use any more
 * @throws whatever `look` throws; MirrorError `publish.leased`, `disk.*`
 */
export async function showStage(
  { gate, onProgress }: Pick<Disk, 'gate' | 'onProgress'>,
  stage: Stage,
  { files }: Pick<Manifest, 'files'>,
  look: (folder: string) => Promise<void>,
  signal: AbortSignal,
): Promise<boolean> {
  const view = join(stage.folder, STAGED.view);
  const paths = files.map((file) => file.path);
  const sourceOf = (path: string): string =>
    join(stage.staged.has(path) ? stage.tree : stage.published, path);
  await gate.pass(async () => {
    stage.hasLinks = true;
    await onDisk('showing the new tree', () => linkTree(view, paths, sourceOf, onProgress));
  }, signal);
  try {
    await look(view);
    return (await examineTree(view, files, { depth: 'facts', signal })).length === 0;
  } finally {
    await onDisk('removing a view', () =>
      removeLinked(gate, () => rm(view, { recursive: true, force: true })),
    );
  }
}
