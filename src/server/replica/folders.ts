import { constants, existsSync } from 'node:fs';
import { type FileHandle, lstat, open } from 'node:fs/promises';

import { systemCode } from '../../lib/errors/disk-errors.ts';

/**
 * Folders that are entered, never followed into: whatever becomes of their names meanwhile, what is read lies in the folder that was
 * opened, and no symbolic link leads out of it.
 */

/** A folder that is open. */
export interface OpenFolder {
  /** Tells it apart from every other folder that exists at the time. */
  readonly identity: string;
  /** The path of an entry, as long as the folder is open. @throws TypeError for a name that is none */
  readonly at: (name: string) => string;
  readonly close: () => Promise<void>;
}

/** Where Linux shows a process its own open files as names that lead to them, also once they were renamed (proc(5)). */
const OPEN_FILES = '/proc/self/fd';
const hasOpenFiles = existsSync(OPEN_FILES);

/** Neither a link is followed nor the other end of a pipe waited for (open(2)). */
const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const FILE_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Codes of system calls where something else stands at a path than what belongs there. */
const NOT_THERE: ReadonlySet<string | undefined> = new Set([
  'ENOENT',
  'ENOTDIR',
  'ELOOP',
  'ENXIO',
  'ENAMETOOLONG',
]);

/** Gives null where what was asked for is not there, or something else is. */
export async function unlessAbsent<T>(operation: Promise<T>): Promise<T | null> {
  try {
    return await operation;
  } catch (error) {
    if (NOT_THERE.has(systemCode(error))) return null;
    throw error;
  }
}

/**
 * Opens a folder; null where none stands there, or a link to one. On systems that do not show open files as names the folder is
 * known by its path, and only what is read says whether it is the right one.
 */
export async function openFolder(path: string): Promise<OpenFolder | null> {
  const handle = await unlessAbsent(open(path, FOLDER_FLAGS));
  if (handle === null) return null;
  try {
    const { dev, ino } = await handle.stat({ bigint: true });
    const base = hasOpenFiles ? `${OPEN_FILES}/${handle.fd}` : path;
    return {
      identity: `${dev} ${ino}`,
      at: (name) => {
        if (name === '' || name === '.' || name === '..' || name.includes('/'))
          throw new TypeError(`${JSON.stringify(name)} is no name of an entry`);
        return `${base}/${name}`;
      },
      close: () => handle.close(),
    };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Opens a file of a folder; null where none stands there, or a link to one. */
export async function openFile(folder: OpenFolder, name: string): Promise<FileHandle | null> {
  const handle = await unlessAbsent(open(folder.at(name), FILE_FLAGS));
  if (handle === null) return null;
  try {
    if ((await handle.stat()).isFile()) return handle;
    await handle.close();
    return null;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Looks at a file; null where none stands there, or a link to one. */
export async function lookAtFile(
  folder: OpenFolder,
  name: string,
): Promise<{ readonly sizeBytes: number; readonly mtimeMs: number } | null> {
  const stats = await unlessAbsent(lstat(folder.at(name)));
  return stats?.isFile() === true ? { sizeBytes: stats.size, mtimeMs: Math.round(stats.mtimeMs) } : null;
}

/** Walks down from a folder, keeping open what the next path has in common with the last one. */
export type Walk = ReturnType<typeof walkFrom>;

/** Begins a walk at a folder, which stays the caller's to close. */
export function walkFrom(root: OpenFolder) {
  const entered: { readonly segment: string; readonly folder: OpenFolder }[] = [];
  const leave = async (depth: number): Promise<void> => {
    for (const { folder } of entered.splice(depth).reverse()) await folder.close();
  };
  return {
    /** The folder of a path of segments below the beginning; null where it is not there. Good until the next call. */
    enter: async (segments: readonly string[]): Promise<OpenFolder | null> => {
      let shared = 0;
      while (shared < segments.length && entered[shared]?.segment === segments[shared]) shared += 1;
      await leave(shared);
      let folder = entered.at(-1)?.folder ?? root;
      for (const segment of segments.slice(shared)) {
        const next = await openFolder(folder.at(segment));
        if (next === null) return null;
        entered.push({ segment, folder: next });
        folder = next;
      }
      return folder;
    },
    /** Closes what was opened, but not the beginning. */
    close: (): Promise<void> => leave(0),
  };
}
