import { createHash, type Hash, hash } from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  rmSync,
  write as writeFd,
  writeSync,
} from 'node:fs';
import { promisify } from 'node:util';
import { crc32 } from 'node:zlib';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { Inflater } from '../../lib/zip/inflater.ts';
import { type Content, isSameContent } from '../../lib/zip/entry-facts.ts';
import { makingFolder, PERMISSION_BITS } from './trees.ts';

/** A published file that an entry may equal. */
export interface KnownFile {
  readonly path: string;
  readonly sizeBytes: number;
  /** Null if only the size and the SHA-256 count. */
  readonly crc32: number | null;
  /** In hexadecimal digits. */
  readonly sha256: string;
}

/** The outcome for the content of an entry. */
export type EntryOutcome =
  | {
      readonly kind: 'written';
      /** In hexadecimal digits. */
      readonly sha256: string;
      /** Permission bits. */
      readonly mode: number;
    }
  /** It equals the known file at a path, and was not written. */
  | { readonly kind: 'same'; readonly by: 'crc32' | 'sha256'; readonly as: string }
  /** There is no file for it. The fault follows the entry's name. */
  | { readonly kind: 'fault'; readonly fault: string };

/** The outcome if the file's name is taken, or no file was wanted. */
const NO_FILE: EntryOutcome = { kind: 'fault', fault: 'has the place of another entry' };

/** The fault of a content with more bytes than allowed. */
export const TOO_MUCH = 'has more content than it may have';
const WRONG_CONTENT = 'does not match its size or CRC-32';

/** How the content of an entry is unpacked. */
export interface EntryFileOptions {
  /** The place of the file, an absolute path; null for no file. */
  readonly place: string | null;
  readonly isDeflated: boolean;
  readonly known: KnownFile | null;
  /** The most bytes of content. */
  readonly mostBytes: number;
}

/** Errors for a taken name, by another file or by one in the place of a folder (open(2)). */
const TAKEN: ReadonlySet<string | undefined> = new Set(['EEXIST', 'EISDIR', 'ENOTDIR']);

/** The size of the buffers that files are written from: a whole multiple of the blocks of all disks, and of the pages of all machines. */
const BUFFER_BYTES = 1024 * 1024;
const BLOCK_BYTES = 64 * 1024;

/** Memory and inflaters that this thread will reuse. */
const buffers: Buffer<ArrayBuffer>[] = [];
const inflaters: Inflater[] = [];
const MOST_KEPT = 4;

/**
 * A buffer for writing files past the page cache. In V8, resizable memory begins at a page boundary; if
 * it does not, the system refuses it, and the file goes through the cache.
 */
function createBuffer(): Buffer<ArrayBuffer> {
  return Buffer.from(new ArrayBuffer(BUFFER_BYTES, { maxByteLength: BUFFER_BYTES }), 0, BUFFER_BYTES);
}

/**
 * The content of an entry on its way into a file. One that fits into a buffer is written once it is verified. A larger one
 * is written buffer by buffer, each while the next is filled. All methods throw errors of the disk.
 */
export class EntryFile {
  sizeBytes = 0;
  crc32 = 0;
  /** Compressed bytes that were used. */
  compressedBytes = 0;
  /** Why no more is accepted, to follow the entry's name; null if nothing is wrong. */
  fault: string | null = null;
  private readonly _options: EntryFileOptions;
  private readonly _inflater: Inflater | null;
  private _buffer = buffers.pop() ?? createBuffer();
  private _filledBytes = 0;
  /** The buffer that is being, or was last, written. */
  private _other: Buffer<ArrayBuffer> | null = null;
  private _writing: Promise<void> | null = null;
  private _file: NewFile | 'taken' | null = null;
  /** The digest of the written bytes; null while everything is in the buffer. */
  private _digest: Hash | null = null;
  private _hasEnded = false;

  constructor(options: EntryFileOptions) {
    this._options = options;
    this._inflater = options.isDeflated ? (inflaters.pop() ?? new Inflater()) : null;
    this._inflater?.reset();
  }

  /**
   * Takes a piece of the content, as it is in the archive.
   * @param isLast whether no more follow
   * @returns how much of it was used: less if the deflated bytes end in it
   */
  async write(piece: Buffer, isLast: boolean): Promise<number> {
    let usedBytes = this._fill(piece, isLast);
    while (this._filledBytes === BUFFER_BYTES && this.fault === null) {
      await this._spill();
      usedBytes += this._fill(piece.subarray(usedBytes), isLast);
    }
    this.compressedBytes += usedBytes;
    return usedBytes;
  }

  /** Ends it, and writes the rest. @param expected null if there is nothing to compare the content with */
  async end(expected: Content | null): Promise<EntryOutcome> {
    this._hasEnded = true;
    try {
      const rest = this._buffer.subarray(0, this._filledBytes);
      this._count(rest);
      if (expected !== null && !isSameContent(expected, this)) this.fault ??= WRONG_CONTENT;
      if (this.fault !== null) return { kind: 'fault', fault: this.fault };
      return await this._finish(rest);
    } finally {
      await this._letGo();
    }
  }

  /** Abandons it, unless it has ended. */
  async close(): Promise<void> {
    if (!this._hasEnded) await this._letGo();
  }

  private async _letGo(): Promise<void> {
    await this._writing?.catch(() => {});
    if (this._file instanceof NewFile) this._file.close();
    for (const buffer of [this._buffer, this._other])
      if (buffer !== null && buffers.length < MOST_KEPT) buffers.push(buffer);
    if (this._inflater !== null && inflaters.length < MOST_KEPT) inflaters.push(this._inflater);
  }

  private async _finish(rest: Buffer): Promise<EntryOutcome> {
    const { place, known } = this._options;
    if (place === null) return NO_FILE;
    if (this._writing !== null) await this._writing;
    const ofSize = known?.sizeBytes === this.sizeBytes ? known : null;
    if (ofSize?.crc32 === this.crc32) return this._same(place, ofSize, 'crc32');
    const sha256 = this._digest?.update(rest).digest('hex') ?? hash('sha256', rest, 'hex');
    if (ofSize?.sha256 === sha256) return this._same(place, ofSize, 'sha256');
    const file = this._open(place);
    if (file === 'taken') return NO_FILE;
    if (this._digest === null) file.writeNow(rest);
    else await file.write(rest);
    return { kind: 'written', sha256, mode: file.mode };
  }

  private _same(place: string, { path }: KnownFile, by: 'crc32' | 'sha256'): EntryOutcome {
    if (this._file instanceof NewFile) rmSync(place);
    return { kind: 'same', by, as: path };
  }

  /** Fills the buffer. @returns how much of the piece was used */
  private _fill(piece: Buffer, isLast: boolean): number {
    try {
      const made = this._inflater?.inflate(piece, this._buffer, this._filledBytes, isLast);
      const usedBytes = made?.usedBytes ?? piece.copy(this._buffer, this._filledBytes);
      this._filledBytes += made?.madeBytes ?? usedBytes;
      if (this.sizeBytes + this._filledBytes > this._options.mostBytes) this.fault = TOO_MUCH;
      return usedBytes;
    } catch (error) {
      if (!(error instanceof Error) || 'syscall' in error || !('code' in error)) throw error;
      this.fault = `is damaged: ${error.message}`;
      return piece.length;
    }
  }

  /** Begins to write the buffer, once the last one is written. */
  private async _spill(): Promise<void> {
    const full = this._buffer;
    this._count(full);
    this._digest ??= createHash('sha256');
    this._digest.update(full);
    await this._writing;
    [this._buffer, this._other] = [this._other ?? buffers.pop() ?? createBuffer(), full];
    this._filledBytes = 0;
    const { place } = this._options;
    const file = place === null ? null : this._open(place);
    if (!(file instanceof NewFile)) return;
    this._writing = file.write(full);
    // A failure is handled where the result is awaited.
    this._writing.catch(() => {});
  }

  private _count(bytes: Buffer): void {
    this.sizeBytes += bytes.length;
    this.crc32 = crc32(bytes, this.crc32);
  }

  /** The file, which is created if necessary. */
  private _open(place: string): NewFile | 'taken' {
    if (this._file !== null) return this._file;
    try {
      return (this._file = new NewFile(place, this._digest !== null));
    } catch (error) {
      if (!TAKEN.has(systemCode(error))) throw error;
      return (this._file = 'taken');
    }
  }
}

/** The mode of new files, before the umask (manual, "On disk"). */
const FILE_MODE = 0o644;

/** Errors of a file system that cannot write past the page cache, at all or in this way (open(2), write(2)). */
const CANNOT: ReadonlySet<string | undefined> = new Set(['EINVAL', 'EOPNOTSUPP', 'ENOTSUP']);

const writeLater = promisify(writeFd);

/**
 * A file that is being made, with the folders around it; an existing one is an error. A large file goes past the page cache
 * (open(2), O_DIRECT): so its bytes are not copied into freshly cleared memory, and displace nothing from the cache.
 * If the file system cannot do that, they go through the cache. All methods throw errors of the disk.
 */
class NewFile {
  readonly #path: string;
  #isDirect: boolean;
  #fd: number;
  #writtenBytes = 0;

  constructor(path: string, isLarge: boolean) {
    this.#path = path;
    this.#isDirect = isLarge;
    this.#fd = makingFolder(path, () => this.#open());
  }

  /** Writes the whole content of a small file. */
  writeNow(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length;) at += writeSync(this.#fd, bytes, at);
  }

  /**
   * Appends bytes to a large file while the caller does something else. They must be a whole buffer of {@link createBuffer}, or its
   * start for the last bytes; the rest of the buffer is then overwritten. Call it again only when it has ended.
   */
  async write(bytes: Uint8Array): Promise<void> {
    const paddedBytes = this.#isDirect ? Math.ceil(bytes.length / BLOCK_BYTES) * BLOCK_BYTES : bytes.length;
    const padded = new Uint8Array(bytes.buffer, bytes.byteOffset, paddedBytes).fill(0, bytes.length);
    for (let at = 0; at < paddedBytes;) at += await this.#writeSome(padded, at);
    this.#writtenBytes += bytes.length;
    if (paddedBytes > bytes.length) ftruncateSync(this.#fd, this.#writtenBytes);
  }

  /** Its permission bits. */
  get mode(): number {
    return fstatSync(this.#fd).mode & PERMISSION_BITS;
  }

  /** Call this in any case. */
  close(): void {
    closeSync(this.#fd);
  }

  #open(): number {
    if (!this.#isDirect) return openSync(this.#path, 'wx', FILE_MODE);
    const { O_WRONLY, O_CREAT, O_EXCL, O_DIRECT, O_TRUNC, O_NOFOLLOW } = constants;
    try {
      return openSync(this.#path, O_WRONLY | O_CREAT | O_EXCL | O_DIRECT, FILE_MODE);
    } catch (error) {
      if (!CANNOT.has(systemCode(error))) throw error;
    }
    this.#isDirect = false;
    // A file system may create the file before it finds out (open(2), "EINVAL").
    return openSync(this.#path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, FILE_MODE);
  }

  async #writeSome(bytes: Uint8Array, from: number): Promise<number> {
    try {
      const position = this.#writtenBytes + from;
      return (await writeLater(this.#fd, bytes, from, bytes.length - from, position)).bytesWritten;
    } catch (error) {
      // A call on an open file does not name it, but a person must know which file is too large (EFBIG).
      if (error instanceof Error) Object.assign(error, { path: this.#path });
      if (!this.#isDirect || !CANNOT.has(systemCode(error))) throw error;
    }
    this.#isDirect = false;
    const fd = openSync(this.#path, constants.O_WRONLY | constants.O_NOFOLLOW);
    closeSync(this.#fd);
    this.#fd = fd;
    return 0;
  }
}
