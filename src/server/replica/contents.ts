import { createHash } from 'node:crypto';
import { lstat, open, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { forEachConcurrently } from '../../lib/concurrency/concurrency.ts';
import { READ_FLAGS } from '../../lib/disk/own-file.ts';
import { systemCode } from '../../lib/errors/disk-errors.ts';
import { RequestError } from '../../lib/http/request.ts';
import type { ManifestFile } from '../../mirror/store/manifest.ts';
import type { ByteRange, Bytes, Content } from '../http/library.ts';
import { zipBytes, zipOf } from './zip.ts';

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

/** A file or folder of a published tree. */
export interface Place {
  readonly kind: Content['kind'];
  /** The file itself, or all files of the folder. */
  readonly files: readonly ManifestFile[];
  /** The path of the folder with a slash, which names in its archive omit. */
  readonly prefix: string;
}

/**
 * Finds a path in a manifest; a folder is a prefix of file paths. Names in the archive of a folder are relative to it, as in the
 * embedded service.
 * @param path without a slash at either end; empty for everything
 * @throws RequestError 404
 */
export function findPlace(files: readonly ManifestFile[], path: string): Place {
  if (path === '') return { kind: 'archive', prefix: '', files };
  const file = files.find((each) => each.path === path);
  if (file !== undefined) return { kind: 'file', prefix: '', files: [file] };
  const prefix = `${path}/`;
  const below = files.filter((each) => each.path.startsWith(prefix));
  if (below.length > 0) return { kind: 'archive', prefix, files: below };
  throw new RequestError(404, 'path_not_found', `there is no folder or file ${path} on this branch`);
}

/** Must change whenever archives of the same files get other bytes. */
const ARCHIVE_FORM = '2 stored';

/** The entity tag of a place: only the same bytes have it (RFC 9110, section 8.8.3). */
export function tagOf({ kind, files, prefix }: Place): string {
  if (kind === 'file') return `"${files[0]?.sha256}"`;
  const hash = createHash('sha256').update(ARCHIVE_FORM);
  for (const { path, sha256, mode, mtimeMs } of files)
    hash.update(`\n${JSON.stringify([path.slice(prefix.length), sha256, mode, mtimeMs])}`);
  return `"${hash.digest('hex')}"`;
}

/**
 * The content of a place, whose files exist with the sizes of the manifest.
 * @param tree real path of the folder of the tree
 * @throws TreeChangedError, and the reason of `signal`; so does reading the content
 */
export async function contentOf(
  tree: string,
  place: Place,
  signal?: AbortSignal,
): Promise<Omit<Content, 'verifiedAtMs'>> {
  const { kind, files, prefix } = place;
  await checkFiles(tree, files, signal);
  const sources = files.map((file) => {
    const read: Content['open'] = (...how) => readFile(tree, file, ...how);
    return Object.assign({ name: file.path.slice(prefix.length), read }, file);
  });
  const facts = { kind, etag: tagOf(place) };
  const [first] = sources;
  if (kind === 'file' && first !== undefined)
    return { ...facts, sizeBytes: first.sizeBytes, open: first.read };
  return { ...facts, sizeBytes: await zipBytes(sources), open: (...how) => zipOf(sources, ...how) };
}

/** Error codes for a path that is missing, or is something other than expected. */
const NOT_THERE = new Set<unknown>(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO', 'ENAMETOOLONG']);

/** Returns null if the path is missing or something else. */
export async function unlessAbsent<T>(operation: Promise<T>): Promise<T | null> {
  try {
    return await operation;
  } catch (error) {
    if (NOT_THERE.has(systemCode(error))) return null;
    throw error;
  }
}

const LOOKUPS = 32;

/** Checks that files exist with the sizes of the manifest, and that no link leads to them. @throws as {@link contentOf} */
async function checkFiles(
  tree: string,
  files: readonly ManifestFile[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const folders = new Set(files.map(({ path }) => dirname(join(tree, path))));
  await forEachConcurrently(folders, LOOKUPS, async (folder) => {
    if ((await unlessAbsent(realpath(folder))) !== folder)
      throw new TreeChangedError(folder.slice(tree.length + 1), 'a folder is missing');
  });
  await forEachConcurrently(files, LOOKUPS, async ({ path, sizeBytes }) => {
    signal?.throwIfAborted();
    const stats = await unlessAbsent(lstat(join(tree, path)));
    if (stats?.isFile() !== true) throw new TreeChangedError(path, 'a file is missing');
    if (stats.size !== sizeBytes) throw new TreeChangedError(path, 'a file has another size');
  });
}

const PIECE_BYTES = 256 * 1024;

/**
 * Reads a file of a checked tree, or a part of it, and compares all of its bytes with the manifest. The last piece is sent
 * only after that, so that a reader never gets a complete wrong file.
 */
async function* readFile(
  tree: string,
  file: ManifestFile,
  signal: AbortSignal,
  { first, last }: ByteRange = { first: 0, last: file.sizeBytes - 1 },
): Bytes {
  const handle = await unlessAbsent(open(join(tree, file.path), READ_FLAGS));
  if (handle === null) throw new TreeChangedError(file.path, 'a file is missing');
  try {
    // One byte more than the file has would change the digest.
    const how = { autoClose: false, end: file.sizeBytes, highWaterMark: PIECE_BYTES };
    const pieces: AsyncIterable<Uint8Array> = handle.createReadStream(how);
    const hash = createHash('sha256');
    let kept: Uint8Array | null = null;
    let at = 0;
    for await (const piece of pieces) {
      signal.throwIfAborted();
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
  } finally {
    await handle.close();
  }
}
