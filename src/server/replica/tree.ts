import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { forEachConcurrently } from '../../lib/concurrency/concurrency.ts';
import { systemCode } from '../../lib/errors/disk-errors.ts';
import type { ManifestFile } from '../../mirror/store/manifest.ts';
import type { ByteRange, Bytes } from '../http/library.ts';

/** A tree differs from its manifest. */
export class TreeChangedError extends Error {
  override readonly name = 'TreeChangedError';
  /** Below the tree; empty for the tree itself. */
  readonly path: string;

  constructor(path: string, what: string) {
    super(what);
    this.path = path;
  }
}

const LOOKUPS = 32;
const PIECE_BYTES = 256 * 1024;

/** Neither follows a link nor waits for the other end of a pipe (open(2)). */
export const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Error codes for a path that is missing, or is something else than expected. */
const NOT_THERE: ReadonlySet<string | undefined> = new Set([
  'ENOENT',
  'ENOTDIR',
  'ELOOP',
  'ENXIO',
  'ENAMETOOLONG',
]);

/** Returns null if the path is missing or something else. */
export async function unlessAbsent<T>(operation: Promise<T>): Promise<T | null> {
  try {
    return await operation;
  } catch (error) {
    if (NOT_THERE.has(systemCode(error))) return null;
    throw error;
  }
}

/**
 * Checks that the files of a tree exist with the sizes of the manifest, and that no link leads to them.
 * @param tree real path of the folder
 * @throws TreeChangedError, and the reason of `signal`
 */
export async function checkFiles(
  tree: string,
  files: readonly ManifestFile[],
  signal?: AbortSignal,
): Promise<void> {
  const folders = new Set(files.map(({ path }) => dirname(join(tree, path))));
  await forEachConcurrently(folders, LOOKUPS, (folder) => refuseLink(tree, folder));
  await forEachConcurrently(files, LOOKUPS, async ({ path, sizeBytes }) => {
    signal?.throwIfAborted();
    const stats = await unlessAbsent(lstat(join(tree, path)));
    if (stats?.isFile() !== true) throw new TreeChangedError(path, 'a file is missing');
    if (stats.size !== sizeBytes) throw new TreeChangedError(path, 'a file has another size');
  });
}

/**
 * Reads a file of a checked tree, or a part of it, and compares all of its bytes with the manifest. The last piece is sent
 * only after that, so that a reader never gets a complete wrong file.
 * @throws TreeChangedError, and the error of an aborted read
 */
export async function* readFile(
  tree: string,
  file: ManifestFile,
  signal: AbortSignal,
  { first, last }: ByteRange = { first: 0, last: Infinity },
): Bytes {
  const hash = createHash('sha256');
  let kept: Uint8Array | null = null;
  let at = 0;
  for await (const piece of piecesOf(await openFile(tree, file), file.sizeBytes, signal)) {
    hash.update(piece);
    const wanted = piece.subarray(Math.max(0, first - at), Math.max(0, last + 1 - at));
    at += piece.length;
    if (wanted.length === 0) continue;
    if (kept !== null) yield kept;
    kept = wanted;
  }
  if (hash.digest('hex') !== file.sha256)
    throw new TreeChangedError(file.path, 'a file has other bytes than the manifest says');
  if (kept !== null) yield kept;
}

/** @throws TreeChangedError if a folder of the tree is a link or missing */
async function refuseLink(tree: string, folder: string): Promise<void> {
  if ((await unlessAbsent(realpath(folder))) === folder) return;
  throw new TreeChangedError(folder.slice(tree.length + 1), 'a folder is missing');
}

async function openFile(tree: string, { path, sizeBytes }: ManifestFile): Promise<FileHandle> {
  const handle = await unlessAbsent(open(join(tree, path), READ_FLAGS));
  if (handle === null) throw new TreeChangedError(path, 'a file is missing');
  const stats = await handle.stat();
  if (stats.isFile() && stats.size === sizeBytes) return handle;
  await handle.close();
  throw new TreeChangedError(path, 'a file has another size');
}

/** The first bytes of a file, always in the same pieces, until its end. Closes the file. */
async function* piecesOf(handle: FileHandle, sizeBytes: number, signal: AbortSignal): Bytes {
  try {
    for (let at = 0; at < sizeBytes;) {
      signal.throwIfAborted();
      const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, sizeBytes - at));
      const { bytesRead } = await handle.read(piece, 0, piece.length, at);
      if (bytesRead === 0) return;
      yield piece.subarray(0, bytesRead);
      at += bytesRead;
    }
  } finally {
    await handle.close();
  }
}
