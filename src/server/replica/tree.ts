import type { FileHandle } from 'node:fs/promises';
import { createHash } from 'node:crypto';

import { forEachConcurrently } from '../../lib/concurrency/concurrency.ts';
import type { ManifestFile } from '../../mirror/store/manifest.ts';
import type { ByteRange, Bytes } from '../http/library.ts';
import type { MirrorPort } from './manifests.ts';
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

/** Opens the tree of a target; null where none stands there. */
export async function openTree(
  { directory, wayToTree }: Pick<MirrorPort, 'directory' | 'wayToTree'>,
  target: string,
  proofs: Proofs,
): Promise<OpenTree | null> {
  // The directory itself may be a link.
  const root = await openFolder(`${directory}/.`);
  if (root === null) return null;
  const toTree = walkFrom(root);
  const close = async (): Promise<void> => {
    await toTree.close();
    await root.close();
  };
  try {
    const tree = await toTree.enter(wayToTree(target));
    if (tree !== null) return new OpenTree(tree, proofs, close);
  } catch (error) {
    await close();
    throw error;
  }
  await close();
  return null;
}

/** The folder of a path, in segments, and its name there. */
function split(path: string): { readonly folder: readonly string[]; readonly name: string } {
  const segments = path.split('/');
  return { folder: segments.slice(0, -1), name: segments.at(-1) ?? '' };
}

/** A handle, and when others no longer read by it. */
interface Held {
  readonly handle: FileHandle;
  /** Settles when the proof that reads it has ended; never rejects. */
  isProved: Promise<void>;
}

/** Closes a handle; where others wait for a proof that reads it, when that has ended. */
async function letGo({ handle, isProved }: Held): Promise<void> {
  await isProved;
  await handle.close();
}

/** A published tree that is open: it stays readable, as it was, when another one takes its place. */
export class OpenTree {
  readonly identity: string;
  private readonly tree: OpenFolder;
  private readonly proofs: Proofs;
  private readonly walk: Walk;
  private readonly closePath: () => Promise<void>;

  constructor(tree: OpenFolder, proofs: Proofs, closePath: () => Promise<void>) {
    this.identity = tree.identity;
    this.tree = tree;
    this.proofs = proofs;
    this.walk = walkFrom(tree);
    this.closePath = closePath;
  }

  /**
   * Makes sure that files are what the manifest says: by size and time, or, where the time is another one, by their bytes.
   * @param files sorted by path
   * @throws TreeChangedError, and the reason of `signal`
   */
  async check(files: readonly ManifestFile[], signal?: AbortSignal): Promise<void> {
    const walk = walkFrom(this.tree);
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
        for (const file of doubtful) await this.prove(walk, file, signal);
      }
    } finally {
      await walk.close();
    }
  }

  /** All of a file's bytes, held against the manifest. @throws TreeChangedError */
  async readWhole(file: ManifestFile): Promise<Buffer> {
    const handle = await opened(this.walk, file);
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
  }

  /** A file's bytes in pieces; the last one is not given before all of them were held against the manifest. @throws TreeChangedError */
  async *read(file: ManifestFile, signal: AbortSignal, range?: ByteRange): Bytes {
    const handle = await opened(this.walk, file);
    const held: Held = { handle, isProved: Promise.resolve() };
    try {
      if (range !== undefined) {
        // The digest is that of the whole: without it nothing says whether a part is the right one.
        await this.proveOpen(held, file, signal);
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
      await this.conclude(handle, file, identity, hash.digest('hex'));
      if (kept !== null) yield kept;
    } finally {
      await letGo(held);
    }
  }

  async close(): Promise<void> {
    await this.walk.close();
    await this.closePath();
  }

  /** Makes sure of a file's bytes. @throws TreeChangedError, and the reason of `signal` */
  private async prove(walk: Walk, file: ManifestFile, signal?: AbortSignal): Promise<void> {
    const held: Held = { handle: await opened(walk, file), isProved: Promise.resolve() };
    try {
      await this.proveOpen(held, file, signal);
    } finally {
      await letGo(held);
    }
  }

  private async proveOpen(held: Held, file: ManifestFile, signal?: AbortSignal): Promise<void> {
    const { handle } = held;
    const identity = await identityOf(handle);
    if (this.proofs.isKnown(identity, file.sha256)) return;
    await this.proofs.share(identity, file.sha256, signal, (shared) => {
      const hashed = async (): Promise<void> => {
        const hash = createHash('sha256');
        for await (const piece of piecesOf(handle, 0, file.sizeBytes, shared)) hash.update(piece);
        await this.conclude(handle, file, identity, hash.digest('hex'));
      };
      const proof = hashed();
      held.isProved = proof.catch(() => {});
      return proof;
    });
  }

  /** Holds a digest against the manifest, and remembers it if the file was one and the same all the time. @throws TreeChangedError */
  private async conclude(
    handle: FileHandle,
    file: ManifestFile,
    identity: string,
    sha256: string,
  ): Promise<void> {
    if (sha256 !== file.sha256) throw otherBytes(file);
    if ((await identityOf(handle)) === identity) this.proofs.remember(identity, sha256);
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

async function identityOf(handle: FileHandle): Promise<string> {
  const { dev, ino, size, mtimeNs, ctimeNs } = await handle.stat({ bigint: true });
  return `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`;
}

function otherBytes({ path }: ManifestFile): TreeChangedError {
  return new TreeChangedError(path, 'a file has other bytes than the manifest says');
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
