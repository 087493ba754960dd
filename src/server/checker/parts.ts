import { setImmediate } from 'node:timers/promises';
import { crc32, createInflateRaw } from 'node:zlib';

import { ENCRYPTION_FLAGS, entriesOf, METHODS, type ZipEntry } from '../../lib/zip/directory.ts';
import { readEnd } from '../../lib/zip/end-record.ts';
import { LOCAL_HEADER_BYTES, readLocalHeader } from '../../lib/zip/local-header.ts';
import { viewOf, type ZipBytes } from '../../lib/zip/zip-bytes.ts';

/**
 * Lists the parts of a package by its directory.
 * @param bytes the whole file, or its end: with the directory, and 66 kB at least
 * @returns null where the directory is not sound: cut off, contradictory, or of more than one disk
 * @throws the reason of `signal`
 */
export async function listParts(bytes: ZipBytes, signal: AbortSignal): Promise<ZipEntry[] | null> {
  const entries: ZipEntry[] = [];
  try {
    const end = await readEnd(bytes);
    if (end.isMultiDisk) return null;
    for await (const listed of entriesOf(bytes, end)) {
      signal.throwIfAborted();
      entries.push(...listed);
      // Others have their turn: a million parts of a file that is in memory take seconds.
      await setImmediate();
    }
    return doNotOverlap(entries, end.offset) ? entries : null;
  } catch {
    signal.throwIfAborted();
    return null;
  }
}

/** Whether every entry lies before the directory, and none within another: a bomb lets many share the same bytes. */
function doNotOverlap(entries: readonly ZipEntry[], directoryOffset: number): boolean {
  let free = 0;
  for (const entry of [...entries].sort((left, right) => left.headerOffset - right.headerOffset)) {
    if (entry.headerOffset < free) return false;
    free = entry.headerOffset + LOCAL_HEADER_BYTES + entry.compressedBytes;
  }
  return free <= directoryOffset;
}

/** Of a part that is kept, so much is kept whole; of a greater one, its ends. */
const KEPT_BYTES = 1024 * 1024;
const KEPT_END_BYTES = 4096;

/** A part that was unpacked. */
export interface Part {
  readonly name: string;
  /** All of it, or its two ends, one after the other. */
  readonly content: Buffer;
}

/**
 * Unpacks a part and holds it against its size and checksum, without having it in memory.
 * @returns what is kept of it, or null for one that is damaged
 * @throws the reason of `signal`
 */
export async function unpackPart(
  bytes: ZipBytes,
  entry: ZipEntry,
  signal: AbortSignal,
): Promise<Part | null> {
  const isStored = entry.compressionMethod === METHODS.stored;
  if (!isStored && entry.compressionMethod !== METHODS.deflated) return null;
  if ((entry.flags & ENCRYPTION_FLAGS) !== 0) return null;
  const keeper = createKeeper();
  let sizeBytes = 0;
  let checksum = 0;
  try {
    const local = await readLocalHeader(bytes, entry.headerOffset);
    if (local === null) return null;
    const packed = await viewOf(bytes, local.dataOffset, entry.compressedBytes);
    const pieces = isStored ? [packed] : inflated(packed);
    for await (const piece of pieces) {
      signal.throwIfAborted();
      sizeBytes += piece.length;
      if (sizeBytes > entry.sizeBytes) return null;
      checksum = crc32(piece, checksum);
      keeper.take(piece);
    }
  } catch {
    signal.throwIfAborted();
    return null;
  }
  const isWhole = sizeBytes === entry.sizeBytes && checksum === entry.crc32;
  return isWhole ? { name: entry.name, content: keeper.kept() } : null;
}

function inflated(packed: Buffer): AsyncIterable<Buffer> {
  const inflate = createInflateRaw();
  inflate.end(packed);
  return inflate;
}

/** Keeps the ends of a stream, as {@link Part} has them. */
function createKeeper(): { readonly take: (piece: Buffer) => void; readonly kept: () => Buffer } {
  const whole: Buffer[] = [];
  let wholeBytes = 0;
  let end = Buffer.alloc(0);
  return {
    take: (piece) => {
      if (wholeBytes < KEPT_BYTES) {
        whole.push(piece);
        wholeBytes += piece.length;
      } else {
        end = Buffer.concat([end, piece.subarray(-KEPT_END_BYTES)]).subarray(-KEPT_END_BYTES);
      }
    },
    kept: () => Buffer.concat([...whole, end]),
  };
}
