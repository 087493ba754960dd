import { crc32, createInflateRaw } from 'node:zlib';

import { compressedBytesOf, type ZipEntry } from './zip-directory.ts';

const STORED = 0;
const DEFLATED = 8;

/** Of a part that is kept, so much is kept whole; of a greater one, its ends. */
const KEPT_BYTES = 1024 * 1024;
const KEPT_END_BYTES = 4096;

/** What was unpacked of a part. */
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
export async function unpackPart(file: Buffer, entry: ZipEntry, signal: AbortSignal): Promise<Part | null> {
  const packed = compressedBytesOf(file, entry);
  if (packed === null || entry.isEncrypted) return null;
  if (entry.method !== STORED && entry.method !== DEFLATED) return null;
  const keeper = createKeeper();
  let sizeBytes = 0;
  let checksum = 0;
  try {
    const pieces = entry.method === STORED ? [packed] : inflated(packed);
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

/** Keeps of a stream what {@link Part} has. */
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
