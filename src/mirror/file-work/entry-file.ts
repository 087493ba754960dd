import { createHash, type Hash, hash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { crc32 } from 'node:zlib';

import { callError } from '../../lib/errors/disk-errors.ts';
import { Inflater } from './inflater.ts';
import { BUFFER_BYTES, createBuffer, NewFile } from './new-file.ts';

/** The content of an entry, as its header or the directory says it is. */
export interface ExpectedContent {
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

/** What became of the content of an entry. */
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
  /** It was not to be written. */
  | { readonly kind: 'none' };

const WRONG_CONTENT = 'does not match its size or CRC-32';

/** How the content of an entry is unpacked. */
export interface EntryFileOptions {
  /** The place of the file, an absolute path; null where none is wanted. */
  readonly place: string | null;
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
  private _digest: Hash | null = null;
  private _fault: string | null = null;

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

  /** Begins to write the buffer, once the one before is written. @throws MirrorError `disk.*` */
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
   * @throws MirrorError `disk.*`
   */
  end(expected: ExpectedContent | null): EntryOutcome | Promise<EntryOutcome> {
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
    this._file?.close();
    this._file = null;
    for (const buffer of [this._buffer, this._other])
      if (buffer !== null && buffers.length < MOST_KEPT && !buffers.includes(buffer)) buffers.push(buffer);
    if (this._inflater !== null && inflaters.length < MOST_KEPT) inflaters.push(this._inflater);
    this._inflater = null;
  }

  private _difference(expected: ExpectedContent): string | null {
    if (this.usedBytes !== expected.compressedBytes) return 'ends before its compressed size';
    const isRight = expected.sizeBytes === this.sizeBytes && expected.crc32 === this.crc32;
    return isRight ? null : WRONG_CONTENT;
  }

  private _endSmall(bytes: Uint8Array): EntryOutcome {
    const { place, timeMs } = this._options;
    const known = this._outcomeWithoutFile();
    if (known !== null || place === null) return known ?? { kind: 'none' };
    const sha256 = hash('sha256', bytes, 'hex');
    if (this._isAsKnown(sha256)) return { kind: 'same', by: 'sha256' };
    return writing(place, () => {
      const file = (this._file = new NewFile(place, false));
      file.writeNow(bytes);
      return { kind: 'written', sha256, mode: file.finish(timeMs), timeMs };
    });
  }

  private async _endLarge(rest: Uint8Array, sha256: string): Promise<EntryOutcome> {
    const { place, timeMs } = this._options;
    try {
      await this._writing;
      const isAsKnown = this._isAsKnown(sha256) ? ({ kind: 'same', by: 'sha256' } as const) : null;
      const outcome = this._outcomeWithoutFile() ?? isAsKnown;
      if (place === null) return outcome ?? { kind: 'none' };
      if (outcome === null) await this._append(rest);
      return writing(place, () => {
        if (outcome !== null) rmSync(place, { force: true });
        return outcome ?? { kind: 'written', sha256, mode: this._file?.finish(timeMs) ?? 0, timeMs };
      });
    } finally {
      this._letGo();
    }
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
    const { place, isPastCache } = this._options;
    if (place === null) return;
    try {
      this._file ??= new NewFile(place, isPastCache);
      await this._file.write(bytes);
    } catch (error) {
      throw callError(error, `writing ${place}`, place);
    }
  }
}

function writing<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw callError(error, `writing ${path}`, path);
  }
}
