import { writeSync } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';

import { diskError, onDisk } from '../../lib/errors/disk-errors.ts';
import { FileWindow, type ZipBytes } from '../../lib/zip/zip-bytes.ts';

/** Where a download goes, piece by piece. Nothing is made there before it begins. */
export interface Destination {
  /** How many bytes it holds. */
  readonly sizeBytes: number;
  /**
   * Makes it, or empties it.
   * @param announcedBytes how many bytes are to come; null where nobody said
   * @throws MirrorError `disk.*`
   */
  readonly begin: (announcedBytes: number | null) => Promise<void>;
  /**
   * Adds a piece, whole.
   * @returns what is to be waited for before the next one; null when the piece is there already
   * @throws MirrorError `disk.*`
   */
  readonly write: (piece: Uint8Array) => Promise<void> | null;
  /** Reads the first bytes, of which there may be fewer. */
  readonly readStart: (mostBytes: number) => Promise<Uint8Array>;
  /** Ends the writing. @param isKept whether it stays */
  readonly close: (isKept: boolean) => Promise<void>;
}

/** A write that takes longer is not one into memory, even where others have the processor for a while. */
const SLOW_WRITE_MS = 50;

/**
 * A file that a download goes to; one that is there before is removed. As long as the system takes pieces into its memory at once, they
 * are written directly: to hand each one to another thread costs more than the writing itself. After a write that took long, as on
 * a disk that is behind, the program does not wait for the next one.
 */
export class FileDestination implements Destination {
  sizeBytes = 0;
  private readonly path: string;
  private file: FileHandle | null = null;
  private isSlow = false;

  constructor(path: string) {
    this.path = path;
  }

  async begin(): Promise<void> {
    this.sizeBytes = 0;
    await onDisk('writing the download', async () => {
      if (this.file !== null) return this.file.truncate(0);
      await rm(this.path, { force: true });
      this.file = await open(this.path, 'wx+');
    });
  }

  write(piece: Uint8Array): Promise<void> | null {
    if (this.isSlow) return this.writeInBackground(piece);
    this.writeDirectly(piece);
    return null;
  }

  /** Leaves a hole of so many bytes, which reads as zeros. */
  skip(lengthBytes: number): void {
    this.sizeBytes += lengthBytes;
  }

  async readStart(mostBytes: number): Promise<Uint8Array> {
    return onDisk('reading the download', async () => {
      const { buffer, bytesRead } = await this.opened.read(Buffer.alloc(mostBytes), 0, mostBytes, 0);
      return buffer.subarray(0, bytesRead);
    });
  }

  /** The bytes that came, to be read before it is closed. */
  get bytes(): ZipBytes {
    return new FileWindow(this.opened.fd, this.sizeBytes);
  }

  async close(isKept: boolean): Promise<void> {
    const { file } = this;
    if (file === null) return;
    this.file = null;
    try {
      await onDisk('writing the download', () => file.close());
    } finally {
      if (!isKept) await onDisk('removing the download', () => rm(this.path, { force: true }));
    }
  }

  private get opened(): FileHandle {
    if (this.file === null) throw new TypeError('the download was not begun');
    return this.file;
  }

  private async writeInBackground(piece: Uint8Array): Promise<void> {
    const startedAtMs = performance.now();
    for (let written = 0; written < piece.length;) {
      const { bytesWritten } = await this.opened
        .write(piece, written, piece.length - written, this.sizeBytes)
        .catch((error: unknown) => this.failed(error));
      written += bytesWritten;
      this.sizeBytes += bytesWritten;
    }
    this.isSlow = performance.now() - startedAtMs > SLOW_WRITE_MS;
  }

  private writeDirectly(piece: Uint8Array): void {
    const startedAtMs = performance.now();
    for (let written = 0; written < piece.length;) {
      const bytesWritten = this.writeSome(piece, written);
      written += bytesWritten;
      this.sizeBytes += bytesWritten;
    }
    this.isSlow = performance.now() - startedAtMs > SLOW_WRITE_MS;
  }

  private writeSome(piece: Uint8Array, from: number): number {
    try {
      return writeSync(this.opened.fd, piece, from, piece.length - from, this.sizeBytes);
    } catch (error) {
      return this.failed(error);
    }
  }

  private failed(cause: unknown): never {
    throw diskError(cause, 'writing the download', this.path);
  }
}
