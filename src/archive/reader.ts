import { read as readFd } from 'node:fs';
import { Readable } from 'node:stream';
import { callbackify, promisify } from 'node:util';

import { RandomAccessReader } from 'yauzl';

const readAt = promisify(readFd);

const WINDOW_BYTES = 1024 * 1024;
const CHUNK_BYTES = 256 * 1024;

/**
 * Serves the reads of the central directory, which are tiny and in order, from a window that is read ahead; everything
 * else goes to the file as it is.
 */
export class WindowedReader extends RandomAccessReader {
  /** True while the central directory is being listed. */
  readsAhead = true;
  private readonly fd: number;
  private window = Buffer.alloc(0);
  private windowStart = 0;

  constructor(fd: number) {
    super();
    this.fd = fd;
  }

  override read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | null) => void,
  ): void {
    callbackify(() => this.fill(buffer, offset, length, position))(callback);
  }

  override _readStreamForRange(start: number, end: number): Readable {
    // A file stream would close the descriptor when it is destroyed, and others still read from it.
    return Readable.from(this.range(start, end), { objectMode: false });
  }

  override close(callback: (error: Error | null) => void): void {
    callback(null);
  }

  private async *range(start: number, end: number): AsyncGenerator<Buffer> {
    for (let position = start; position < end; position += CHUNK_BYTES) {
      const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, end - position));
      await readExactly(this.fd, chunk, 0, chunk.length, position);
      yield chunk;
    }
  }

  private async fill(buffer: Buffer, offset: number, length: number, position: number): Promise<void> {
    if (!this.readsAhead || length > WINDOW_BYTES) {
      await readExactly(this.fd, buffer, offset, length, position);
      return;
    }
    const isInside =
      position >= this.windowStart && position + length <= this.windowStart + this.window.length;
    if (!isInside) {
      const window = Buffer.allocUnsafe(WINDOW_BYTES);
      const { bytesRead } = await readAt(this.fd, window, 0, WINDOW_BYTES, position);
      this.window = window.subarray(0, bytesRead);
      this.windowStart = position;
    }
    const from = position - this.windowStart;
    if (from + length > this.window.length) throw new Error('unexpected end of the file');
    this.window.copy(buffer, offset, from, from + length);
  }
}

/** Reads so many bytes, or fails: an archive never ends where its own directory says that it goes on. */
export async function readExactly(
  fd: number,
  buffer: Buffer,
  offset: number,
  length: number,
  position: number,
): Promise<void> {
  for (let done = 0; done < length;) {
    const { bytesRead } = await readAt(fd, buffer, offset + done, length - done, position + done);
    if (bytesRead === 0) throw new Error('unexpected end of the file');
    done += bytesRead;
  }
}
