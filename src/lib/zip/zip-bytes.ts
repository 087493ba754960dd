import { read as readFd } from 'node:fs';
import { promisify } from 'node:util';

const readAt = promisify(readFd);

/** The bytes of a zip archive, by position. */
export interface ZipBytes {
  /** Of the whole archive. */
  readonly sizeBytes: number;
  /**
   * Gives a part of the archive: at once where it is at hand, as a promise costs more than what is done with most parts.
   * @param aheadBytes how much is read at least, where that is worth a choice
   * @returns a promise that rejects where the archive does not have all of it
   */
  readonly view: (position: number, length: number, aheadBytes?: number) => Buffer | Promise<Buffer>;
}

/** Enough of a directory for thousands of entries. */
const AHEAD_BYTES = 1024 * 1024;

/** An open archive, read through a window: reads of headers are tiny and in order. The file stays open. */
export class FileWindow implements ZipBytes {
  readonly sizeBytes: number;
  private readonly fd: number;
  private window = Buffer.alloc(0);
  private windowStart = 0;

  constructor(fd: number, sizeBytes: number) {
    this.fd = fd;
    this.sizeBytes = sizeBytes;
  }

  view(position: number, length: number, aheadBytes = AHEAD_BYTES): Buffer | Promise<Buffer> {
    const from = position - this.windowStart;
    if (from >= 0 && from + length <= this.window.length) return this.window.subarray(from, from + length);
    return this.read(position, length, aheadBytes);
  }

  private async read(position: number, length: number, aheadBytes: number): Promise<Buffer> {
    if (!Number.isSafeInteger(position + length)) throw endedEarly();
    const window = Buffer.allocUnsafe(Math.max(length, aheadBytes));
    const { bytesRead } = await readAt(this.fd, window, 0, window.length, position);
    this.window = window.subarray(0, bytesRead);
    this.windowStart = position;
    if (bytesRead < length) throw endedEarly();
    return this.window.subarray(0, length);
  }
}

/**
 * An archive in memory, or its end.
 * @param sizeBytes of the whole archive
 */
export function bytesInMemory(end: Buffer, sizeBytes = end.length): ZipBytes {
  const start = sizeBytes - end.length;
  return {
    sizeBytes,
    view: (position, length) => {
      const from = position - start;
      if (from < 0 || from + length > end.length) return Promise.reject(endedEarly());
      return end.subarray(from, from + length);
    },
  };
}

function endedEarly(): Error {
  return new Error('unexpected end of the file');
}
