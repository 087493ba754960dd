import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { sizeOfFolder } from './folder-size.ts';
import { OversizeError, type Room } from './remote-errors.ts';

/** Begins the names of what is not whole yet, beside the bare repositories; a crash leaves it behind, and the registry removes it. */
const QUARANTINE_PREFIX = 'incoming-fetch-';

/** How often the size of what comes is looked at, in milliseconds, and how much longer than a look the wait after it is. */
const LOOK_INTERVAL_MS = 200;
const LOOK_SHARE = 10;

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

/** What git is given to write new objects with. */
interface Quarantine {
  /** Variables for git. */
  readonly environment: Readonly<Record<string, string>>;
  /** Undefined where there is no bound. */
  readonly room: Room | undefined;
}

/**
 * Has git write new objects of a bare repository into a folder beside it, from which they are moved to their place when all is
 * well. What fails leaves nothing: parts of downloads in the repository itself could not be told from those of programs that
 * pack it at the same time.
 * @param maxBytes what all objects of the repository may take, with the new ones; null for no bound
 * @throws OversizeError where they take more
 */
export async function throughQuarantine(
  gitDirectory: string,
  maxBytes: number | null,
  work: (quarantine: Quarantine) => Promise<void>,
): Promise<void> {
  const store = join(gitDirectory, 'objects');
  const folder = await mkdtemp(join(dirname(gitDirectory), QUARANTINE_PREFIX));
  const environment = {
    GIT_OBJECT_DIRECTORY: folder,
    GIT_ALTERNATE_OBJECT_DIRECTORIES: quotePath(store),
  };
  try {
    if (maxBytes === null) await work({ environment, room: undefined });
    else await within(folder, maxBytes, await sizeOfFolder(store), (room) => work({ environment, room }));
    await arrive(folder, store);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Looks at a folder while it is written to. Each file has its own bound; that all of them together keep to it is looked at here. */
async function within(
  folder: string,
  maxBytes: number,
  presentBytes: number,
  work: (room: Room) => Promise<void>,
): Promise<void> {
  const leftBytes = maxBytes - presentBytes;
  if (leftBytes <= 0) throw new OversizeError(maxBytes);
  const used = new AbortController();
  const over = new AbortController();
  const isFull = async (): Promise<boolean> => (await sizeOfFolder(folder)) > leftBytes;
  const watching = watch(isFull, () => used.abort(), over.signal);
  try {
    await work({ maxBytes, leftBytes, used: used.signal });
  } finally {
    over.abort();
    await watching;
  }
  if (await isFull()) throw new OversizeError(maxBytes);
}

/** Asks again and again whether something is so, until it is: a look at many files may take a while, and is made less often then. */
async function watch(isSo: () => Promise<boolean>, then: () => void, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const beganMs = performance.now();
    if (await isSo()) {
      then();
      return;
    }
    const waitMs = Math.max(LOOK_INTERVAL_MS, LOOK_SHARE * (performance.now() - beganMs));
    await sleep(waitMs, undefined, { signal }).catch(() => undefined);
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
