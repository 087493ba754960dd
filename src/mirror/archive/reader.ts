import { read as readFd } from 'node:fs';
import { callbackify, promisify } from 'node:util';

import { RandomAccessReader } from 'yauzl';

const readAt = promisify(readFd);

/** Reads of headers, which are tiny and in order, are served from a part of the file that is read ahead. */
export class FileWindow {
  private readonly fd: number;
  /** How much is read at least. */
  aheadBytes: number;
  private window = Buffer.alloc(0);
  private windowStart = 0;

  /**
   * @param fd an open file, which stays open
   * @param aheadBytes how much is read at least
   */
  constructor(fd: number, aheadBytes: number) {
    this.fd = fd;
    this.aheadBytes = aheadBytes;
  }

  /**
   * The bytes of a part of the file; they are only good until the next call.
   * @throws Error if the file ends before
   */
  async view(position: number, length: number): Promise<Buffer> {
    const isInside =
      position >= this.windowStart && position + length <= this.windowStart + this.window.length;
    if (!isInside) {
      if (!Number.isSafeInteger(position + length)) throw new Error('unexpected end of the file');
      const window = Buffer.allocUnsafe(Math.max(length, this.aheadBytes));
      const { bytesRead } = await readAt(this.fd, window, 0, window.length, position);
      this.window = window.subarray(0, bytesRead);
      this.windowStart = position;
    }
    const from = position - this.windowStart;
    if (from + length > this.window.length) throw new Error('unexpected end of the file');
    return this.window.subarray(from, from + length);
  }
}

const DIRECTORY_AHEAD_BYTES = 1024 * 1024;

/** Gives yauzl the central directory, read ahead. */
export class DirectoryReader extends RandomAccessReader {
  override readonly read: RandomAccessReader['read'];

  constructor(fd: number) {
    super();
    const window = new FileWindow(fd, DIRECTORY_AHEAD_BYTES);
    const copy = async (buffer: Buffer, offset: number, length: number, position: number): Promise<void> => {
      (await window.view(position, length)).copy(buffer, offset);
    };
    // Once for all reads: making it takes longer than most of them.
    this.read = callbackify(copy);
  }

  override close(callback: (error: Error | null) => void): void {
    callback(null);
  }
}

/** Reads so many bytes, or fails: an archive never ends where its own directory says that it goes on. */
export async function readExactly(fd: number, length: number, position: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  for (let done = 0; done < length;) {
    const { bytesRead } = await readAt(fd, buffer, done, length - done, position + done);
    if (bytesRead === 0) throw new Error('unexpected end of the file');
    done += bytesRead;
  }
  return buffer;
}
