import { Readable } from 'node:stream';
import { crc32, createInflateRaw, inflateRaw } from 'node:zlib';

import { METHOD_STORED } from './entry-policy.ts';
import type { PlacedEntry } from './layout.ts';
import { readExactly } from './reader.ts';
import { damagedEntry } from './refusals.ts';

const CHUNK_BYTES = 256 * 1024;

/**
 * Reads an entry through memory.
 * @throws MirrorError `archive.damaged` unless it has the size and CRC-32 that the directory claims; Error of zlib or disk
 */
export async function readWhole(fd: number, { entry, dataOffset }: PlacedEntry): Promise<Uint8Array> {
  const stored = await readExactly(fd, entry.compressedBytes, dataOffset);
  const bytes = isPlain(entry) ? stored : await inflateExactly(stored, entry);
  check(entry, bytes.byteLength, crc32(bytes));
  return bytes;
}

/**
 * Reads an entry in pieces, never more of them than the directory claims.
 * @throws MirrorError `archive.damaged` unless it has the size and CRC-32 that the directory claims; Error of zlib or disk
 */
export async function* stream(fd: number, placed: PlacedEntry): AsyncGenerator<Uint8Array> {
  const { entry } = placed;
  let sizeBytes = 0;
  let checksum = 0;
  for await (const chunk of isPlain(entry) ? stored(fd, placed) : inflated(fd, placed)) {
    sizeBytes += chunk.byteLength;
    if (sizeBytes > entry.sizeBytes) break;
    checksum = crc32(chunk, checksum);
    yield chunk;
  }
  check(entry, sizeBytes, checksum);
}

/** Some programs call an empty file deflated and give no bytes for it. */
function isPlain({ compressionMethod, compressedBytes, sizeBytes }: PlacedEntry['entry']): boolean {
  return compressionMethod === METHOD_STORED || (compressedBytes === 0 && sizeBytes === 0);
}

async function* stored(fd: number, { entry, dataOffset }: PlacedEntry): AsyncGenerator<Buffer> {
  const end = dataOffset + entry.compressedBytes;
  for (let position = dataOffset; position < end; position += CHUNK_BYTES) {
    yield await readExactly(fd, Math.min(CHUNK_BYTES, end - position), position);
  }
}

async function* inflated(fd: number, placed: PlacedEntry): AsyncGenerator<Uint8Array> {
  const source = Readable.from(stored(fd, placed), { objectMode: false });
  const inflater = createInflateRaw({ chunkSize: CHUNK_BYTES });
  source.once('error', (error) => inflater.destroy(error));
  source.pipe(inflater);
  try {
    const chunks: AsyncIterable<unknown> = inflater;
    for await (const chunk of chunks) if (chunk instanceof Uint8Array) yield chunk;
    checkUsed(placed.entry, inflater.bytesWritten);
  } finally {
    source.destroy();
    inflater.destroy();
  }
}

function inflateExactly(deflated: Buffer, entry: PlacedEntry['entry']): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const options = { maxOutputLength: Math.max(1, entry.sizeBytes), info: true };
    inflateRaw(deflated, options, (error, result: unknown) => {
      if (error !== null) reject(error);
      else if (!hasEngine(result)) reject(new TypeError('zlib did not say how much it read'));
      else if (result.engine.bytesWritten !== deflated.length) reject(unused(entry));
      else resolve(result.buffer);
    });
  });
}

/** What zlib gives with the option `info` (Node.js, "Class: Options"), which its types do not show. */
function hasEngine(result: unknown): result is { buffer: Buffer; engine: { bytesWritten: number } } {
  return typeof result === 'object' && result !== null && 'engine' in result && 'buffer' in result;
}

function checkUsed(entry: PlacedEntry['entry'], usedBytes: number): void {
  if (usedBytes !== entry.compressedBytes) throw unused(entry);
}

function unused({ name }: PlacedEntry['entry']): Error {
  return damagedEntry(name, 'ends before its compressed size');
}

function check(entry: PlacedEntry['entry'], sizeBytes: number, checksum: number): void {
  if (sizeBytes !== entry.sizeBytes || checksum !== entry.crc) {
    throw damagedEntry(entry.name, 'does not match its size or CRC-32');
  }
}
