import { promisify } from 'node:util';
import { crc32, createDeflateRaw, deflateRaw } from 'node:zlib';

import type { Bytes } from '../http/library.ts';
import {
  dataDescriptor,
  DEFLATED,
  directoryRecord,
  endRecords,
  localHeader,
  needsZip64,
  STORED,
  type ZipEntryFacts,
} from './zip-records.ts';

/** A file that goes into an archive. */
export interface ZipSource {
  /** With slashes, relative. */
  readonly name: string;
  /** Permission bits. */
  readonly mode: number;
  /** Milliseconds since the epoch. */
  readonly mtimeMs: number;
  readonly sizeBytes: number;
  /** Whether the content is compressed already, so that more effort would not make it smaller. */
  readonly isCompressed: boolean;
  /** The content, for a file of at most {@link WHOLE_BYTES}. */
  readonly readWhole: () => Promise<Uint8Array>;
  /** The content in pieces, for a greater one. */
  readonly read: () => Bytes;
}

/** Files up to this size pass through memory whole. */
export const WHOLE_BYTES = 4 * 1024 * 1024;

const deflate = promisify(deflateRaw);
const LEVEL = 6;
/** Great files: speed counts. */
const STREAM_LEVEL = 1;

/** Small records are given together: each piece that is given is a write to a connection. */
const GATHERED_BYTES = 64 * 1024;

/**
 * Gives the bytes of a zip archive while they are made, with no more than a file or a piece of one in memory. The same files give
 * the same bytes. Nothing is left open, nor the end of the archive given, when a file fails.
 *
 * Written out here, as the writer at hand looks through all entries for each one: 100,000 of them, which a mirror may well have,
 * would take minutes.
 */
export async function* zipOf(sources: Iterable<ZipSource>): Bytes {
  const written: ZipEntryFacts[] = [];
  let offset = 0;
  for await (const piece of gathered(pieces(sources, written))) {
    offset += piece.length;
    yield piece;
  }
  let sizeBytes = 0;
  for await (const piece of gathered(recordsOf(written))) {
    sizeBytes += piece.length;
    yield piece;
  }
  yield endRecords({ entries: written.length, sizeBytes, offset });
}

/** One at a time: a million of them together would fill the memory. */
function* recordsOf(written: readonly ZipEntryFacts[]): Generator<Uint8Array> {
  for (const entry of written) yield directoryRecord(entry);
}

async function* pieces(sources: Iterable<ZipSource>, written: ZipEntryFacts[]): AsyncGenerator<Uint8Array> {
  let offset = 0;
  for (const source of sources) {
    for await (const piece of source.sizeBytes <= WHOLE_BYTES
      ? wholeEntry(source, offset, written)
      : streamedEntry(source, offset, written)) {
      offset += piece.length;
      yield piece;
    }
  }
}

async function* wholeEntry(
  source: ZipSource,
  offset: number,
  written: ZipEntryFacts[],
): AsyncGenerator<Uint8Array> {
  const content = await source.readWhole();
  const packed = source.isCompressed ? content : await deflate(content, { level: LEVEL });
  const isSmaller = packed.length < content.length;
  const data = isSmaller ? packed : content;
  const entry: ZipEntryFacts = {
    ...factsOf(source),
    method: isSmaller ? DEFLATED : STORED,
    hasDescriptor: false,
    crc32: crc32(content),
    compressedBytes: data.length,
    sizeBytes: content.length,
    offset,
    isZip64: false,
  };
  written.push(entry);
  yield localHeader(entry);
  yield data;
}

/** Deflated in any case, if with no effort at all: a reader that goes from front to back finds the end of such content only. */
async function* streamedEntry(
  source: ZipSource,
  offset: number,
  written: ZipEntryFacts[],
): AsyncGenerator<Uint8Array> {
  const begun: ZipEntryFacts = {
    ...factsOf(source),
    method: DEFLATED,
    hasDescriptor: true,
    crc32: 0,
    compressedBytes: 0,
    sizeBytes: 0,
    offset,
    isZip64: needsZip64(source.sizeBytes),
  };
  yield localHeader(begun);
  let crc = 0;
  let sizeBytes = 0;
  let compressedBytes = 0;
  const counted = async function* counted(): Bytes {
    for await (const piece of source.read()) {
      crc = crc32(piece, crc);
      sizeBytes += piece.length;
      yield piece;
    }
  };
  for await (const piece of deflated(counted(), source.isCompressed ? 0 : STREAM_LEVEL)) {
    compressedBytes += piece.length;
    yield piece;
  }
  const entry = { ...begun, crc32: crc, sizeBytes, compressedBytes };
  written.push(entry);
  yield dataDescriptor(entry);
}

function factsOf({ name, mode, mtimeMs }: ZipSource): Pick<ZipEntryFacts, 'name' | 'mode' | 'mtimeMs'> {
  return { name, mode, mtimeMs };
}

/** Deflates pieces as they come. */
async function* deflated(content: Bytes, level: number): Bytes {
  const deflater = createDeflateRaw({ level });
  const fed = feed(content, deflater);
  // It is awaited below; until then its failure must not count as an unhandled rejection.
  void fed.catch(() => {});
  try {
    yield* deflater as AsyncIterable<Buffer>;
    await fed;
  } finally {
    deflater.destroy();
    await fed.catch(() => {});
  }
}

/** Writes pieces no faster than they are taken; the first failure is that of the deflater, too. */
async function feed(content: Bytes, deflater: ReturnType<typeof createDeflateRaw>): Promise<void> {
  try {
    for await (const piece of content) {
      if (deflater.destroyed) return;
      await new Promise<void>((resolve, reject) => {
        deflater.once('close', resolve);
        deflater.write(piece, (error) => {
          deflater.off('close', resolve);
          if (error) reject(error);
          else resolve();
        });
      });
    }
    deflater.end();
  } catch (error) {
    deflater.destroy(error instanceof Error ? error : new Error(String(error)));
    throw error;
  }
}

/** Puts small pieces together. */
async function* gathered(pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Bytes {
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  for await (const piece of pieces) {
    if (piece.length === 0) continue;
    held.push(piece);
    heldBytes += piece.length;
    if (heldBytes < GATHERED_BYTES) continue;
    yield held.length === 1 ? piece : Buffer.concat(held);
    held = [];
    heldBytes = 0;
  }
  if (heldBytes > 0) yield Buffer.concat(held);
}
