import { randomUUID } from 'node:crypto';
import { rmdirSync } from 'node:fs';
import { lstat, mkdir, open, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

import { closing } from '../concurrency/shared-work.ts';
import { systemCode, unlessMissing } from '../errors/disk-errors.ts';

/** Flushes a directory: the names that were made, changed or removed in it survive a power cut (fsync(2)). */
export async function syncDirectory(path: string): Promise<void> {
  await closing(await open(path, 'r'), (folder) => folder.sync());
}

/**
 * Writes a new file, from its text or from pieces of it, and flushes it; it must not exist yet. If that fails, nothing of it stays.
 * @param exactMode its permission bits; by default those that the process's umask leaves
 */
export async function writeNewFile(
  path: string,
  data: string | Iterable<string>,
  exactMode?: number,
): Promise<void> {
  const handle = await open(path, 'wx', exactMode);
  try {
    await closing(handle, async () => {
      // For an open file, writeFile ignores its option `flush`.
      await writeFile(handle, data);
      // Also if the process's umask, or an ACL, took some of the bits.
      if (exactMode !== undefined && (exactMode & ~(await handle.stat()).mode) !== 0)
        await handle.chmod(exactMode);
      await handle.sync();
    });
  } catch (error) {
    await discardFile(path);
    throw error;
  }
}

async function discardFile(path: string): Promise<void> {
  await rm(path, { force: true }).catch(() => {});
}

/** Makes a folder with its parents; those that are new survive a power cut. */
export async function ensureFolder(path: string): Promise<void> {
  for (const folder of await makeFolders(path)) await syncDirectory(dirname(folder));
}

/** How often to make a folder that other processes also make (or whose parent they make), and remove while it is empty. */
const MOST_TRIES = 5;

/**
 * Makes a folder with its parents and returns the new ones; flushes nothing. Node's own recursive mkdir never returns if a parent
 * exists but reports that it does not, as `/proc` does. If several processes make a folder at one moment, GlusterFS sometimes tells
 * all of them that it exists although it does not: another try makes it.
 */
export async function makeFolders(path: string): Promise<string[]> {
  const made: string[] = [];
  for (let tries = 1; ; tries += 1) {
    try {
      await mkdir(path);
      return [...made, path];
    } catch (error) {
      const code = systemCode(error);
      const parent = dirname(path);
      const found = code === 'EEXIST' ? await unlessMissing(stat(path)) : null;
      if (found?.isDirectory() === true) return made;
      const isGone = code === 'EEXIST' && found === null;
      const lacksParent = code === 'ENOENT' && parent !== path;
      if (!(isGone || lacksParent) || tries === MOST_TRIES) throw error;
      if (lacksParent && (await unlessMissing(stat(parent))) === null)
        made.push(...(await makeFolders(parent)));
    }
  }
}

/**
 * Replaces a file in one step that survives a power cut: written beside it, flushed, renamed, directory flushed.
 * @param exactMode as for {@link writeNewFile}
 */
export async function replaceFile(path: string, data: string, scratchDirectory: string, exactMode?: number) {
  const temporary = `${scratchDirectory}/${randomUUID()}`;
  await writeNewFile(temporary, data, exactMode);
  try {
    await ensureFolder(dirname(path));
    await rename(temporary, path);
  } catch (error) {
    await discardFile(temporary);
    throw error;
  }
  await syncDirectory(dirname(path));
}

/**
 * If a file would replace another one of the same size and second, gives it a later second: rsync would take it for the same file.
 * @throws system errors
 */
export async function setTimeApart(path: string, replaced: string): Promise<void> {
  const before = await unlessMissing(lstat(replaced));
  const made = await lstat(path);
  const nextSecond = Math.floor((before?.mtimeMs ?? 0) / 1000) + 1;
  if (before?.size === made.size && made.mtimeMs < nextSecond * 1000)
    await utimes(path, nextSecond, nextSecond);
}

/**
 * Removes empty directories from `path` upwards, never `root` itself or anything outside it.
 * @throws errors that keep an empty one from being removed: nothing else would remove it later
 */
export function removeEmptyFolders(path: string, root: string): void {
  for (let folder = path; folder.startsWith(`${root}/`); folder = dirname(folder)) {
    try {
      rmdirSync(folder);
    } catch (error) {
      const code = systemCode(error);
      if (code === 'ENOENT') continue;
      if (code === 'ENOTEMPTY' || code === 'EEXIST' || code === 'ENOTDIR') return;
      throw error;
    }
  }
}
