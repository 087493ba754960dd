import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { BULK_THREADS, doInThread } from '../../file-work/pool.ts';
import { forEachConcurrently } from '../../../lib/concurrency/concurrency.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { STAGED } from './intent.ts';
import { linkOrCopy } from '../links.ts';
import type { Stage } from './stage.ts';

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

/** The trees of links in a stage. */
export function linkedTrees({ folder, published, staged, onProgress }: StagePlaces): Pick<
  Stage,
  'linkPublished' | 'linkFrom' | 'keepPublished' | 'makeView'
> & {
  /** Whether any were made. */
  readonly exist: () => boolean;
} {
  const tree = join(folder, STAGED.tree);
  let areMade = false;
  const linkAll = async (from: string, paths: readonly string[]): Promise<void> => {
    areMade = true;
    await forEachConcurrently(partsOf(paths), BULK_THREADS, async (part) => {
      await doInThread('link', { from, to: tree, paths: part });
      onProgress();
    });
  };
  return {
    exist: () => areMade,
    linkPublished: (paths) => onDisk('linking unchanged files', () => linkAll(published, paths)),
    linkFrom: (from, paths) => onDisk('linking files', () => linkAll(from, paths)),
    keepPublished: (paths) =>
      onDisk('keeping the files before', async () => {
        const kept = join(folder, STAGED.kept);
        areMade = true;
        await mkdir(kept);
        const place = parentMaker(kept);
        // A file that someone took away has nothing to keep.
        for (const path of paths) await unlessMissing(linkOrCopy(join(published, path), await place(path)));
      }),
    makeView: (paths) =>
      onDisk('showing the new tree', async () => {
        const view = join(folder, STAGED.view);
        areMade = true;
        await makeView(view, paths, (path) => (staged.has(path) ? tree : published), onProgress);
        return view;
      }),
  };
}

/** Links that are made together by one thread. */
const LINKS_TOGETHER = 512;

function* partsOf(paths: readonly string[]): Generator<readonly string[]> {
  for (let start = 0; start < paths.length; start += LINKS_TOGETHER)
    yield paths.slice(start, start + LINKS_TOGETHER);
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
