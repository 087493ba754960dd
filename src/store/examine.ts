import { createHash } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { type FileHandle, lstat, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { forEachConcurrently } from '../model/concurrency.ts';
import { systemCode, unlessMissing } from '../model/disk-errors.ts';
import {
  type Difference,
  differencesOf,
  type EntryKind,
  foldersOf,
  type FoundEntry,
} from '../model/drift.ts';
import type { ManifestFile } from '../model/manifest.ts';
import { type DirectoryLayout, treePath } from './layout.ts';

/** How closely a tree is looked at: `facts` by `lstat` alone, `bytes` also by the SHA-256 of every file. */
export type ExamineDepth = 'facts' | 'bytes';

/** How a tree is examined. */
export interface ExamineOptions {
  readonly depth: ExamineDepth;
  /** Ends the examination; its reason is thrown. */
  readonly signal: AbortSignal;
  /** Is told of bytes as they are read. */
  readonly onBytes?: (bytes: number) => void;
  /** Digests of files that an earlier examination of the same tree read; taken on trust only where they agree. */
  readonly known?: Map<string, string>;
}

/** What an examination found. */
export interface Examination {
  /** Whether no folder stands where the tree belongs; then there are no differences to tell. */
  readonly isGone: boolean;
  readonly differences: readonly Difference[];
}

/** Lookups at a time: Node has four threads for them, and each should have a next one at hand. */
const LOOKUPS = 32;

/** Files that are read at a time: while one is hashed, others are on their way from the disk. */
const READS = 16;

/** Bytes of a file that are in memory at a time. */
const CHUNK_BYTES = 512 * 1024;

/**
 * Holds a tree against the files of its manifest. Follows no link, changes nothing, and is stopped by no single file: what
 * cannot be read is a difference. A tree that changes meanwhile may look like a mixture.
 * @param tree where the tree stands; what leads there is not looked at
 * @param files the files of its manifest
 * @throws the reason of `signal`
 */
export async function examineTree(
  tree: string,
  files: readonly ManifestFile[],
  options: ExamineOptions,
): Promise<Examination> {
  try {
    if (!(await isFolder(tree))) return { isGone: true, differences: [] };
  } catch (error) {
    return { isGone: false, differences: [{ path: '.', kind: 'unreadable', problem: problemOf(error) }] };
  }
  const found = await entriesBelow(tree, options.signal);
  if (options.depth === 'bytes')
    await addDigests(tree, found, new Map(files.map((file) => [file.path, file])), options);
  options.signal.throwIfAborted();
  return { isGone: false, differences: differencesOf(files, found) };
}

/**
 * As {@link examineTree}, for a target; one that can only be reached through a link is gone, as the link may lead anywhere.
 * @param path `<repository>/<branch>`, below `mirror/`
 */
export async function examinePublished(
  layout: DirectoryLayout,
  path: string,
  files: readonly ManifestFile[],
  options: ExamineOptions,
): Promise<Examination> {
  for (const folder of foldersOf(path)) {
    const found = await unlessMissing(lstat(join(layout.mirror, folder))).catch(() => null);
    if (found?.isSymbolicLink() === true) return { isGone: true, differences: [] };
  }
  return examineTree(treePath(layout, path), files, options);
}

async function isFolder(path: string): Promise<boolean> {
  return (await unlessMissing(lstat(path)))?.isDirectory() === true;
}

/** Everything below a tree. What vanishes while it is looked at is not there. */
async function entriesBelow(tree: string, signal: AbortSignal): Promise<FoundEntry[]> {
  const found: FoundEntry[] = [];
  const folders = [''];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const names = await namesIn(tree, folder, found);
    const prefix = folder === '' ? '' : `${folder}/`;
    await forEachConcurrently(names, LOOKUPS, async (name) => {
      signal.throwIfAborted();
      const entry = await entryAt(tree, `${prefix}${name}`);
      if (entry === null) return;
      found.push(entry);
      if (entry.kind === 'folder') folders.push(entry.path);
    });
  }
  return found;
}

async function namesIn(tree: string, folder: string, found: FoundEntry[]): Promise<string[]> {
  try {
    return (await unlessMissing(readdir(join(tree, folder)))) ?? [];
  } catch (error) {
    found.push({ kind: 'unreadable', path: folder === '' ? '.' : folder, problem: problemOf(error) });
    return [];
  }
}

async function entryAt(tree: string, path: string): Promise<FoundEntry | null> {
  try {
    const stats = await unlessMissing(lstat(join(tree, path)));
    if (stats === null) return null;
    const kind = kindOf(stats);
    return kind === 'file' ? { kind, path, ...factsOf(stats), sha256: null } : { kind, path };
  } catch (error) {
    return { kind: 'unreadable', path, problem: problemOf(error) };
  }
}

/** What stands at a path, by its `lstat`. */
export function kindOf(stats: Pick<Stats, 'isFile' | 'isDirectory' | 'isSymbolicLink'>): EntryKind {
  if (stats.isFile()) return 'file';
  if (stats.isDirectory()) return 'folder';
  return stats.isSymbolicLink() ? 'link' : 'special';
}

function factsOf(stats: Stats): { sizeBytes: number; mode: number; mtimeMs: number } {
  return { sizeBytes: stats.size, mode: stats.mode & 0o7777, mtimeMs: Math.round(stats.mtimeMs) };
}

/** A failed call in the system's words, e.g. `EIO: i/o error, read`, without the path, which may hold anything. */
function problemOf(error: unknown): string {
  if (systemCode(error) === undefined || !(error instanceof Error)) throw error;
  return error.message.replace(/ '[^]*$/, '');
}

/** Reads the files whose size is as it should be; with another size their bytes differ anyway. */
async function addDigests(
  tree: string,
  found: FoundEntry[],
  wanted: ReadonlyMap<string, ManifestFile>,
  options: ExamineOptions,
): Promise<void> {
  const buffers = Array.from({ length: READS }, () => Buffer.allocUnsafe(CHUNK_BYTES));
  await forEachConcurrently(found.keys(), READS, async (index) => {
    options.signal.throwIfAborted();
    const entry = found[index];
    if (entry?.kind !== 'file') return;
    const file = wanted.get(entry.path);
    if (file?.sizeBytes !== entry.sizeBytes) return;
    const buffer = buffers.pop() ?? Buffer.allocUnsafe(CHUNK_BYTES);
    found[index] = await digested(join(tree, entry.path), entry.path, file.sha256, buffer, options);
    buffers.push(buffer);
  });
}

/** Opened without following a link, and without waiting for the other end of what may be a pipe by now (open(2)). */
const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

async function digested(
  absolutePath: string,
  path: string,
  wantedSha256: string,
  buffer: Buffer,
  options: ExamineOptions,
): Promise<FoundEntry> {
  try {
    const handle = await open(absolutePath, READ_FLAGS);
    try {
      const stats = await handle.stat();
      const kind = kindOf(stats);
      if (kind !== 'file') return { kind, path };
      const identity = `${stats.ino} ${stats.size} ${stats.mtimeMs}`;
      const known = options.known?.get(identity);
      if (known === wantedSha256) return { kind, path, ...factsOf(stats), sha256: known };
      const sha256 = await digestOf(handle, stats.size, buffer, options);
      options.known?.set(identity, sha256);
      return { kind, path, ...factsOf(stats), sha256 };
    } finally {
      await handle.close();
    }
  } catch (error) {
    options.signal.throwIfAborted();
    return { kind: 'unreadable', path, problem: problemOf(error) };
  }
}

async function digestOf(
  handle: FileHandle,
  sizeBytes: number,
  buffer: Buffer,
  options: ExamineOptions,
): Promise<string> {
  const hash = createHash('sha256');
  let total = 0;
  for (;;) {
    options.signal.throwIfAborted();
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
    hash.update(buffer.subarray(0, bytesRead));
    options.onBytes?.(bytesRead);
    total += bytesRead;
    // Where all is read that the file had, a part of the buffer left free means that it did not grow.
    if (bytesRead === 0 || (total === sizeBytes && bytesRead < buffer.length)) return hash.digest('hex');
  }
}
