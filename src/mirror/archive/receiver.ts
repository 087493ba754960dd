import { once } from 'node:events';
import { MessageChannel, type MessagePort } from 'node:worker_threads';

import { unlessAborted } from '../../lib/concurrency/concurrency.ts';
import { doInThread } from '../file-work/pool.ts';
import type { Destination } from '../upstream/download.ts';
import type { ArchivePart } from './source.ts';
import type { UnpackedArchive, UnpackOptions } from './unpack.ts';

/** How many bytes are sent to a thread together. */
const CHUNK_BYTES = 512 * 1024;

/** The most chunks of one archive that are in its thread. */
const MOST_CHUNKS = 3;

/** Reusable memory: the system would have to clear fresh memory first. Garbage collection may take it. */
const free: WeakRef<ArrayBuffer>[] = [];
const MOST_FREE = 8;

/** An archive on its way through a thread. */
interface Unpacking {
  /** Takes the parts, and brings the memory of chunks back. Closing it abandons the archive. */
  readonly port: MessagePort;
  readonly result: Promise<UnpackedArchive>;
  /** Fires if the unpacking fails, with the error. */
  readonly failed: AbortSignal;
}

/** Sends an archive during its download to a thread, which unpacks it on the way. */
export class ArchiveReceiver implements Destination {
  sizeBytes = 0;
  readonly #options: Omit<UnpackOptions, 'parts'>;
  readonly #onProgress: () => void;
  #unpacking: Unpacking | null = null;
  /** How many chunks are in the thread. */
  #lent = 0;
  #chunk: ArrayBuffer | null = null;
  #filledBytes = 0;

  /** @param onProgress called while a kept archive is unpacked: otherwise a long one would look like a program that hangs */
  constructor(options: Omit<UnpackOptions, 'parts'>, onProgress: () => void) {
    this.#options = options;
    this.#onProgress = onProgress;
  }

  async begin(): Promise<void> {
    await this.release();
    const { port1: port, port2: parts } = new MessageChannel();
    port.on('message', (memory: ArrayBuffer | null) => {
      if (memory === null) return this.#onProgress();
      this.#lent -= 1;
      giveBack(memory);
    });
    const failure = new AbortController();
    const result = doInThread('receiveArchive', { ...this.#options, parts }, undefined, [parts]);
    result.catch((error: unknown) => failure.abort(error));
    this.#unpacking = { port, result, failed: failure.signal };
  }

  /** @throws MirrorError also why the archive cannot be unpacked: then send no more */
  async write(piece: Uint8Array): Promise<void> {
    const { port, failed } = this.#begun;
    for (let at = 0; at < piece.length;) {
      if (this.#chunk === null && this.#lent === MOST_CHUNKS)
        await once(port, 'message', { signal: failed }).catch(() => {});
      failed.throwIfAborted();
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
  }

  /**
   * Waits until everything is unpacked and judged. Call it after closing.
   * @throws MirrorError as `receiveArchive`; the reason of the signal
   */
  finish(signal: AbortSignal): Promise<UnpackedArchive> {
    const { port, result } = this.#begun;
    port.postMessage('end' satisfies ArchivePart);
    return unlessAborted(result, signal);
  }

  /** Call this in any case: it frees everything except the unpacked files. */
  async release(): Promise<void> {
    this.#unpacking?.port.close();
    await this.#unpacking?.result.catch(() => {});
    if (this.#chunk !== null) giveBack(this.#chunk);
    this.#unpacking = null;
    this.#lent = 0;
    this.#chunk = null;
    this.#filledBytes = 0;
    this.sizeBytes = 0;
  }

  #lend(memory: ArrayBuffer): void {
    const part: ArchivePart = { memory, lengthBytes: this.#filledBytes };
    this.#begun.port.postMessage(part, [memory]);
    this.#lent += 1;
    this.#chunk = null;
    this.#filledBytes = 0;
  }

  get #begun(): Unpacking {
    if (this.#unpacking === null) throw new TypeError('the archive was not begun');
    return this.#unpacking;
  }
}

function giveBack(memory: ArrayBuffer): void {
  if (free.length < MOST_FREE) free.push(new WeakRef(memory));
}
