import { leastBusyThread, type PoolThread } from '../file-work/pool.ts';
import type { Destination } from '../upstream/download.ts';
import type { UnpackedArchive, UnpackOptions } from './unpack.ts';

/** Bytes that are handed to a thread together. */
const CHUNK_BYTES = 512 * 1024;

/** Chunks of one archive that its thread has. */
const MOST_CHUNKS = 3;

/** How often it is looked whether the unpacking of a kept archive goes on, in milliseconds. */
const LOOK_MS = 500;

/**
 * Memory that waits for its next use: the system would have to clear fresh memory first, and V8 does not know how much is in it. The
 * collection of garbage may take it.
 */
const free: WeakRef<SharedArrayBuffer>[] = [];
const MOST_FREE = 8;

let lastId = 0;

/** An archive on its way through a thread. */
interface Unpacking {
  readonly id: number;
  readonly thread: PoolThread;
  readonly result: Promise<UnpackedArchive>;
}

/** Hands an archive that is downloaded to a thread, which unpacks it while it arrives. */
export class ArchiveReceiver implements Destination {
  sizeBytes = 0;
  readonly #options: UnpackOptions;
  #unpacking: Unpacking | null = null;
  /** Why the archive is not unpacked any further. */
  #failure: Error | null = null;
  /** The chunks that the thread has, in their order. */
  #lent: readonly Promise<void>[] = [];
  #chunk: SharedArrayBuffer | null = null;
  #filledBytes = 0;

  constructor(options: Omit<UnpackOptions, 'progress'>) {
    const progress = new Float64Array(new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT));
    this.#options = { ...options, progress };
  }

  async begin(): Promise<void> {
    await this.release();
    const thread = leastBusyThread();
    const id = (lastId += 1);
    const result = thread.run('receiveArchive', { id, ...this.#options });
    result.catch((error: Error) => (this.#failure = error));
    this.#unpacking = { id, thread, result };
  }

  /** @throws MirrorError also why the archive cannot be unpacked: nothing more is to be sent then */
  async write(piece: Uint8Array): Promise<void> {
    for (let at = 0; at < piece.length;) {
      if (this.#chunk === null && this.#lent.length === MOST_CHUNKS) await this.#lent[0];
      if (this.#failure !== null) throw this.#failure;
      const chunk = (this.#chunk ??= free.pop()?.deref() ?? new SharedArrayBuffer(CHUNK_BYTES));
      const part = piece.subarray(at, at + CHUNK_BYTES - this.#filledBytes);
      new Uint8Array(chunk, this.#filledBytes, part.length).set(part);
      this.#filledBytes += part.length;
      this.sizeBytes += part.length;
      at += part.length;
      if (this.#filledBytes === CHUNK_BYTES) this.#lend(chunk);
    }
  }

  async close(isKept: boolean): Promise<void> {
    if (isKept && this.#chunk !== null) this.#lend(this.#chunk);
    await Promise.all(this.#lent);
    if (isKept && this.#failure !== null) throw this.#failure;
  }

  /**
   * Waits until all is unpacked and judged. To be called once it was closed.
   * @param onProgress called while a kept archive is unpacked: otherwise one that takes long would look like a program that hangs
   * @throws MirrorError as `receiveArchive`; the reason of the signal
   */
  async finish(onProgress: () => void, signal: AbortSignal): Promise<UnpackedArchive> {
    const unpacking = this.#begun;
    let seenBytes = 0;
    const look = setInterval(() => {
      const [doneBytes = 0] = this.#options.progress;
      if (doneBytes > seenBytes) onProgress();
      seenBytes = doneBytes;
    }, LOOK_MS);
    const abandon = (): void => end(unpacking, false);
    signal.addEventListener('abort', abandon);
    try {
      end(unpacking, !signal.aborted);
      return await unpacking.result;
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    } finally {
      clearInterval(look);
      signal.removeEventListener('abort', abandon);
    }
  }

  /** To be called in any case: lets go of all but the unpacked files. */
  async release(): Promise<void> {
    if (this.#unpacking !== null) end(this.#unpacking, false);
    await Promise.allSettled([this.#unpacking?.result, ...this.#lent]);
    if (this.#chunk !== null) giveBack(this.#chunk);
    this.#unpacking = null;
    this.#failure = null;
    this.#chunk = null;
    this.#filledBytes = 0;
    this.sizeBytes = 0;
  }

  #lend(chunk: SharedArrayBuffer): void {
    this.#lent = [...this.#lent, this.#feed(chunk, this.#filledBytes)];
    this.#chunk = null;
    this.#filledBytes = 0;
  }

  async #feed(memory: SharedArrayBuffer, lengthBytes: number): Promise<void> {
    const { id, thread } = this.#begun;
    // It fails only where the thread has ended, and the unpacking with it.
    await thread.run('feedArchive', { id, part: { memory, lengthBytes } }).catch(() => {});
    this.#lent = this.#lent.slice(1);
    giveBack(memory);
  }

  get #begun(): Unpacking {
    if (this.#unpacking === null) throw new TypeError('the archive was not begun');
    return this.#unpacking;
  }
}

/** @param isWhole whether all has come; otherwise the rest is of no use */
function end({ id, thread }: Unpacking, isWhole: boolean): void {
  // It fails only where the thread has ended, and the unpacking with it.
  thread.run('feedArchive', { id, part: isWhole ? 'end' : 'abandon' }).catch(() => {});
}

function giveBack(memory: SharedArrayBuffer): void {
  if (free.length < MOST_FREE) free.push(new WeakRef(memory));
}
