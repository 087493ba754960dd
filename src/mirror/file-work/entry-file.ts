import { createHash, type Hash, hash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { crc32 } from 'node:zlib';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { Inflater } from '../../lib/zip/inflater.ts';
import { type Content, isSameContent } from '../../lib/zip/local-header.ts';
import { BUFFER_BYTES, createBuffer, NewFile } from './new-file.ts';

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
  /** Something else has its name. */
  | { readonly kind: 'taken' }
  /** No file was wanted. */
  | { readonly kind: 'none' };

/** Errors of a name that is taken, by another file or by one in the place of a folder (open(2)). */
const TAKEN: ReadonlySet<string | undefined> = new Set(['EEXIST', 'EISDIR', 'ENOTDIR']);

const WRONG_CONTENT = 'does not match its size or CRC-32';

/** The fault of a content of more bytes than may come of it. */
export const TOO_MUCH = 'has more content than it may have';

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
 * goes to its file buffer by buffer, each while the next is filled. All methods throw errors of the disk.
 */
export class EntryFile {
  sizeBytes = 0;
  crc32 = 0;
  /** Compressed bytes that were used. */
  compressedBytes = 0;
  /** Why nothing more is taken, as the sentence goes on where the entry's name ends; null where nothing is wrong. */
  fault: string | null = null;
  private readonly _options: EntryFileOptions;
  private readonly _inflater: Inflater | null;
  private _buffer = buffers.pop() ?? createBuffer();
  private _filledBytes = 0;
  /** The buffer that is written, or was. */
  private _other: Buffer<ArrayBuffer> | null = null;
  private _writing: Promise<void> | null = null;
  private _file: NewFile | 'taken' | null = null;
  /** Of what was written; null while all is in the buffer. */
  private _digest: Hash | null = null;
  private _hasEnded = false;

  constructor(options: EntryFileOptions) {
    this._options = options;
    this._inflater = options.isDeflated ? (inflaters.pop() ?? new Inflater()) : null;
    this._inflater?.reset();
  }

  /**
   * Takes a piece of the content, as it is in the archive.
   * @param isLast whether no more follow
   * @returns how much of it was used: less where the deflated bytes have come to their end
   */
  async write(piece: Buffer, isLast: boolean): Promise<number> {
    let usedBytes = this._fill(piece, isLast);
    while (this._filledBytes === BUFFER_BYTES && this.fault === null) {
      await this._spill();
      usedBytes += this._fill(piece.subarray(usedBytes), isLast);
    }
    this.compressedBytes += usedBytes;
    return usedBytes;
  }

  /** Ends it, and writes what is left. @param expected null where the content is all there is to judge by */
  async end(expected: Content | null): Promise<EntryOutcome> {
    this._hasEnded = true;
    try {
      const rest = this._buffer.subarray(0, this._filledBytes);
      this._count(rest);
      if (expected !== null && !isSameContent(expected, this)) this.fault ??= WRONG_CONTENT;
      if (this.fault !== null) return { kind: 'damaged', fault: this.fault };
      return await this._finish(rest);
    } finally {
      await this._letGo();
    }
  }

  /** Gives it up, unless it has ended. */
  async close(): Promise<void> {
    if (!this._hasEnded) await this._letGo();
  }

  private async _letGo(): Promise<void> {
    await this._writing?.catch(() => {});
    if (this._file instanceof NewFile) this._file.close();
    for (const buffer of [this._buffer, this._other])
      if (buffer !== null && buffers.length < MOST_KEPT) buffers.push(buffer);
    if (this._inflater !== null && inflaters.length < MOST_KEPT) inflaters.push(this._inflater);
  }

  private async _finish(rest: Buffer): Promise<EntryOutcome> {
    const { place, known, timeMs } = this._options;
    if (place === null) return { kind: 'none' };
    if (this._writing !== null) await this._writing;
    const isKnown = known?.sizeBytes === this.sizeBytes;
    const isSame = isKnown && known.crc32 === this.crc32;
    const sha256 = isSame ? '' : (this._digest?.update(rest).digest('hex') ?? hash('sha256', rest, 'hex'));
    if (isSame || (isKnown && known.sha256 === sha256)) {
      if (this._file instanceof NewFile) rmSync(place);
      return { kind: 'same', by: isSame ? 'crc32' : 'sha256' };
    }
    const file = this._open(place);
    if (file === 'taken') return { kind: 'taken' };
    if (this._digest === null) file.writeNow(rest);
    else await file.write(rest);
    return { kind: 'written', sha256, mode: file.finish(timeMs), timeMs };
  }

  /** Fills the buffer. @returns how much of the piece was used */
  private _fill(piece: Buffer, isLast: boolean): number {
    try {
      const made = this._inflater?.inflate(piece, this._buffer, this._filledBytes, isLast);
      const usedBytes = made?.usedBytes ?? piece.copy(this._buffer, this._filledBytes);
      this._filledBytes += made?.madeBytes ?? usedBytes;
      if (this.sizeBytes + this._filledBytes > this._options.mostBytes) this.fault = TOO_MUCH;
      return usedBytes;
    } catch (error) {
      if (!(error instanceof Error) || 'syscall' in error || !('code' in error)) throw error;
      this.fault = `is damaged: ${error.message}`;
      return piece.length;
    }
  }

  /** Begins to write the buffer, once the one before is written. */
  private async _spill(): Promise<void> {
    const full = this._buffer.subarray(0, this._filledBytes);
    this._count(full);
    this._digest ??= createHash('sha256');
    this._digest.update(full);
    await this._writing;
    [this._buffer, this._other] = [this._other ?? buffers.pop() ?? createBuffer(), this._buffer];
    this._filledBytes = 0;
    const { place } = this._options;
    const file = place === null ? null : this._open(place);
    if (!(file instanceof NewFile)) return;
    this._writing = file.write(full);
    // A failure is met where it is waited for.
    this._writing.catch(() => {});
  }

  private _count(bytes: Buffer): void {
    this.sizeBytes += bytes.length;
    this.crc32 = crc32(bytes, this.crc32);
  }

  /** The file, which is made unless it is there. */
  private _open(place: string): NewFile | 'taken' {
    if (this._file !== null) return this._file;
    try {
      return (this._file = new NewFile(place, this._options.isPastCache && this._digest !== null));
    } catch (error) {
      if (!TAKEN.has(systemCode(error))) throw error;
      return (this._file = 'taken');
    }
  }
}
