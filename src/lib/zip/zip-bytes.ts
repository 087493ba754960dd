import { read as readFd } from 'node:fs';
import { promisify } from 'node:util';

const readAt = promisify(readFd);

/** A zip archive is not whole, or contradicts itself. The message is a full sentence. */
export class ZipFault extends Error {}

/** The bytes of a zip archive, by position. */
export interface ZipBytes {
  /** Of the whole archive. */
  readonly sizeBytes: number;
  /** How many of its first bytes cannot be read. */
  readonly startBytes: number;
  /** The bytes at hand, good until others are asked for: a view of each part would take longer to make than to read. */
  readonly atHand: Buffer;
  /**
   * Has a part of the archive at hand: at once where it is, as a promise costs more than what is done with most parts.
   * @param aheadBytes how much is read at least, where that is worth a choice
   * @returns where the part starts in `atHand`; a promise that rejects where the archive does not have all of it
   */
  readonly find: (position: number, length: number, aheadBytes?: number) => number | Promise<number>;
}

/** A part of an archive, good until another one is asked for. @throws Error where the archive does not have all of it */
export async function viewOf(bytes: ZipBytes, position: number, length: number): Promise<Buffer> {
  const start = await bytes.find(position, length);
  return bytes.atHand.subarray(start, start + length);
}

/** Enough of a directory for thousands of entries. */
const AHEAD_BYTES = 1024 * 1024;

/** An open archive, read through a window: reads of headers are tiny and in order. The file stays open. */
export class FileWindow implements ZipBytes {
  readonly sizeBytes: number;
  private readonly fd: number;
  readonly startBytes: number;
  /** Is used again: fresh memory for each window would take longer to get than to fill. */
  private memory = Buffer.alloc(0);
  private window = Buffer.alloc(0);
  private windowStart = 0;

  /**
   * @param sizeBytes of the whole archive
   * @param startBytes how many of its first bytes are not in the file
   */
  constructor(fd: number, sizeBytes: number, startBytes = 0) {
    this.fd = fd;
    this.sizeBytes = sizeBytes;
    this.startBytes = startBytes;
  }

  get atHand(): Buffer {
    return this.window;
  }

  find(position: number, length: number, aheadBytes = AHEAD_BYTES): number | Promise<number> {
    const from = position - this.windowStart;
    if (from >= 0 && from + length <= this.window.length) return from;
    // A small archive takes no more than it has: of many at once, windows would be most of what is in memory.
    return this.read(position, length, Math.max(length, Math.min(aheadBytes, this.sizeBytes - position)));
  }

  private async read(position: number, length: number, wantedBytes: number): Promise<number> {
    if (!Number.isSafeInteger(position + length) || position < this.startBytes) throw endedEarly();
    if (this.memory.length < wantedBytes) this.memory = Buffer.allocUnsafe(wantedBytes);
    this.window = this.memory.subarray(0, 0);
    const { bytesRead } = await readAt(this.fd, this.memory, 0, wantedBytes, position - this.startBytes);
    this.window = this.memory.subarray(0, bytesRead);
    this.windowStart = position;
    if (bytesRead < length) throw endedEarly();
    return 0;
  }
}

/**
 * An archive in memory, or its end.
 * @param sizeBytes of the whole archive
 */
export function bytesInMemory(end: Buffer, sizeBytes = end.length): ZipBytes {
  const startBytes = sizeBytes - end.length;
  return {
    sizeBytes,
    startBytes,
    atHand: end,
    find: (position, length) => {
      const from = position - startBytes;
      return from < 0 || from + length > end.length ? Promise.reject(endedEarly()) : from;
    },
  };
}

function endedEarly(): ZipFault {
  return new ZipFault('The archive is damaged: unexpected end of the file.');
}
