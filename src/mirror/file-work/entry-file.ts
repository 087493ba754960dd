import { createHash, type Hash, hash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { constants, crc32, createInflateRaw, type InflateRaw } from 'node:zlib';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { BUFFER_BYTES, createBuffer, NewFile } from './new-file.ts';

/** The size and the checksum of the content of an entry. */
export interface Content {
  readonly compressedBytes: number;
  readonly sizeBytes: number;
  readonly crc32: number;
}

/** The published file that an entry may be the same as. */
export interface KnownContent {
  readonly sizeBytes: number;
  /** Null where the size and the SHA-256 alone count. */
  readonly crc32: number | null;
  /** In hexadecimal digits. */
  readonly sha256: string;
}

/** The outcome for the content of an entry. */
export type EntryOutcome =
  | {
      readonly kind: 'written';
      /** In hexadecimal digits. */
      readonly sha256: string;
      /** Permission bits. */
      readonly mode: number;
      /** The time of the file, in milliseconds since the epoch. */
      readonly timeMs: number;
    }
  /** It is that of the known file, and was not written. */
  | { readonly kind: 'same'; readonly by: 'crc32' | 'sha256' }
  /** The fault goes on where the entry's name ends. */
  | { readonly kind: 'damaged'; readonly fault: string }
  /** It was not to be written, or something else has its name. */
  | { readonly kind: 'none' };

/** Errors of a name that is taken, by another file or by one in the place of a folder (open(2)). */
const TAKEN: ReadonlySet<string | undefined> = new Set(['EEXIST', 'ENOTDIR']);

const WRONG_CONTENT = 'does not match its size or CRC-32';

/** How the content of an entry is unpacked. */
export interface EntryFileOptions {
  /** The place of the file, an absolute path; null where none is wanted. */
  readonly place: string | null;
  /** Whether all names are known to be free; otherwise no file is made where one is not. */
  readonly isJudged: boolean;
  readonly isDeflated: boolean;
  /** Whether a large file goes past the page cache. */
  readonly isPastCache: boolean;
  readonly known: KnownContent | null;
  /** Most bytes that may come of it. */
  readonly mostBytes: number;
  /** The time of the file, in milliseconds since the epoch. */
  readonly timeMs: number;
}

/** Memory and inflaters that wait for their next use in this thread. */
const buffers: Buffer<ArrayBuffer>[] = [];
const inflaters: Inflater[] = [];
const MOST_KEPT = 4;

/**
 * The content of an entry on its way into a file. One that fits into a buffer is written when it was found to be right. A greater one
 * goes to its file buffer by buffer, each while the next is filled.
 */
export class EntryFile {
  sizeBytes = 0;
  crc32 = 0;
  /** Compressed bytes that were used. */
  usedBytes = 0;
  private readonly _options: EntryFileOptions;
  private _inflater: Inflater | null;
  private _buffer = buffers.pop() ?? createBuffer();
  private _filledBytes = 0;
  /** The buffer that is written, or was. */
  private _other: Buffer<ArrayBuffer> | null = null;
  private _writing: Promise<void> | null = null;
  /** The content, where it came in one piece and needs no buffer. */
  private _whole: Uint8Array | null = null;
  private _file: NewFile | null = null;
  /** Whether something else has its name. */
  private _isTaken = false;
  private _digest: Hash | null = null;
  private _fault: string | null = null;
  private _isOver = false;

  constructor(options: EntryFileOptions) {
    this._options = options;
    this._inflater = options.isDeflated ? (inflaters.pop() ?? new Inflater()) : null;
    this._inflater?.reset();
  }

  /** Whether it has gone wrong: then nothing more is taken. */
  get isDamaged(): boolean {
    return this._fault !== null;
  }

  /** Whether `spill` must be called before it takes more. */
  get isFull(): boolean {
    return this._filledBytes === BUFFER_BYTES && this._fault === null;
  }

  /**
   * Takes a piece of the content, as it is in the archive. The last one must stay as it is until the end.
   * @param isLast whether no more follow
   * @returns how much of it was used: less where it is full, or the deflated bytes have come to their end
   */
  write(piece: Uint8Array, isLast: boolean): number {
    if (this._fault !== null) return piece.length;
    const usedBytes =
      this._inflater === null ? this._copy(piece, isLast) : this._inflate(piece, isLast, this._inflater);
    this.usedBytes += usedBytes;
    if (this.sizeBytes + this._filledBytes > this._options.mostBytes) this._fault = WRONG_CONTENT;
    return usedBytes;
  }

  /** Begins to write the buffer, once the one before is written. @throws Error of the disk */
  async spill(): Promise<void> {
    const full = this._buffer;
    this._count(full);
    this._digest ??= createHash('sha256');
    this._digest.update(full);
    await this._writing;
    this._buffer = this._other ?? buffers.pop() ?? createBuffer();
    this._other = full;
    this._filledBytes = 0;
    this._writing = this._append(full);
    // A failure is met where it is waited for.
    this._writing.catch(() => {});
  }

  /**
   * Ends it, and writes what is left.
   * @param expected null where the content is all there is to go by
   * @returns at once for what fits into a buffer
   * @throws Error of the disk
   */
  end(expected: Content | null): EntryOutcome | Promise<EntryOutcome> {
    const rest = this._whole ?? this._buffer.subarray(0, this._filledBytes);
    this._count(rest);
    if (expected !== null) this._fault ??= this._difference(expected);
    if (this._digest !== null) return this._endLarge(rest, this._digest.update(rest).digest('hex'));
    try {
      return this._endSmall(rest);
    } finally {
      this._letGo();
    }
  }

  /** Gives it up, unless it has ended. */
  async close(): Promise<void> {
    await this._writing?.catch(() => {});
    this._letGo();
  }

  private _letGo(): void {
    // Another entry may have the buffers by now: giving them back twice would let two entries write into one.
    if (this._isOver) return;
    this._isOver = true;
    this._file?.close();
    this._file = null;
    for (const buffer of [this._buffer, this._other])
      if (buffer !== null && buffers.length < MOST_KEPT && !buffers.includes(buffer)) buffers.push(buffer);
    if (this._inflater !== null && inflaters.length < MOST_KEPT) inflaters.push(this._inflater);
    this._inflater = null;
  }

  private _difference(expected: Content): string | null {
    if (this.usedBytes !== expected.compressedBytes) return 'ends before its compressed size';
    const isRight = expected.sizeBytes === this.sizeBytes && expected.crc32 === this.crc32;
    return isRight ? null : WRONG_CONTENT;
  }

  private _endSmall(bytes: Uint8Array): EntryOutcome {
    const known = this._outcomeWithoutFile();
    if (known !== null) return known;
    const sha256 = hash('sha256', bytes, 'hex');
    if (this._isAsKnown(sha256)) return { kind: 'same', by: 'sha256' };
    const file = this._open(false);
    file?.writeNow(bytes);
    return this._finish(file, sha256);
  }

  private async _endLarge(rest: Uint8Array, sha256: string): Promise<EntryOutcome> {
    try {
      await this._writing;
      const same = this._isAsKnown(sha256) ? ({ kind: 'same', by: 'sha256' } as const) : null;
      const outcome = this._outcomeWithoutFile() ?? same;
      if (outcome === null) {
        await this._append(rest);
        return this._finish(this._file, sha256);
      }
      if (this._file !== null) rmSync(this._options.place ?? '', { force: true });
      return outcome;
    } finally {
      this._letGo();
    }
  }

  private _finish(file: NewFile | null, sha256: string): EntryOutcome {
    const { timeMs } = this._options;
    return file === null ? { kind: 'none' } : { kind: 'written', sha256, mode: file.finish(timeMs), timeMs };
  }

  /** The outcome for which no file is needed; null for none. */
  private _outcomeWithoutFile(): EntryOutcome | null {
    const { place, known } = this._options;
    if (this._fault !== null) return { kind: 'damaged', fault: this._fault };
    if (place === null) return { kind: 'none' };
    const isSame = known?.sizeBytes === this.sizeBytes && known.crc32 === this.crc32;
    return isSame ? { kind: 'same', by: 'crc32' } : null;
  }

  private _isAsKnown(sha256: string): boolean {
    const { known } = this._options;
    return known?.sizeBytes === this.sizeBytes && known.sha256 === sha256;
  }

  private _copy(piece: Uint8Array, isLast: boolean): number {
    if (isLast && this.usedBytes === 0 && piece.length < BUFFER_BYTES) {
      this._whole = piece;
      return piece.length;
    }
    const usedBytes = Math.min(piece.length, BUFFER_BYTES - this._filledBytes);
    this._buffer.set(usedBytes === piece.length ? piece : piece.subarray(0, usedBytes), this._filledBytes);
    this._filledBytes += usedBytes;
    return usedBytes;
  }

  private _inflate(piece: Uint8Array, isLast: boolean, inflater: Inflater): number {
    try {
      const made = inflater.inflate(piece, 0, this._buffer, this._filledBytes, isLast);
      this._filledBytes += made.madeBytes;
      return made.usedBytes;
    } catch (error) {
      if (!(error instanceof Error) || 'syscall' in error || !('code' in error)) throw error;
      this._fault = `is damaged: ${error.message}`;
      return piece.length;
    }
  }

  private _count(bytes: Uint8Array): void {
    this.sizeBytes += bytes.length;
    this.crc32 = crc32(bytes, this.crc32);
  }

  private async _append(bytes: Uint8Array): Promise<void> {
    await this._open(this._options.isPastCache)?.write(bytes);
  }

  /** The file, which is made where it is not. @returns null where none is wanted, or its name is not free */
  private _open(isPastCache: boolean): NewFile | null {
    const { place, isJudged } = this._options;
    if (this._file !== null || this._isTaken || place === null) return this._file;
    try {
      return (this._file = new NewFile(place, isPastCache));
    } catch (error) {
      if (isJudged || !TAKEN.has(systemCode(error))) throw error;
      this._isTaken = true;
      return null;
    }
  }
}

/**
 * The parts of Node's inflater by which its synchronous functions work (lib/zlib.js). They are not documented; what is documented
 * either makes an inflater for every call, which takes as long as inflating, or cannot be called synchronously piece by piece.
 */
interface Engine {
  readonly _handle: {
    readonly writeSync: (
      flush: number,
      input: Uint8Array,
      inputAt: number,
      inputBytes: number,
      output: Uint8Array,
      outputAt: number,
      outputBytes: number,
    ) => void;
  };
  /** Bytes that are left of the output, and of the input. */
  readonly _writeState: Uint32Array;
}

type Reusable = InflateRaw & Engine;

/** Inflates raw deflated bytes piece by piece, one thing after the other. */
export class Inflater {
  #engine = createEngine();

  /** Begins with the first bytes of something. */
  reset(): void {
    // One that met damage is of no more use.
    if (this.#engine.destroyed) this.#engine = createEngine();
    this.#engine.reset();
  }

  /**
   * Inflates as far as input and room go. The end has come where room is left and input, too.
   * @param isLast whether no more input follows, which spares zlib a copy of what was made
   * @throws Error of zlib, with a code; also where the last input does not come to the end
   */
  inflate(
    input: Uint8Array,
    inputAt: number,
    output: Uint8Array,
    outputAt: number,
    isLast: boolean,
  ): { readonly usedBytes: number; readonly madeBytes: number } {
    const inputBytes = input.length - inputAt;
    const roomBytes = output.length - outputAt;
    const { _handle: handle, _writeState: left } = this.#engine;
    const flush = isLast ? constants.Z_FINISH : constants.Z_NO_FLUSH;
    handle.writeSync(flush, input, inputAt, inputBytes, output, outputAt, roomBytes);
    if (this.#engine.destroyed) throw this.#engine.errored ?? new TypeError('zlib did not say what is wrong');
    const [leftOutput = 0, leftInput = 0] = left;
    return { usedBytes: inputBytes - leftInput, madeBytes: roomBytes - leftOutput };
  }
}

function createEngine(): Reusable {
  const inflateRaw = createInflateRaw();
  if (!isReusable(inflateRaw)) throw new TypeError('this version of Node cannot inflate piece by piece');
  // It tells of damage twice: at once by its state, and later by an event.
  return inflateRaw.on('error', () => {});
}

function isReusable(inflateRaw: InflateRaw & Partial<Engine>): inflateRaw is Reusable {
  const { _handle: handle, _writeState: state } = inflateRaw;
  return typeof handle?.writeSync === 'function' && state instanceof Uint32Array;
}
