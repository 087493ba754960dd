import { hash } from 'node:crypto';
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { lstat, readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { setImmediate } from 'node:timers/promises';

/** A tree as readers see it: the digests of its files by path. */
export type Tree = ReadonlyMap<string, string>;

/** The tree of files with these bytes. */
export function treeOf(files: ReadonlyMap<string, Uint8Array>): Tree {
  return new Map([...files].map(([path, bytes]) => [path, hash('sha256', bytes)]));
}

/** Runs a read; null if nothing is there. */
export async function ifThere<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw error;
  }
}

/**
 * Reads a tree as a careful reader does: enters its folder first, so that an exchange during the read does not mix two trees.
 * A file that vanishes between the listing and the reading is left out. Null if there is no tree.
 * All calls are synchronous: this takes a fifth of the CPU time, and the program still runs between two of them.
 */
export async function readTree(path: string): Promise<Tree | null> {
  const descriptor = readable(() => openSync(path, 'r'));
  if (descriptor === null) return null;
  try {
    const root = `/proc/self/fd/${descriptor}`;
    const tree = new Map<string, string>();
    for (const file of filesBelow(root, '')) {
      await setImmediate();
      const bytes = readable(() => readFileSync(join(root, file)));
      if (bytes !== null) tree.set(file, hash('sha256', bytes));
    }
    return tree;
  } finally {
    closeSync(descriptor);
  }
}

/** Runs a read; null if nothing is there, or a folder replaced a file, which may happen with `publish: rename`. */
function readable<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (['ENOENT', 'ENOTDIR', 'EISDIR'].includes(code)) return null;
    throw error;
  }
}

function filesBelow(root: string, folder: string): string[] {
  const entries = readable(() => readdirSync(join(root, folder, '.'), { withFileTypes: true })) ?? [];
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesBelow(root, path) : [path];
  });
}

/** All paths below a folder, except those of folders with contents. */
export async function leavesBelow(folder: string): Promise<string[]> {
  const entries = (await ifThere(readdir(folder, { recursive: true, withFileTypes: true }))) ?? [];
  const paths = entries.map((entry) => ({
    path: relative(folder, join(entry.parentPath, entry.name)),
    isFolder: entry.isDirectory(),
  }));
  return paths
    .filter(({ path, isFolder }) => !isFolder || !paths.some((other) => other.path.startsWith(`${path}/`)))
    .map(({ path }) => path)
    .sort();
}

/** Whether two trees hold the same files. */
export function isSameTree(one: Tree | null, other: Tree | null): boolean {
  if (one === null || other === null) return one === other;
  return one.size === other.size && [...one].every(([path, digest]) => other.get(path) === digest);
}

/** A tree in a few words, for reports. */
export function describeTree(tree: Tree | null): string {
  if (tree === null) return 'nothing';
  return [...tree].map(([path, digest]) => `${path}=${digest.slice(0, 6)}`).join(' ') || 'an empty folder';
}

interface ManifestOnDisk {
  readonly files: readonly { path: string; size: number; sha256: string; mode: string; mtime: string }[];
}

/** The differences between a manifest and its tree. */
export async function manifestFaults(directory: string, target: string): Promise<string[]> {
  const text = await ifThere(readFile(join(directory, 'manifests', `${target}.json`), 'utf8'));
  if (text === null) return [`${target}: no manifest`];
  const { files } = JSON.parse(text) as ManifestOnDisk;
  const tree = join(directory, 'mirror', target);
  const faults: string[] = [];
  for (const { path, size, sha256, mode, mtime } of files) {
    const file = join(tree, path);
    const stats = await ifThere(lstat(file));
    if (stats?.isFile() !== true) {
      faults.push(`${target}/${path}: in the manifest only`);
      continue;
    }
    const said = `${size} ${mode} ${Date.parse(mtime)} ${sha256}`;
    const modeText = (stats.mode & 0o7777).toString(8).padStart(4, '0');
    const found = `${stats.size} ${modeText} ${Math.round(stats.mtimeMs)} ${hash('sha256', await readFile(file))}`;
    if (said !== found) faults.push(`${target}/${path}: the manifest says ${said}, it is ${found}`);
  }
  const listed = new Set(files.map((file) => file.path));
  const strays = (await leavesBelow(tree)).filter((path) => !listed.has(path));
  return [...faults, ...strays.map((path) => `${target}/${path}: not in the manifest`)];
}
