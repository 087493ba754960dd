import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** Begins the names of what is not whole yet, beside the bare repositories; a crash leaves it behind, and the registry removes it. */
const QUARANTINE_PREFIX = 'incoming-fetch-';

/**
 * Writes a path for a variable that lists paths (git(1), `GIT_ALTERNATE_OBJECT_DIRECTORIES`): in quotes, where a colon ends
 * nothing.
 */
function quotePath(path: string): string {
  return `"${path.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}

/**
 * Decides in which order the files of an object store become visible: a pack is there when its index is, so that the index
 * comes last. What git has not finished, and what it marks packs with meanwhile, stays behind.
 * @param paths relative to the store
 */
export function orderOfArrival(paths: readonly string[]): string[] {
  const isWhole = (path: string): boolean =>
    /^[0-9a-f]{2}\/[0-9a-f]{38}$/.test(path) || /^pack\/pack-[0-9a-f]+\.(?:pack|rev|idx)$/.test(path);
  const rank = (path: string): number => (path.endsWith('.idx') ? 1 : 0);
  return paths.filter(isWhole).sort((left, right) => rank(left) - rank(right));
}

/**
 * Has git write new objects of a bare repository into a folder beside it, from which they are moved to their place when all is
 * well. What fails leaves nothing: parts of downloads in the repository itself could not be told from those of programs that
 * pack it at the same time.
 * @param work is given the variables for git
 */
export async function throughQuarantine(
  gitDirectory: string,
  work: (environment: Readonly<Record<string, string>>) => Promise<void>,
): Promise<void> {
  const store = join(gitDirectory, 'objects');
  const folder = await mkdtemp(join(dirname(gitDirectory), QUARANTINE_PREFIX));
  try {
    await work({
      GIT_OBJECT_DIRECTORY: folder,
      GIT_ALTERNATE_OBJECT_DIRECTORIES: quotePath(store),
    });
    await arrive(folder, store);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function arrive(folder: string, store: string): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const paths = files.map(({ parentPath, name }) => join(basename(parentPath), name));
  for (const path of orderOfArrival(paths)) {
    await mkdir(join(store, dirname(path)), { recursive: true });
    await rename(join(folder, path), join(store, path));
  }
}
