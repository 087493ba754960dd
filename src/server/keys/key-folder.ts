import { constants } from 'node:fs';
import { lstat, mkdir, open, readdir, rename, rm, stat, unlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

import { syncDirectory, writeNewFile } from '../../lib/disk/durable.ts';
import { systemCode } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { parseKeyFile, renderKeyFile, type StoredKey } from './stored-key.ts';

export interface KeyFolderContent {
  /** In the order in which they were made. */
  readonly keys: readonly StoredKey[];
  readonly problems: readonly KeyProblem[];
}

/** Something that should be a key and is none: it lets nobody in, and keeps no other key from doing so. */
export interface KeyProblem {
  /** The id that its file's name says; null for the folder as a whole. */
  readonly id: string | null;
  readonly path: string;
  /** Says why, as a clause without a secret. */
  readonly reason: string;
  /** Whether {@link removeKey} removes it: not a folder, which may hold anything. */
  readonly isRemovable: boolean;
}

const ENDING = '.json';

/** A file that is still being written; no key is called so. */
const TEMPORARY_ENDING = '.new';

/** Nobody still writes a file of this age, in milliseconds. */
const ABANDONED_AFTER_MS = 3_600_000;

const MAX_FILE_BYTES = 64 * 1024;

/** The folder of the keys in a service's directory. */
export function keyFolderOf(directory: string): string {
  return join(resolve(directory), 'keys');
}

/** Codes that say of the process, and not of a file, that nothing can be opened: that passes, and no key must look bad for it. */
const EXHAUSTED: ReadonlySet<string | undefined> = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN']);

/** Says why something cannot be read. @throws the error itself where that says nothing of what is read */
function unreadable(error: unknown): string {
  const code = systemCode(error);
  if (EXHAUSTED.has(code)) throw error;
  return `it cannot be read (${code ?? 'unknown error'})`;
}

/**
 * Reads all keys. A folder that does not exist holds none.
 * @throws what keeps this process from opening anything at the moment
 */
export async function readKeyFolder(folder: string): Promise<KeyFolderContent> {
  let names: string[];
  try {
    names = await readdir(folder);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return { keys: [], problems: [] };
    return {
      keys: [],
      problems: [{ id: null, path: folder, reason: unreadable(error), isRemovable: false }],
    };
  }
  const keys: StoredKey[] = [];
  const problems: KeyProblem[] = [];
  for (const name of names.filter(isKeyFile).sort()) {
    const id = name.slice(0, -ENDING.length);
    const path = join(folder, name);
    try {
      const text = await readText(path);
      if (text !== null) keys.push(parseKeyFile(id, text));
    } catch (error) {
      const reason =
        systemCode(error) === undefined && error instanceof Error ? error.message : unreadable(error);
      problems.push({ id, path, reason, isRemovable: !(await isFolder(path)) });
    }
  }
  keys.sort((a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt));
  return { keys, problems };
}

function isKeyFile(name: string): boolean {
  return name.endsWith(ENDING) && !name.startsWith('.');
}

/** Whether a folder itself stands at a path: a link to one can be removed. */
async function isFolder(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => null))?.isDirectory() === true;
}

/** Reads a file; null for one that was removed meanwhile. */
async function readText(path: string): Promise<string | null> {
  // Without waiting for the other end of what may be a pipe (open(2)).
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error: unknown) => {
    if (systemCode(error) === 'ENOENT') return null;
    throw error;
  });
  if (handle === null) return null;
  try {
    const stats = await handle.stat();
    if (stats.isDirectory()) throw new Error('it is a folder');
    if (!stats.isFile()) throw new Error('it is no file');
    if (stats.size > MAX_FILE_BYTES) throw new Error('it is too large for a key');
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}

/**
 * Keeps a key, in one step that survives a power cut. Only its owner can read it.
 * @param folder made with its parents when it does not exist
 * @param nowMs milliseconds since the epoch
 * @throws MirrorError `directory.unusable` where this user may not write, and what the disk says
 */
export async function addKey(folder: string, key: StoredKey, nowMs: number): Promise<void> {
  await asOwner(folder, async () => {
    await makeFolder(folder);
    await sweep(folder, nowMs);
    const path = join(folder, `${key.id}${ENDING}`);
    const temporary = `${path}${TEMPORARY_ENDING}`;
    try {
      await writeNewFile(temporary, renderKeyFile(key), 0o600);
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
    await syncDirectory(folder);
  });
}

/**
 * Removes a key, or what should have been one.
 * @returns false when there is none of that id
 * @throws MirrorError `directory.unusable` where this user may not write, and what the disk says
 */
export async function removeKey(folder: string, id: string): Promise<boolean> {
  return asOwner(folder, async () => {
    try {
      // An id from a command line is no path: only what stands in the folder under this very name is meant.
      if (!(await readdir(folder)).filter(isKeyFile).includes(`${id}${ENDING}`)) return false;
      const path = join(folder, `${id}${ENDING}`);
      if (await isFolder(path)) throw folderInPlace(path);
      await unlink(path);
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return false;
      throw error;
    }
    await syncDirectory(folder);
    return true;
  });
}

function folderInPlace(path: string): MirrorError {
  return new MirrorError('directory.unusable', `${path} is a folder, not a key.`, {
    hint: 'Look at what is in it, and remove it by hand; it lets nobody in.',
  });
}

async function makeFolder(folder: string): Promise<void> {
  const parent = dirname(folder);
  await mkdir(parent, { recursive: true });
  try {
    await mkdir(folder, { mode: 0o700 });
  } catch (error) {
    if (systemCode(error) === 'EEXIST') return;
    throw error;
  }
  await syncDirectory(parent);
}

/** Removes what a power cut left behind: it may hold a secret for signed webhooks. */
async function sweep(folder: string, nowMs: number): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.endsWith(`${ENDING}${TEMPORARY_ENDING}`)) continue;
    const path = join(folder, name);
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: nowMs }));
    if (nowMs - mtimeMs > ABANDONED_AFTER_MS) await rm(path, { force: true });
  }
}

/** Runs what changes the folder. @throws MirrorError `directory.unusable` where this user may not */
async function asOwner<T>(folder: string, change: () => Promise<T>): Promise<T> {
  try {
    return await change();
  } catch (error) {
    const code = systemCode(error);
    if (code === undefined || !['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EEXIST'].includes(code)) throw error;
    throw new MirrorError('directory.unusable', `${folder} cannot be changed (${code}).`, {
      cause: error,
      hint: 'Give the directory of the service, and work as its owner: the user that `serve` runs as, or root.',
    });
  }
}
