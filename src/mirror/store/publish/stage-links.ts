import { lstat, mkdir, readdir } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';

import { BULK_THREADS, doInThread } from '../../file-work/pool.ts';
import { forEachConcurrently } from '../../../lib/concurrency/concurrency.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import type { LinkRequest } from '../../file-work/trees.ts';
import type { ManifestFile } from '../manifest.ts';
import { STAGED } from './moves.ts';
import { linkOrCopy } from '../links.ts';

/** The folders of a stage, and the files that it holds so far. */
export interface StagePlaces {
  readonly folder: string;
  /** The published tree of its target. */
  readonly published: string;
  /** Paths of the files that were staged. */
  readonly staged: Set<string>;
  readonly onProgress: () => void;
}

/** Links that are made at a time: Node has four threads for them, and each should have a next one at hand. */
const LINKS_AT_ONCE = 16;

/** The trees of links in a stage, see `Stage`. `exist` tells whether any were made. */
export function linkedTrees({ folder, published, staged, onProgress }: StagePlaces) {
  const tree = join(folder, STAGED.tree);
  let areMade = false;
  const linkAll = async <T>(
    items: readonly T[],
    requestFor: (part: readonly T[]) => Omit<LinkRequest, 'to'>,
  ): Promise<string | null> => {
    areMade = true;
    let changed: string | null = null;
    await forEachConcurrently(partsOf(items), BULK_THREADS, async (part) => {
      const result = await doInThread('link', { ...requestFor(part), to: tree });
      changed ??= result.changed;
      onProgress();
    });
    return changed;
  };
  return {
    exist: () => areMade,
    linkPublished: (files: readonly ManifestFile[]) =>
      onDisk('linking unchanged files', () =>
        linkAll(files, (part) => ({ from: published, ...pathsAndFacts(part) })),
      ),
    linkFrom: async (from: string, paths: readonly string[]) => {
      await onDisk('linking files', () => linkAll(paths, (part) => ({ from, paths: part, facts: null })));
      for (const path of paths) staged.add(path);
    },
    keepPublished: (paths: readonly string[] | 'all') =>
      onDisk('keeping the files before', async () => {
        const kept = join(folder, STAGED.kept);
        areMade = true;
        await mkdir(kept);
        const place = parentMaker(kept);
        await forEachConcurrently(
          paths === 'all' ? await filesIn(published) : paths,
          LINKS_AT_ONCE,
          async (path) => {
            // A file that someone took away, or put a folder in the place of, has nothing to keep.
            const source = join(published, path);
            if ((await unlessMissing(lstat(source)))?.isFile() !== true) return;
            await linkOrCopy(source, await place(path));
            onProgress();
          },
        );
      }),
    makeView: (paths: readonly string[]) =>
      onDisk('showing the new tree', async () => {
        const view = join(folder, STAGED.view);
        areMade = true;
        await makeView(view, paths, (path) => (staged.has(path) ? tree : published), onProgress);
        return view;
      }),
  };
}

/** The paths of all files in a tree, also of those that somebody else put there. */
async function filesIn(tree: string): Promise<string[]> {
  const entries = (await unlessMissing(readdir(tree, { recursive: true, withFileTypes: true }))) ?? [];
  return entries
    .filter((each) => each.isFile())
    .map((each) => relative(tree, join(each.parentPath, each.name)));
}

/** Links that are made together by one thread. */
const LINKS_TOGETHER = 512;

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
export function parentMaker(root: string): (path: string) => Promise<string> {
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
