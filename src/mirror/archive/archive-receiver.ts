import { toMirrorError, type MirrorError } from '../../lib/errors/errors.ts';
import { claimThread, withStopFlag } from '../file-work/pool.ts';
import type { Destination } from '../upstream/download.ts';
import type { ArrivalOptions } from './arrival.ts';
import type { FinishedArchive } from './unpack.ts';

/** Bytes that are handed to a thread together. */
const CHUNK_BYTES = 512 * 1024;

/** Chunks of one archive that its thread has. */
const MOST_CHUNKS = 3;

/** Memory that waits for its next use: the system would have to clear fresh memory first, and V8 does not know how much is in it. */
const free: SharedArrayBuffer[] = [];
const MOST_FREE = 8;

let lastId = 0;

/** Hands an archive that is downloaded to a thread, which unpacks it while it arrives. */
export class ArchiveReceiver implements Destination {
  sizeBytes = 0;
  readonly #id = (lastId += 1);
  readonly #thread = claimThread();
  readonly #options: ArrivalOptions;
  /** The chunks that the thread has, in their order. */
  #fed: readonly Promise<void>[] = [];
  #chunk: SharedArrayBuffer | null = null;
  #filledBytes = 0;
  #failure: MirrorError | null = null;

  constructor(options: ArrivalOptions) {
    this.#options = options;
  }

  async begin(): Promise<void> {
    this.sizeBytes = 0;
    this.#filledBytes = 0;
    await this.#thread.run('openArchive', { id: this.#id, ...this.#options });
  }

  write(piece: Uint8Array): Promise<void> | null {
    return this.#put(piece, 0);
  }

  async close(isKept: boolean): Promise<void> {
    if (isKept && this.#chunk !== null) this.#hand(this.#chunk);
    await Promise.all(this.#fed);
    if (isKept) this.#throwIfFailed();
  }

  /**
   * Unpacks the entries that were kept, and checks all. To be called once it was closed.
   * @param onBytes receives the number of bytes of entries that were kept as they are unpacked
   * @throws MirrorError as `finishArchive`; the reason of the signal
   */
  finish(onBytes: (bytes: number) => void, signal: AbortSignal): Promise<FinishedArchive> {
    return withStopFlag(signal, (stop) => this.#thread.run('finishArchive', { id: this.#id, stop }, onBytes));
  }

  /** To be called once in any case: lets go of all but the unpacked files. */
  async release(): Promise<void> {
    // It fails only where the thread has ended, and with it all that was open.
    await this.#thread.run('abandonArchive', { id: this.#id }).catch(() => {});
    this.#thread.claims -= 1;
    if (this.#chunk !== null) giveBack(this.#chunk);
    this.#chunk = null;
  }

  #throwIfFailed(): void {
    if (this.#failure !== null) throw this.#failure;
  }

  #put(piece: Uint8Array, from: number): Promise<void> | null {
    this.#throwIfFailed();
    for (let at = from; at < piece.length;) {
      if (this.#chunk === null && this.#fed.length >= MOST_CHUNKS) return this.#putLater(piece, at);
      const chunk = (this.#chunk ??= free.pop() ?? new SharedArrayBuffer(CHUNK_BYTES));
      const part = piece.subarray(at, at + CHUNK_BYTES - this.#filledBytes);
      new Uint8Array(chunk, this.#filledBytes, part.length).set(part);
      this.#filledBytes += part.length;
      this.sizeBytes += part.length;
      at += part.length;
      if (this.#filledBytes === CHUNK_BYTES) this.#hand(chunk);
    }
    return null;
  }

  async #putLater(piece: Uint8Array, at: number): Promise<void> {
    await this.#fed[0];
    await this.#put(piece, at);
  }

  #hand(chunk: SharedArrayBuffer): void {
    this.#fed = [...this.#fed, this.#feed(chunk, this.#filledBytes)];
    this.#chunk = null;
    this.#filledBytes = 0;
  }

  async #feed(memory: SharedArrayBuffer, lengthBytes: number): Promise<void> {
    try {
      await this.#thread.run('feedArchive', { id: this.#id, memory, lengthBytes });
    } catch (error) {
      this.#failure ??= toMirrorError(error);
    }
    this.#fed = this.#fed.slice(1);
    giveBack(memory);
  }
}

function giveBack(memory: SharedArrayBuffer): void {
  if (free.length < MOST_FREE) free.push(memory);
}
