import { closeSync, constants, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { setImmediate as pause } from 'node:timers/promises';

import { endedEarly } from '../../lib/zip/zip-fault.ts';

/** The bytes of an archive from some place on. Bytes at hand are good until more are asked for. */
export interface Source {
  /** Where the bytes at hand start in the archive. */
  readonly position: number;
  /**
   * Has so many bytes at hand, or all that are left. Others have their turn in the thread where it takes long.
   * @throws the reason for which the archive is abandoned; Error of the disk
   */
  readonly atHand: (leastBytes: number) => Promise<Buffer>;
  /** Moves on by some of the bytes at hand. */
  readonly take: (lengthBytes: number) => void;
}

const NO_BYTES = Buffer.alloc(0);

/** A piece of an archive, and the call that says that it is not read any more. */
interface Piece {
  readonly bytes: Buffer;
  readonly onUsed: () => void;
}

/** An archive that arrives piece by piece. */
export class Arrival implements Source {
  position = 0;
  readonly #signal: AbortSignal;
  #hand: Buffer = NO_BYTES;
  #current: Piece | null = null;
  /** Those that come next. */
  readonly #pieces: Piece[] = [];
  #isWhole = false;
  #wake = (): void => {};

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    signal.addEventListener('abort', () => this.#wake());
  }

  /** Adds a piece. It ends when the piece is not read any more. */
  feed(bytes: Buffer): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#pieces.push({ bytes, onUsed: resolve });
    this.#wake();
    return promise;
  }

  /** Nothing more comes. */
  end(): void {
    this.#isWhole = true;
    this.#wake();
  }

  async atHand(leastBytes: number): Promise<Buffer> {
    this.#signal.throwIfAborted();
    while (this.#hand.length < leastBytes) {
      const rest = Buffer.from(this.#hand);
      this.#hand = NO_BYTES;
      const next = await this.#nextPiece();
      this.#hand = rest.length === 0 ? next : Buffer.concat([rest, next]);
      if (next.length === 0) break;
    }
    return this.#hand;
  }

  take(lengthBytes: number): void {
    this.position += lengthBytes;
    this.#hand = this.#hand.subarray(lengthBytes);
  }

  /** Gives all pieces back, as nothing is read any more. */
  close(): void {
    this.#current?.onUsed();
    for (const { onUsed } of this.#pieces) onUsed();
  }

  /** Gives the piece at hand back. @returns the next one; no bytes at the end */
  async #nextPiece(): Promise<Buffer> {
    this.#current?.onUsed();
    this.#current = null;
    while (this.#pieces.length === 0 && !this.#isWhole) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      await promise;
      this.#signal.throwIfAborted();
    }
    this.#current = this.#pieces.shift() ?? null;
    return this.#current?.bytes ?? NO_BYTES;
  }
}

/** Bytes that are read together. */
const WINDOW_BYTES = 512 * 1024;

/** The last bytes of an archive, kept in a file, from which they are read through a window. Methods throw errors of the disk. */
export class KeptBytes implements Source {
  position = 0;
  /** Of the whole archive. */
  sizeBytes: number;
  /** Where they start in the archive. */
  readonly startBytes: number;
  readonly #path: string;
  readonly #progress: Float64Array;
  readonly #signal: AbortSignal;
  readonly #fd: number;
  #window = NO_BYTES;
  #windowStart = 0;

  /** @param progress counts the bytes that are taken, see `UnpackOptions` */
  constructor(path: string, startBytes: number, progress: Float64Array, signal: AbortSignal) {
    this.#progress = progress;
    this.#path = path;
    this.#signal = signal;
    this.startBytes = startBytes;
    this.sizeBytes = startBytes;
    rmSync(path, { force: true });
    this.#fd = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600);
  }

  add(bytes: Buffer): void {
    for (let at = 0; at < bytes.length;) {
      const written = writeSync(this.#fd, bytes, at, bytes.length - at, this.sizeBytes - this.startBytes);
      at += written;
      this.sizeBytes += written;
    }
  }

  /** See `ReadBytes`. */
  read(position: number, lengthBytes: number): Buffer {
    if (!(position >= this.startBytes) || !(position + lengthBytes <= this.sizeBytes)) throw endedEarly();
    const isThere =
      position >= this.#windowStart && position + lengthBytes <= this.#windowStart + this.#window.length;
    if (!isThere) this.#fill(position, lengthBytes);
    const at = position - this.#windowStart;
    return this.#window.subarray(at, at + lengthBytes);
  }

  /** Goes to a place in the archive, which must be among the bytes that were kept. */
  seek(position: number): void {
    this.position = position;
  }

  async atHand(leastBytes: number): Promise<Buffer> {
    const lengthBytes = Math.min(leastBytes, this.sizeBytes - this.position);
    if (this.position + lengthBytes > this.#windowStart + this.#window.length) await pause();
    this.#signal.throwIfAborted();
    this.read(this.position, lengthBytes);
    return this.#window.subarray(this.position - this.#windowStart);
  }

  take(lengthBytes: number): void {
    this.position += lengthBytes;
    this.#progress[0] = (this.#progress[0] ?? 0) + lengthBytes;
  }

  close(): void {
    closeSync(this.#fd);
    rmSync(this.#path, { force: true });
  }

  #fill(position: number, leastBytes: number): void {
    const lengthBytes = Math.max(leastBytes, Math.min(WINDOW_BYTES, this.sizeBytes - position));
    const window = Buffer.allocUnsafe(lengthBytes);
    const bytesRead = readSync(this.#fd, window, 0, lengthBytes, position - this.startBytes);
    this.#window = window.subarray(0, bytesRead);
    this.#windowStart = position;
    if (bytesRead < leastBytes) throw endedEarly();
  }
}
