import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  futimesSync,
  mkdirSync,
  openSync,
  write as writeFd,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { PERMISSION_BITS } from '../store/manifest.ts';

const writeLater = promisify(writeFd);

/** The mode that files are made with; the umask takes some of it away (manual, "On disk"). */
const FILE_MODE = 0o644;

/** The size of the buffers that files are written from: a whole multiple of the blocks of all disks, and of the pages of all machines. */
export const BUFFER_BYTES = 1024 * 1024;
const BLOCK_BYTES = 64 * 1024;

/** Errors of a file system that cannot write past the page cache, at all or as it is asked to (open(2), write(2)). */
const CANNOT: ReadonlySet<string | undefined> = new Set(['EINVAL', 'EOPNOTSUPP', 'ENOTSUP']);

/**
 * Makes a buffer that files can be written from past the page cache. Memory that may be resized begins with a page of the machine in
 * V8; where it does not, the system refuses it, and the file goes through the cache.
 */
export function createBuffer(): Buffer<ArrayBuffer> {
  return Buffer.from(new ArrayBuffer(BUFFER_BYTES, { maxByteLength: BUFFER_BYTES }), 0, BUFFER_BYTES);
}

/** Makes something at a path, and the folders around it where they are missing. */
export function makingFolder<T>(path: string, make: (path: string) => T): T {
  try {
    return make(path);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
    mkdirSync(dirname(path), { recursive: true });
    return make(path);
  }
}

/**
 * A file that is being made, with the folders around it; what is there already is an error. All methods throw errors of the disk.
 *
 * Where it goes past the page cache (open(2), O_DIRECT), its bytes are not copied into memory that is cleared for them first, and take
 * no memory from what others read. Where the file system does not do that, they go through the cache.
 */
export class NewFile {
  readonly #path: string;
  #isDirect: boolean;
  #fd: number;
  #writtenBytes = 0;

  constructor(path: string, isPastCache: boolean) {
    this.#path = path;
    this.#isDirect = isPastCache;
    this.#fd = makingFolder(path, (place) => this.#open(place));
  }

  /** Writes the whole content of a file that does not go past the page cache. */
  writeNow(bytes: Uint8Array): void {
    try {
      for (let at = 0; at < bytes.length;) at += writeSync(this.#fd, bytes, at);
    } catch (error) {
      throw named(error, this.#path);
    }
  }

  /**
   * Adds bytes, while the caller does something else. They must be a whole buffer of {@link createBuffer}, or the start of one for the
   * last bytes, behind which the buffer is written over. To be called again only when it has ended.
   */
  async write(bytes: Uint8Array): Promise<void> {
    const sizeBytes = this.#writtenBytes + bytes.length;
    const written = this.#isDirect ? padded(bytes) : bytes;
    for (let at = 0; at < written.length;) at += await this.#writeSome(written, at);
    if (written.length > bytes.length) ftruncateSync(this.#fd, sizeBytes);
    this.#writtenBytes = sizeBytes;
  }

  /**
   * Ends the writing.
   * @param timeMs milliseconds since the epoch
   * @returns its permission bits
   */
  finish(timeMs: number): number {
    futimesSync(this.#fd, timeMs / 1000, timeMs / 1000);
    return fstatSync(this.#fd).mode & PERMISSION_BITS;
  }

  /** To be called in any case. */
  close(): void {
    closeSync(this.#fd);
  }

  #open(path: string): number {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
    if (!this.#isDirect) return openSync(path, flags, FILE_MODE);
    try {
      return openSync(path, flags | constants.O_DIRECT, FILE_MODE);
    } catch (error) {
      if (!CANNOT.has(systemCode(error))) throw error;
    }
    this.#isDirect = false;
    // A file system may make the file before it finds out (open(2), "EINVAL").
    return openSync(
      path,
      constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW,
      FILE_MODE,
    );
  }

  async #writeSome(bytes: Uint8Array, from: number): Promise<number> {
    try {
      const position = this.#writtenBytes + from;
      return (await writeLater(this.#fd, bytes, from, bytes.length - from, position)).bytesWritten;
    } catch (error) {
      if (!this.#isDirect || !CANNOT.has(systemCode(error))) throw named(error, this.#path);
    }
    this.#isDirect = false;
    const fd = openSync(this.#path, constants.O_WRONLY | constants.O_NOFOLLOW);
    closeSync(this.#fd);
    this.#fd = fd;
    return 0;
  }
}

/** Bytes up to a whole number of blocks, of zeros behind them. */
function padded(bytes: Uint8Array): Uint8Array {
  const paddedBytes = Math.ceil(bytes.length / BLOCK_BYTES) * BLOCK_BYTES;
  if (paddedBytes === bytes.length) return bytes;
  const whole = new Uint8Array(bytes.buffer, bytes.byteOffset, paddedBytes);
  return whole.fill(0, bytes.length);
}

/** The error of a call on an open file, with the path that it does not have. */
function named(error: unknown, path: string): unknown {
  return error instanceof Error ? Object.assign(error, { path }) : error;
}
