import type { FileHandle } from 'node:fs/promises';
import { createHash } from 'node:crypto';

import { forEachConcurrently } from '../../lib/concurrency/concurrency.ts';
import type { ManifestFile } from '../../mirror/store/manifest.ts';
import type { ByteRange, Bytes } from '../http/library.ts';
import type { Proofs } from './proofs.ts';
import { lookAtFile, openFile, openFolder, type OpenFolder, type Walk, walkFrom } from './folders.ts';

/** Something that a tree should hold and does not. */
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

/** Opens the tree of a target; null where none stands there. @param path `<repository>/<branch>`, below `mirror` */
export async function openTree(mirror: string, path: string, proofs: Proofs): Promise<OpenTree | null> {
  const root = await openFolder(mirror);
  if (root === null) return null;
  const toTree = walkFrom(root);
  const close = async (): Promise<void> => {
    await toTree.close();
    await root.close();
  };
  try {
    const tree = await toTree.enter(path.split('/'));
    if (tree === null) {
      await close();
      return null;
    }
    return treeOf(tree, proofs, close);
  } catch (error) {
    await close();
    throw error;
  }
}

/** A published tree that is open: it stays readable, as it was, when another one takes its place. */
export type OpenTree = ReturnType<typeof treeOf>;

function treeOf(tree: OpenFolder, proofs: Proofs, closePath: () => Promise<void>) {
  const walk = walkFrom(tree);
  return {
    identity: tree.identity,
    /**
     * Makes sure that files are what the manifest says: by size and time, or, where the time is another one, by their bytes.
     * @param files sorted by path
     * @throws TreeChangedError, and the reason of `signal`
     */
    check: (files: readonly ManifestFile[], signal?: AbortSignal): Promise<void> =>
      check(tree, files, proofs, signal),
    /** All of a file's bytes, held against the manifest. @throws TreeChangedError */
    readWhole: async (file: ManifestFile): Promise<Buffer> => {
      const handle = await opened(walk, file);
      try {
        const pieces: Uint8Array[] = [];
        for await (const piece of piecesOf(handle, 0, file.sizeBytes)) pieces.push(piece);
        const bytes = Buffer.concat(pieces);
        const sha256 = createHash('sha256').update(bytes).digest('hex');
        if (bytes.length !== file.sizeBytes || sha256 !== file.sha256) throw otherBytes(file);
        return bytes;
      } finally {
        await handle.close();
      }
    },
    /** A file's bytes in pieces; the last one is not given before all of them were held against the manifest. @throws TreeChangedError */
    read: (file: ManifestFile, signal: AbortSignal, range?: ByteRange): Bytes =>
      read(walk, file, proofs, signal, range),
    close: async (): Promise<void> => {
      await walk.close();
      await closePath();
    },
  };
}

/** The folder of a path, in segments, and its name there. */
function split(path: string): { readonly folder: readonly string[]; readonly name: string } {
  const segments = path.split('/');
  return { folder: segments.slice(0, -1), name: segments.at(-1) ?? '' };
}

async function check(
  tree: OpenFolder,
  files: readonly ManifestFile[],
  proofs: Proofs,
  signal?: AbortSignal,
): Promise<void> {
  const walk = walkFrom(tree);
  try {
    for (const [folderPath, inFolder] of byFolder(files)) {
      const folder = await walk.enter(folderPath === '' ? [] : folderPath.split('/'));
      if (folder === null) throw new TreeChangedError(folderPath, 'a folder is not there');
      const doubtful: ManifestFile[] = [];
      await forEachConcurrently(inFolder, LOOKUPS, async (file) => {
        signal?.throwIfAborted();
        const found = await lookAtFile(folder, split(file.path).name);
        if (found === null) throw new TreeChangedError(file.path, 'a file is not there');
        if (found.sizeBytes !== file.sizeBytes)
          throw new TreeChangedError(file.path, 'a file has another size');
        if (found.mtimeMs !== file.mtimeMs) doubtful.push(file);
      });
      for (const file of doubtful) await prove(walk, file, proofs, signal);
    }
  } finally {
    await walk.close();
  }
}

/** Files by folder, in the order in which a walk visits each folder once. */
function byFolder(files: readonly ManifestFile[]): [folder: string, files: ManifestFile[]][] {
  const groups = new Map<string, ManifestFile[]>();
  for (const file of files) {
    const folder = file.path.slice(0, Math.max(0, file.path.lastIndexOf('/')));
    const group = groups.get(folder);
    if (group === undefined) groups.set(folder, [file]);
    else group.push(file);
  }
  return [...groups];
}

/** @throws TreeChangedError */
async function opened(walk: Walk, file: ManifestFile): Promise<FileHandle> {
  const { folder, name } = split(file.path);
  const parent = await walk.enter(folder);
  const handle = parent === null ? null : await openFile(parent, name);
  if (handle === null) throw new TreeChangedError(file.path, 'a file is not there');
  try {
    if ((await handle.stat()).size === file.sizeBytes) return handle;
    throw new TreeChangedError(file.path, 'a file has another size');
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Makes sure of a file's bytes. @throws TreeChangedError, and the reason of `signal` */
async function prove(walk: Walk, file: ManifestFile, proofs: Proofs, signal?: AbortSignal): Promise<void> {
  const handle = await opened(walk, file);
  const held = { isProved: Promise.resolve() };
  try {
    await proveOpen(handle, file, proofs, held, signal);
  } finally {
    await letGo(handle, held);
  }
}

interface Held {
  /** Settles when the proof that reads it has ended; never rejects. */
  isProved: Promise<void>;
}

/** Closes a handle; where others wait for a proof that reads it, when that has ended. */
async function letGo(handle: FileHandle, { isProved }: Held): Promise<void> {
  await isProved;
  await handle.close();
}

async function proveOpen(
  handle: FileHandle,
  file: ManifestFile,
  proofs: Proofs,
  held: Held,
  signal?: AbortSignal,
): Promise<void> {
  const identity = await identityOf(handle);
  if (proofs.isKnown(identity, file.sha256)) return;
  await proofs.share(identity, file.sha256, signal, (shared) => {
    const proof = hashOpen(handle, file, proofs, identity, shared);
    held.isProved = proof.catch(() => {});
    return proof;
  });
}

async function hashOpen(
  handle: FileHandle,
  file: ManifestFile,
  proofs: Proofs,
  identity: string,
  signal: AbortSignal,
): Promise<void> {
  const hash = createHash('sha256');
  for await (const piece of piecesOf(handle, 0, file.sizeBytes, signal)) hash.update(piece);
  await conclude(handle, file, proofs, identity, hash.digest('hex'));
}

/** Holds a digest against the manifest, and remembers it if the file was one and the same all the time. @throws TreeChangedError */
async function conclude(
  handle: FileHandle,
  file: ManifestFile,
  proofs: Proofs,
  identity: string,
  sha256: string,
): Promise<void> {
  if (sha256 !== file.sha256) throw otherBytes(file);
  if ((await identityOf(handle)) === identity) proofs.remember(identity, sha256);
}

async function identityOf(handle: FileHandle): Promise<string> {
  const { dev, ino, size, mtimeNs, ctimeNs } = await handle.stat({ bigint: true });
  return `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`;
}

function otherBytes({ path }: ManifestFile): TreeChangedError {
  return new TreeChangedError(path, 'a file has other bytes than the manifest says');
}

async function* read(
  walk: Walk,
  file: ManifestFile,
  proofs: Proofs,
  signal: AbortSignal,
  range?: ByteRange,
): Bytes {
  const handle = await opened(walk, file);
  const held = { isProved: Promise.resolve() };
  try {
    if (range !== undefined) {
      // The digest is that of the whole: without it nothing says whether a part is the right one.
      await proveOpen(handle, file, proofs, held, signal);
      yield* piecesOf(handle, range.first, range.last + 1, signal);
      return;
    }
    const identity = await identityOf(handle);
    const hash = createHash('sha256');
    let kept: Uint8Array | null = null;
    for await (const piece of piecesOf(handle, 0, file.sizeBytes, signal)) {
      if (kept !== null) yield kept;
      hash.update(piece);
      kept = piece;
    }
    await conclude(handle, file, proofs, identity, hash.digest('hex'));
    if (kept !== null) yield kept;
  } finally {
    await letGo(handle, held);
  }
}

/** The bytes of a file from one place to before another, in pieces that are always the same. It ends where the file does. */
async function* piecesOf(handle: FileHandle, from: number, to: number, signal?: AbortSignal): Bytes {
  for (let at = from; at < to;) {
    signal?.throwIfAborted();
    const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, to - at));
    let filled = 0;
    while (filled < piece.length) {
      const { bytesRead } = await handle.read(piece, filled, piece.length - filled, at + filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    if (filled === 0) return;
    yield piece.subarray(0, filled);
    if (filled < piece.length) return;
    at += filled;
  }
}
