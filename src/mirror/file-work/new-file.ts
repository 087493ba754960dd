import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  futimesSync,
  mkdirSync,
  openSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { PERMISSION_BITS } from '../store/manifest.ts';

/** The mode that files are made with; the umask takes some of it away (manual, "On disk"). */
const FILE_MODE = 0o644;

/** A file that is being made. All methods throw errors of the disk. */
export interface NewFile {
  /** Adds bytes. */
  readonly write: (bytes: Uint8Array) => void;
  /**
   * Ends the writing.
   * @param mtimeMs milliseconds since the epoch
   * @returns its permission bits
   */
  readonly finish: (mtimeMs: number) => number;
  /** To be called in any case. */
  readonly close: () => void;
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

/** Makes a file, and the folders around it; what is there already is an error. */
export function newFile(path: string): NewFile {
  const fd = makingFolder(path, (place) => openSync(place, 'wx', FILE_MODE));
  return {
    write: (bytes) => writeAll(fd, bytes),
    finish: (mtimeMs) => finish(fd, mtimeMs),
    close: () => closeSync(fd),
  };
}

/**
 * Makes a file as {@link newFile} does, whose bytes go past the page cache (open(2), O_DIRECT): they are not copied into memory that
 * is cleared for them first, and take no memory from what others read. Where the file system does not do that, they go
 * through it.
 */
export function newFilePastCache(path: string): NewFile {
  return new FilePastCache(path);
}

/** Whole multiples of the blocks of all disks, and of the pages of all machines. */
const BLOCK_BYTES = 64 * 1024;
const BUFFER_BYTES = 1024 * 1024;

/** Errors of a file system that cannot write past the page cache, at all or as it is asked to (open(2), write(2)). */
const CANNOT: ReadonlySet<string | undefined> = new Set(['EINVAL', 'EOPNOTSUPP', 'ENOTSUP']);

/**
 * One for the thread, which makes one file at a time. Memory that may be resized begins with a page of the machine in V8; where it
 * does not, the system refuses it, and the file goes through the cache.
 */
let aligned: Uint8Array | null = null;

function alignedBuffer(): Uint8Array {
  aligned ??= new Uint8Array(new ArrayBuffer(BUFFER_BYTES, { maxByteLength: BUFFER_BYTES }), 0, BUFFER_BYTES);
  return aligned;
}

class FilePastCache implements NewFile {
  private readonly path: string;
  private readonly buffer = alignedBuffer();
  private fd: number;
  private isDirect = true;
  /** Bytes in the buffer, and in the file. */
  private waitingBytes = 0;
  private writtenBytes = 0;

  constructor(path: string) {
    this.path = path;
    this.fd = makingFolder(path, (place) => this.open(place));
  }

  write(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length;) {
      const end = Math.min(bytes.length, at + BUFFER_BYTES - this.waitingBytes);
      this.buffer.set(bytes.subarray(at, end), this.waitingBytes);
      this.waitingBytes += end - at;
      at = end;
      if (this.waitingBytes === BUFFER_BYTES) this.flush(BUFFER_BYTES);
    }
  }

  finish(mtimeMs: number): number {
    const sizeBytes = this.writtenBytes + this.waitingBytes;
    const paddedBytes = Math.ceil(this.waitingBytes / BLOCK_BYTES) * BLOCK_BYTES;
    this.flush(paddedBytes);
    if (this.writtenBytes !== sizeBytes) ftruncateSync(this.fd, sizeBytes);
    return finish(this.fd, mtimeMs);
  }

  close(): void {
    closeSync(this.fd);
  }

  private open(path: string): number {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
    try {
      return openSync(path, flags | constants.O_DIRECT, FILE_MODE);
    } catch (error) {
      if (!CANNOT.has(systemCode(error))) throw error;
    }
    this.isDirect = false;
    // A file system may make the file before it finds out (open(2), "EINVAL").
    return openSync(
      path,
      constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW,
      FILE_MODE,
    );
  }

  /** Writes what waits, and behind it what else is in the buffer up to a length. */
  private flush(lengthBytes: number): void {
    this.buffer.fill(0, this.waitingBytes, lengthBytes);
    for (let at = 0; at < lengthBytes;)
      at += this.writeSome(this.buffer.subarray(at, lengthBytes), this.writtenBytes + at);
    this.writtenBytes += lengthBytes;
    this.waitingBytes = 0;
  }

  private writeSome(bytes: Uint8Array, position: number): number {
    try {
      return writeSync(this.fd, bytes, 0, bytes.length, position);
    } catch (error) {
      if (!this.isDirect || !CANNOT.has(systemCode(error))) throw error;
    }
    this.isDirect = false;
    const fd = openSync(this.path, constants.O_WRONLY | constants.O_NOFOLLOW);
    closeSync(this.fd);
    this.fd = fd;
    return 0;
  }
}

function writeAll(fd: number, bytes: Uint8Array): void {
  for (let offset = 0; offset < bytes.byteLength;) offset += writeSync(fd, bytes, offset);
}

function finish(fd: number, mtimeMs: number): number {
  futimesSync(fd, mtimeMs / 1000, mtimeMs / 1000);
  return fstatSync(fd).mode & PERMISSION_BITS;
}
