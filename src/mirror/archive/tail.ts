import { closeSync, constants, openSync, readSync, rmSync, writeSync } from 'node:fs';

import { callError } from '../../lib/errors/disk-errors.ts';
import { bytesInMemory, FileWindow, type ZipBytes } from '../../lib/zip/zip-bytes.ts';

/** Most archives have a directory of less. */
const MOST_BYTES_IN_MEMORY = 256 * 1024;

/** The bytes of an archive from some place on, kept to be read again: in memory, or in a file where there are many. */
export class Tail {
  lengthBytes = 0;
  readonly #path: string;
  readonly #startBytes: number;
  #memory = Buffer.allocUnsafe(0);
  #fd: number | null = null;

  /** @param startBytes where it starts in the archive */
  constructor(path: string, startBytes: number) {
    this.#path = path;
    this.#startBytes = startBytes;
  }

  add(bytes: Uint8Array): void {
    const endBytes = this.lengthBytes + bytes.length;
    if (this.#fd === null && endBytes <= MOST_BYTES_IN_MEMORY) this.#addInMemory(bytes, endBytes);
    else this.#addToFile(bytes);
    this.lengthBytes = endBytes;
  }

  /** The bytes, by their place in the archive. */
  get bytes(): ZipBytes {
    const sizeBytes = this.#startBytes + this.lengthBytes;
    return this.#fd === null
      ? bytesInMemory(this.#memory.subarray(0, this.lengthBytes), sizeBytes)
      : new FileWindow(this.#fd, sizeBytes, this.#startBytes);
  }

  /**
   * Reads bytes.
   * @param position in the archive
   * @returns how many were read: fewer only where it ends
   */
  read(into: Uint8Array, position: number): number {
    const at = position - this.#startBytes;
    if (this.#fd === null)
      return this.#memory.copy(into, 0, at, Math.min(this.lengthBytes, at + into.length));
    const fd = this.#fd;
    return reading(this.#path, () => readSync(fd, into, 0, into.length, at));
  }

  /** Forgets it. */
  close(): void {
    if (this.#fd === null) return;
    closeSync(this.#fd);
    this.#fd = null;
    rmSync(this.#path, { force: true });
  }

  #addInMemory(bytes: Uint8Array, endBytes: number): void {
    if (endBytes > this.#memory.length) {
      const greater = Buffer.allocUnsafe(
        Math.min(MOST_BYTES_IN_MEMORY, Math.max(endBytes, 2 * this.#memory.length)),
      );
      this.#memory.copy(greater, 0, 0, this.lengthBytes);
      this.#memory = greater;
    }
    this.#memory.set(bytes, this.lengthBytes);
  }

  #addToFile(bytes: Uint8Array): void {
    reading(this.#path, () => {
      if (this.#fd === null) {
        const { O_RDWR, O_CREAT, O_EXCL } = constants;
        rmSync(this.#path, { force: true });
        this.#fd = openSync(this.#path, O_RDWR | O_CREAT | O_EXCL, 0o600);
        writeAll(this.#fd, this.#memory.subarray(0, this.lengthBytes), 0);
        this.#memory = Buffer.allocUnsafe(0);
      }
      writeAll(this.#fd, bytes, this.lengthBytes);
    });
  }
}

function writeAll(fd: number, bytes: Uint8Array, position: number): void {
  for (let done = 0; done < bytes.length;)
    done += writeSync(fd, bytes, done, bytes.length - done, position + done);
}

function reading<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw callError(error, 'keeping the downloaded archive', path);
  }
}
