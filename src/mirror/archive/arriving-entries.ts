import { ENCRYPTION_FLAGS, METHODS } from '../../lib/zip/directory.ts';
import { IN_EXTRA, LOCAL_HEADER_BYTES, readLocalHeader } from '../../lib/zip/local-header.ts';
import { bytesInMemory } from '../../lib/zip/zip-bytes.ts';
import type { PackedEntry } from '../file-work/tasks.ts';
import { DESCRIPTOR_FLAG } from './layout.ts';

/** A part of an archive, in the order of its bytes. */
export type ArchivePart =
  /** Everything but what follows. */
  | { readonly kind: 'kept'; readonly bytes: Uint8Array }
  /** An entry whose content comes next. It is answered with whether the content is to be told apart. */
  | { readonly kind: 'entry'; readonly entry: PackedEntry }
  /** A piece of the content of the entry that was told last, which was to be told apart. */
  | { readonly kind: 'content'; readonly bytes: Uint8Array; readonly isLast: boolean };

/** Gives the parts of a piece; every `entry` is to be answered. */
export type ArchiveParts = Generator<ArchivePart, void, boolean>;

/** The greatest local header: its name and its extra fields have up to 65,535 bytes each (APPNOTE 6.3.10, section 4.3.7). */
const MOST_HEADER_BYTES = LOCAL_HEADER_BYTES + 2 * 0xffff;

/** Where the lengths of name and extra fields stand in a local header. */
const LENGTHS_AT = 26;

/**
 * Tells the contents of entries apart while an archive arrives, by the local headers in front of them. Nothing is judged by these:
 * the directory, which comes last, has the say. From the first entry on whose header does not say how long it is, all is kept.
 */
export class ArrivingEntries {
  private atBytes = 0;
  private state: 'header' | 'content' | 'kept-content' | 'rest' = 'header';
  /** Bytes that are left of the content. */
  private leftBytes = 0;
  /** The header, as far as it has come. */
  private header = Buffer.allocUnsafe(1024);
  private headerBytes = 0;

  /** Takes the next piece. */
  *split(piece: Uint8Array): ArchiveParts {
    for (let at = 0; at < piece.length;) {
      const before = at;
      if (this.state === 'header') at = yield* this.takeHeader(piece, at);
      else if (this.state === 'rest') {
        yield { kind: 'kept', bytes: piece.subarray(at) };
        at = piece.length;
      } else at = yield* this.takeContent(piece, at);
      this.atBytes += at - before;
    }
  }

  private *takeHeader(piece: Uint8Array, at: number): Generator<ArchivePart, number, boolean> {
    const wanted = this.headerLength();
    const end = Math.min(piece.length, at + wanted - this.headerBytes);
    const bytes = piece.subarray(at, end);
    this.collect(bytes);
    yield { kind: 'kept', bytes };
    if (this.headerBytes === wanted && wanted === this.headerLength())
      yield* this.endHeader(this.atBytes + bytes.length);
    return end;
  }

  /** The length of the header, as far as it is known. */
  private headerLength(): number {
    if (this.headerBytes < LOCAL_HEADER_BYTES) return LOCAL_HEADER_BYTES;
    const lengths = this.header.readUInt16LE(LENGTHS_AT) + this.header.readUInt16LE(LENGTHS_AT + 2);
    return LOCAL_HEADER_BYTES + lengths;
  }

  private collect(bytes: Uint8Array): void {
    const endBytes = this.headerBytes + bytes.length;
    if (endBytes > this.header.length) {
      const greater = Buffer.allocUnsafe(MOST_HEADER_BYTES);
      this.header.copy(greater, 0, 0, this.headerBytes);
      this.header = greater;
    }
    this.header.set(bytes, this.headerBytes);
    this.headerBytes = endBytes;
  }

  private *endHeader(dataOffset: number): Generator<ArchivePart, void, boolean> {
    const entry = entryBehind(this.header.subarray(0, this.headerBytes), dataOffset);
    this.headerBytes = 0;
    if (entry === null) {
      this.state = 'rest';
      return;
    }
    this.leftBytes = entry.compressedBytes;
    if (this.leftBytes === 0) return;
    const isApart = yield { kind: 'entry', entry };
    this.state = isApart ? 'content' : 'kept-content';
  }

  private *takeContent(piece: Uint8Array, at: number): Generator<ArchivePart, number, boolean> {
    const end = Math.min(piece.length, at + this.leftBytes);
    const bytes = piece.subarray(at, end);
    this.leftBytes -= bytes.length;
    const isLast = this.leftBytes === 0;
    yield this.state === 'content' ? { kind: 'content', bytes, isLast } : { kind: 'kept', bytes };
    if (isLast) this.state = 'header';
    return end;
  }
}

/** The entry whose local header that is; null where it is none, or where the length of its content is not in it. */
function entryBehind(header: Buffer, dataOffset: number): PackedEntry | null {
  const local = readLocalHeader(bytesInMemory(header), 0);
  if (local === null || local instanceof Promise) return null;
  const { flags, compressionMethod, compressedBytes, sizeBytes, crc32 } = local;
  const isInExtra = compressedBytes === IN_EXTRA || sizeBytes === IN_EXTRA;
  const isDeflated = compressionMethod === METHODS.deflated;
  const isReadable = (flags & ENCRYPTION_FLAGS) === 0 && (isDeflated || compressionMethod === METHODS.stored);
  if (!isReadable || (flags & DESCRIPTOR_FLAG) !== 0 || isInExtra) return null;
  return { dataOffset, compressedBytes, sizeBytes, crc32, isDeflated };
}
