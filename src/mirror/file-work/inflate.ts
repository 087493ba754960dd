import { readSync } from 'node:fs';
import { Readable } from 'node:stream';
import { crc32, createInflateRaw } from 'node:zlib';

import { DoingError, StoppedError } from './failures.ts';
import { createInflater, type Inflater } from './inflater.ts';
import type { PackedBytes, PackedEntry } from './tasks.ts';
import type { StopFlag } from './failures.ts';

/** Fits into the cache next to a core, where a piece is hashed and written at once. */
const CHUNK_BYTES = 256 * 1024;
/** Deflated entries up to this size, before and after, are inflated at once. */
const INFLATED_AT_ONCE_BYTES = 8 * 1024 * 1024;

/** An entry is not as its directory says. The message goes on where its name ends. */
export class EntryFault extends Error {}

/**
 * Reads an entry through memory; the bytes are good until the next one is read: fresh memory for each would take longer to get
 * than to fill.
 * @throws EntryFault unless it has the size and CRC-32 that the directory claims; DoingError of the disk
 */
export function readWhole(archive: PackedBytes, packed: PackedEntry): Buffer {
  const stored = bytesAt(archive, packed.dataOffset, packed.compressedBytes);
  const bytes = packed.isDeflated ? inflate(stored, packed) : stored;
  check(packed, bytes.byteLength, crc32(bytes));
  return bytes;
}

/**
 * Reads an entry in pieces, never more of them than the directory claims; a piece is good until the next is asked for.
 * @throws EntryFault unless it has the size and CRC-32 that the directory claims; StoppedError; DoingError of the disk
 */
export async function* stream(
  archive: PackedBytes,
  packed: PackedEntry,
  stop: StopFlag,
): AsyncGenerator<Uint8Array> {
  let sizeBytes = 0;
  let checksum = 0;
  for await (const chunk of piecesOf(archive, packed, stop)) {
    sizeBytes += chunk.byteLength;
    if (sizeBytes > packed.sizeBytes) break;
    checksum = crc32(chunk, checksum);
    yield chunk;
  }
  check(packed, sizeBytes, checksum);
}

function piecesOf(
  archive: PackedBytes,
  packed: PackedEntry,
  stop: StopFlag,
): AsyncIterable<Uint8Array> | Iterable<Uint8Array> {
  if (!packed.isDeflated) return stored(archive, packed, stop);
  const isSmall = Math.max(packed.sizeBytes, packed.compressedBytes) <= INFLATED_AT_ONCE_BYTES;
  return isSmall ? inflatedAtOnce(archive, packed) : inflated(archive, packed, stop);
}

function* inflatedAtOnce(archive: PackedBytes, packed: PackedEntry): Generator<Uint8Array> {
  const bytes = inflate(bytesAt(archive, packed.dataOffset, packed.compressedBytes), packed);
  for (let start = 0; start < bytes.length; start += CHUNK_BYTES)
    yield bytes.subarray(start, start + CHUNK_BYTES);
}

function* stored(archive: PackedBytes, packed: PackedEntry, stop: StopFlag): Generator<Buffer> {
  const end = packed.dataOffset + packed.compressedBytes;
  for (let position = packed.dataOffset; position < end; position += CHUNK_BYTES) {
    if (Atomics.load(stop, 0) !== 0) throw new StoppedError('The archive is read no further.');
    yield bytesAt(archive, position, Math.min(CHUNK_BYTES, end - position));
  }
}

/** Copies, as a stream holds pieces back while the next one is read into the same memory. */
function* copiesOf(pieces: Iterable<Buffer>): Generator<Buffer> {
  for (const piece of pieces) yield Buffer.from(piece);
}

async function* inflated(
  archive: PackedBytes,
  packed: PackedEntry,
  stop: StopFlag,
): AsyncGenerator<Uint8Array> {
  const source = Readable.from(copiesOf(stored(archive, packed, stop)), { objectMode: false });
  const inflater = createInflateRaw({ chunkSize: CHUNK_BYTES });
  source.once('error', (error) => inflater.destroy(error));
  source.pipe(inflater);
  try {
    const chunks: AsyncIterable<unknown> = inflater;
    for await (const chunk of chunks) if (chunk instanceof Uint8Array) yield chunk;
    if (inflater.bytesWritten !== packed.compressedBytes) throw unused();
  } catch (error) {
    throw zlibFault(error);
  } finally {
    source.destroy();
    inflater.destroy();
  }
}

let inflater: Inflater | null = null;

function inflate(deflated: Buffer, { sizeBytes }: PackedEntry): Buffer {
  inflater ??= createInflater();
  let inflated: ReturnType<Inflater['inflate']>;
  try {
    inflated = inflater.inflate(deflated, sizeBytes);
  } catch (error) {
    throw zlibFault(error);
  }
  if (inflated.usedBytes !== deflated.length) throw unused();
  return inflated.bytes;
}

/** An error of zlib's means that the entry is not whole; others stay. */
function zlibFault(error: unknown): unknown {
  const isOfZlib = error instanceof Error && !('syscall' in error) && 'code' in error;
  return isOfZlib ? new EntryFault(`is damaged: ${error.message}`) : error;
}

function unused(): EntryFault {
  return new EntryFault('ends before its compressed size');
}

function check(packed: PackedEntry, sizeBytes: number, checksum: number): void {
  if (sizeBytes !== packed.sizeBytes || checksum !== packed.crc32) {
    throw new EntryFault('does not match its size or CRC-32');
  }
}

let scratch = Buffer.allocUnsafe(64 * 1024);

function scratchOf(length: number): Buffer {
  if (scratch.length < length) scratch = Buffer.allocUnsafe(length);
  return scratch.subarray(0, length);
}

/** Bytes of an archive; good until the next ones are asked for. */
function bytesAt(archive: PackedBytes, position: number, length: number): Buffer {
  if (typeof archive === 'number') return readInto(scratchOf(length), archive, position);
  if (position + length > archive.length) throw cutOff();
  return Buffer.from(archive.buffer, archive.byteOffset + position, length);
}

/** An archive never ends where its own directory says that it goes on. */
function cutOff(): EntryFault {
  return new EntryFault('is damaged: unexpected end of the file');
}

function readInto(buffer: Buffer, fd: number, position: number): Buffer {
  for (let done = 0; done < buffer.length;) {
    const bytesRead = readAt(fd, buffer.subarray(done), position + done);
    if (bytesRead === 0) throw cutOff();
    done += bytesRead;
  }
  return buffer;
}

function readAt(fd: number, buffer: Buffer, position: number): number {
  try {
    return readSync(fd, buffer, { position });
  } catch (error) {
    throw new DoingError('reading the downloaded archive', error);
  }
}
