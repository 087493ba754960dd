import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Git } from './git.ts';
import { settingArguments } from './git-process.ts';
import { LASTING_SETTINGS } from './bare.ts';
import { isTooLarge, OversizeError, type RemoteError } from '../external/errors.ts';
import { reach, type Remote, type Room } from '../external/reach.ts';

/**
 * The server of a repository on this machine: it maps whole packs (git-config(1), core.packedGitWindowSize, which it does not
 * heed), so that the bound on what is received from it would refuse every large repository.
 */
const LOCAL_SERVER = 'ulimit -S -v "$(ulimit -H -v)"; git upload-pack';

/** The option by which git is told what answers for a repository on this machine; none for one elsewhere. */
export function serverOf({ protocol }: Remote): string[] {
  return protocol === 'file' ? [`--upload-pack=${LOCAL_SERVER}`] : [];
}

/**
 * The memory that git may take to unpack what is sent: a few bytes can stand for an object of any size, which is made in memory where it is told
 * by its difference from another one. Servers tell so of objects up to 512 MiB (git-config(1), `core.bigFileThreshold`), of which two
 * threads hold two each; ten million objects take about 2 GiB.
 */
const MAX_UNPACKING_KIB = 4 * 1024 ** 2;

/** Settings that keep git below that on machines with many processors, and beside large packs (git-config(1)). */
const THRIFTY_SETTINGS = settingArguments(
  'pack.threads=2',
  'core.packedGitWindowSize=32m',
  'core.packedGitLimit=256m',
);

/** The last download that was too large: it is not repeated again and again. */
export interface Oversize {
  last: {
    /** Stands for what was to be fetched, and how much there was already. */
    readonly attempt: string;
    readonly error: RemoteError;
  } | null;
}

interface Download {
  /** The object ids to fetch, by the full names of their references. */
  readonly wanted: ReadonlyMap<string, string>;
  /** The most that all objects of the repository may take on disk, in bytes; null for no bound. */
  readonly maxBytes: number | null;
  readonly oversize: Oversize;
}

async function attemptOf(gitDirectory: string, { wanted, maxBytes }: Download): Promise<string> {
  const hash = createHash('sha256').update(
    `${maxBytes} ${await sizeOfFolder(join(gitDirectory, 'objects'))}`,
  );
  for (const [name, id] of wanted) hash.update(`\n${name} ${id}`);
  return hash.digest('hex');
}

/**
 * Fetches objects without a change to any reference; a failure leaves nothing of them. What was too large is not asked for again
 * until it is something else, there or here.
 * @throws RemoteError
 */
export async function download(
  git: Git,
  remote: Remote,
  gitDirectory: string,
  what: Download,
): Promise<void> {
  const { wanted, maxBytes, oversize } = what;
  if (wanted.size === 0) return;
  const attempt = await attemptOf(gitDirectory, what);
  if (oversize.last?.attempt === attempt) throw oversize.last.error;
  const flags = ['--quiet', '--no-tags', '--no-write-fetch-head', '--stdin', ...serverOf(remote)];
  const args = [...LASTING_SETTINGS, ...THRIFTY_SETTINGS, 'fetch', ...flags, '--', remote.source];
  const options = { input: `${[...wanted.keys()].join('\n')}\n`, maxMemoryKib: MAX_UNPACKING_KIB };
  try {
    await throughQuarantine(gitDirectory, maxBytes, async (quarantine) => {
      await reach(git, remote, gitDirectory, args, { ...options, ...quarantine });
    });
    oversize.last = null;
  } catch (error) {
    if (isTooLarge(error)) oversize.last = { attempt, error };
    throw error;
  }
}

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
async function throughQuarantine(
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

/** Adds up the sizes of all files in a folder and below it, in bytes; what goes meanwhile counts as nothing. */
async function sizeOfFolder(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  let sizeBytes = 0;
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const found = await stat(join(entry.parentPath, entry.name)).catch(() => null);
    sizeBytes += found?.size ?? 0;
  }
  return sizeBytes;
}
