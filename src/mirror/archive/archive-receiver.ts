import { toMirrorError, type MirrorError } from '../../lib/errors/errors.ts';
import { type ClaimedThread, claimThread } from '../file-work/pool.ts';
import type { StopFlag } from '../file-work/walk.ts';
import type { Destination } from '../upstream/download.ts';
import type { FinishedArchive, FinishOptions } from './unpack.ts';

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
  readonly #thread: ClaimedThread = claimThread();
  readonly #options: Omit<FinishOptions, 'stop'>;
  readonly #stop: StopFlag = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  /** The chunks that the thread has, in their order. */
  #fed: readonly Promise<void>[] = [];
  #chunk: SharedArrayBuffer | null = null;
  #filledBytes = 0;
  #failure: MirrorError | null = null;

  constructor(options: Omit<FinishOptions, 'stop'>) {
    this.#options = options;
  }

  async begin(): Promise<void> {
    this.sizeBytes = 0;
    this.#filledBytes = 0;
    await this.#thread.run('openArchive', { id: this.#id, ...this.#options, stop: this.#stop });
  }

  write(piece: Uint8Array): Promise<void> | null {
    return this.#put(piece, 0);
  }

  async close(isKept: boolean): Promise<void> {
    if (isKept && this.#filledBytes > 0) this.#hand();
    await Promise.all(this.#fed);
    if (isKept) this.#throwIfFailed();
  }

  /**
   * Unpacks what is left, and checks all. To be called once it was closed.
   * @param onBytes receives the number of bytes of what was kept as they are unpacked
   * @throws MirrorError as `finishArrival`; the reason of the signal
   */
  async finish(onBytes: (bytes: number) => void, signal: AbortSignal): Promise<FinishedArchive> {
    const raise = (): void => void Atomics.store(this.#stop, 0, 1);
    signal.addEventListener('abort', raise);
    try {
      return await this.#thread.run('finishArchive', { id: this.#id }, onBytes);
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    } finally {
      signal.removeEventListener('abort', raise);
    }
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
      this.#chunk ??= free.pop() ?? new SharedArrayBuffer(CHUNK_BYTES);
      const part = piece.subarray(at, at + CHUNK_BYTES - this.#filledBytes);
      new Uint8Array(this.#chunk, this.#filledBytes, part.length).set(part);
      this.#filledBytes += part.length;
      this.sizeBytes += part.length;
      at += part.length;
      if (this.#filledBytes === CHUNK_BYTES) this.#hand();
    }
    return null;
  }

  async #putLater(piece: Uint8Array, at: number): Promise<void> {
    await this.#fed[0];
    await this.#put(piece, at);
  }

  /** Hands what is filled to the thread. */
  #hand(): void {
    if (this.#chunk === null) return;
    const fed = this.#feed(this.#chunk, this.#filledBytes);
    this.#fed = [...this.#fed, fed];
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
