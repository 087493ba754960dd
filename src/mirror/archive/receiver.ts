import { leastBusyThread, type PoolThread } from '../file-work/pool.ts';
import type { Destination } from '../upstream/download.ts';
import type { UnpackedArchive, UnpackOptions } from './unpack.ts';

/** How many bytes are sent to a thread together. */
const CHUNK_BYTES = 512 * 1024;

/** The most chunks of one archive that are in its thread. */
const MOST_CHUNKS = 3;

/** How often to check the progress of unpacking a kept archive, in milliseconds. */
const LOOK_MS = 500;

/** Reusable memory: the system would have to clear fresh memory first. Garbage collection may take it. */
const free: WeakRef<ArrayBuffer>[] = [];
const MOST_FREE = 8;

let lastId = 0;

/** An archive on its way through a thread. */
interface Unpacking {
  readonly id: number;
  readonly thread: PoolThread;
  readonly result: Promise<UnpackedArchive>;
}

/** Sends an archive during its download to a thread, which unpacks it on the way. */
export class ArchiveReceiver implements Destination {
  sizeBytes = 0;
  readonly #options: UnpackOptions;
  #unpacking: Unpacking | null = null;
  /** Why the unpacking failed. */
  #failure: Error | null = null;
  /** The chunks in the thread, in order. */
  #lent: readonly Promise<void>[] = [];
  #chunk: ArrayBuffer | null = null;
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

  /** @throws MirrorError also why the archive cannot be unpacked: then send no more */
  async write(piece: Uint8Array): Promise<void> {
    for (let at = 0; at < piece.length;) {
      if (this.#chunk === null && this.#lent.length === MOST_CHUNKS) await this.#lent[0];
      if (this.#failure !== null) throw this.#failure;
      const chunk = (this.#chunk ??= free.pop()?.deref() ?? new ArrayBuffer(CHUNK_BYTES));
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
   * Waits until everything is unpacked and judged. Call it after closing.
   * @param onProgress called while a kept archive is unpacked: otherwise a long one would look like a program that hangs
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

  /** Call this in any case: it frees everything except the unpacked files. */
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

  #lend(chunk: ArrayBuffer): void {
    this.#lent = [...this.#lent, this.#feed(chunk, this.#filledBytes)];
    this.#chunk = null;
    this.#filledBytes = 0;
  }

  async #feed(memory: ArrayBuffer, lengthBytes: number): Promise<void> {
    const { id, thread } = this.#begun;
    const part = { memory, lengthBytes };
    // It fails only if the thread has ended, and the unpacking with it.
    const back = await thread.run('feedArchive', { id, part }, undefined, [memory]).catch(() => null);
    this.#lent = this.#lent.slice(1);
    if (back !== null) giveBack(back);
  }

  get #begun(): Unpacking {
    if (this.#unpacking === null) throw new TypeError('the archive was not begun');
    return this.#unpacking;
  }
}

/** @param isWhole whether everything arrived; otherwise the rest is useless */
function end({ id, thread }: Unpacking, isWhole: boolean): void {
  // It fails only if the thread has ended, and the unpacking with it.
  thread.run('feedArchive', { id, part: isWhole ? 'end' : 'abandon' }).catch(() => {});
}

function giveBack(memory: ArrayBuffer): void {
  if (free.length < MOST_FREE) free.push(new WeakRef(memory));
}
