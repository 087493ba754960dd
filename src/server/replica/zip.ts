import { crc32 } from 'node:zlib';

import type { ByteRange, Bytes } from '../http/library.ts';

/**
 * A writer of zip archives with uncompressed entries (APPNOTE 6.3.10): the length of such an archive is known before its
 * first byte, and a part can be made without the bytes before it. All numbers in the records are little-endian.
 */

/** A file for an archive. */
export interface ZipSource {
  /** With slashes, relative. */
  readonly name: string;
  /** Permission bits. */
  readonly mode: number;
  /** Milliseconds since the epoch. */
  readonly mtimeMs: number;
  readonly sizeBytes: number;
  /** If omitted, it is computed, and the content is read twice. */
  readonly crc32?: number;
  /** Reads a part of the content. */
  readonly read: (signal: AbortSignal, range: ByteRange) => Bytes;
}

/** An entry, as the records describe it. */
interface Entry extends ZipSource {
  readonly crc32: number;
  /** Position of its local header, in bytes. */
  readonly offset: number;
}

/** Small parts are joined: each piece is a write to a connection. */
const GATHERED_BYTES = 64 * 1024;

/** The length of an archive in bytes. */
export async function zipBytes(files: readonly ZipSource[]): Promise<number> {
  let sizeBytes = 0;
  for await (const part of partsOf(files, () => Promise.resolve(0))) sizeBytes += lengthOf(part);
  return sizeBytes;
}

/**
 * Gives the bytes of an archive, or of a part of it, with only a piece of a file in memory. The same files give the same bytes.
 * If a file fails, the archive ends there, without its directory.
 */
export async function* zipOf(
  sources: readonly ZipSource[],
  signal: AbortSignal,
  { first, last }: ByteRange = { first: 0, last: Infinity },
): Bytes {
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  let at = 0;
  for await (const part of partsOf(sources, (file) => crcOf(file, signal))) {
    const from = Math.max(0, first - at);
    const to = Math.min(lengthOf(part), last + 1 - at);
    at += lengthOf(part);
    if (from >= to) continue;
    const pieces =
      'read' in part ? part.read(signal, { first: from, last: to - 1 }) : [part.subarray(from, to)];
    for await (const piece of pieces) {
      held.push(piece);
      heldBytes += piece.length;
      if (heldBytes < GATHERED_BYTES) continue;
      yield Buffer.concat(held);
      held = [];
      heldBytes = 0;
    }
    if (at > last) break;
  }
  if (heldBytes > 0) yield Buffer.concat(held);
}

/** A part of an archive: a record, or a file in place of its content. */
type Part = Buffer | ZipSource;

function lengthOf(part: Part): number {
  return 'read' in part ? part.sizeBytes : part.length;
}

/** The parts of an archive in their order. */
async function* partsOf(
  files: readonly ZipSource[],
  crc32Of: (file: ZipSource) => Promise<number>,
): AsyncGenerator<Part> {
  const directory: Buffer[] = [];
  let offset = 0;
  for (const file of files) {
    const entry = { ...file, crc32: await crc32Of(file), offset };
    directory.push(recordOf(entry, CENTRAL));
    const header = recordOf(entry, LOCAL);
    yield header;
    yield file;
    offset += header.length + file.sizeBytes;
  }
  yield* directory;
  const directoryBytes = directory.reduce((sum, { length }) => sum + length, 0);
  yield endRecords(files.length, directoryBytes, offset);
}

async function crcOf({ sizeBytes, crc32: known, read }: ZipSource, signal: AbortSignal): Promise<number> {
  if (known !== undefined) return known;
  let crc = 0;
  for await (const piece of read(signal, { first: 0, last: sizeBytes - 1 })) crc = crc32(piece, crc);
  return crc;
}

/** The greatest number that 32 bits hold; as a value it says that the number is in the zip64 field (section 4.4.1.4). */
const IN_ZIP64 = 0xffffffff;
const COUNT_IN_ZIP64 = 0xffff;

/** Signatures of the records of an entry: before its content (section 4.3.7), and in the central directory (section 4.3.12). */
const LOCAL = 0x04034b50;
const CENTRAL = 0x02014b50;
/** Version needed and version made by: 2.0, with zip64 4.5; Unix (section 4.4.2). */
const VERSION = 20;
const VERSION_ZIP64 = 45;
const MADE_BY_UNIX = (3 << 8) | VERSION_ZIP64;
/** Bit 11: the name is UTF-8 (section 4.4.4). */
const UTF8_FLAG = 0x800;
const STORED = 0;
const S_IFREG = 0o100000;

const EXTRA = { zip64: 0x0001, ntfs: 0x000a, unixTime: 0x5455 };
/** Milliseconds from 1601, where NTFS begins to count, to the epoch. */
const NTFS_EPOCH_MS = 11_644_473_600_000n;
/** Units of 100 nanoseconds: half of a tenth of a millisecond, so that a reader with floating point rounds to the right one. */
const NTFS_MIDDLE = 500n;
const LAST_UNIX_SECOND = 2 ** 31 - 1;

/** Numbers of some bytes each. */
function numbers(width: 2 | 4 | 8, ...values: readonly (number | bigint)[]): Buffer {
  const bytes = Buffer.allocUnsafe(values.length * width + 8);
  // The next number overwrites the surplus bytes of each.
  for (const [index, value] of values.entries()) bytes.writeBigInt64LE(BigInt(value), index * width);
  return bytes.subarray(0, values.length * width);
}

/** Time and date of MS-DOS in UTC: even seconds, 1980 to 2107 (section 4.4.6). */
function dosTime(mtimeMs: number): readonly [time: number, date: number] {
  const at = new Date(Math.min(Math.max(mtimeMs, Date.UTC(1980, 0, 1)), Date.UTC(2107, 11, 31)));
  return [
    (at.getUTCHours() << 11) | (at.getUTCMinutes() << 5) | (at.getUTCSeconds() >> 1),
    ((at.getUTCFullYear() - 1980) << 9) | ((at.getUTCMonth() + 1) << 5) | at.getUTCDate(),
  ];
}

/**
 * Modification time to the second (Info-ZIP's extra field "UT"). A time with a fraction also gets, in front of it, for readers that use
 * the first, a field to the millisecond (section 4.5.5).
 */
function timeExtra(mtimeMs: number): Buffer {
  const fields: Buffer[] = [];
  const second = Math.floor(mtimeMs / 1000);
  if (mtimeMs % 1000 !== 0) {
    const ntfs = (BigInt(mtimeMs) + NTFS_EPOCH_MS) * 10_000n + NTFS_MIDDLE;
    fields.push(numbers(2, EXTRA.ntfs, 32, 0, 0, 1, 24), numbers(8, ntfs, ntfs, ntfs));
  }
  if (Math.abs(second) <= LAST_UNIX_SECOND)
    fields.push(numbers(2, EXTRA.unixTime, 5), Buffer.of(1), numbers(4, second));
  return Buffer.concat(fields);
}

/** A record of an entry; great numbers are in the zip64 field at its end (section 4.5.3). */
function recordOf(
  { name, mode, mtimeMs, sizeBytes, crc32, offset }: Entry,
  signature: typeof LOCAL | typeof CENTRAL,
): Buffer {
  const isCentral = signature === CENTRAL;
  const wide = sizeBytes >= IN_ZIP64 ? [sizeBytes, sizeBytes] : [];
  if (isCentral && offset >= IN_ZIP64) wide.push(offset);
  const zip64 = wide.length === 0 ? [] : [numbers(2, EXTRA.zip64, wide.length * 8), numbers(8, ...wide)];
  const extra = Buffer.concat([timeExtra(mtimeMs), ...zip64]);
  const size = Math.min(sizeBytes, IN_ZIP64);
  const modes = [numbers(2, 0, 0, 0, 0, S_IFREG | (mode & 0o7777)), numbers(4, Math.min(offset, IN_ZIP64))];
  return Buffer.concat([
    numbers(4, signature),
    ...(isCentral ? [numbers(2, MADE_BY_UNIX)] : []),
    numbers(2, wide.length > 0 ? VERSION_ZIP64 : VERSION, UTF8_FLAG, STORED, ...dosTime(mtimeMs)),
    numbers(4, crc32, size, size),
    numbers(2, Buffer.byteLength(name), extra.length),
    ...(isCentral ? modes : []),
    Buffer.from(name),
    extra,
  ]);
}

/** The end of an archive (sections 4.3.14 to 4.3.16). @param offset position of the central directory, in bytes */
function endRecords(entries: number, directoryBytes: number, offset: number): Buffer {
  const isZip64 = entries >= COUNT_IN_ZIP64 || directoryBytes >= IN_ZIP64 || offset >= IN_ZIP64;
  const zip64 = [
    numbers(4, 0x06064b50),
    numbers(8, 44),
    numbers(2, MADE_BY_UNIX, VERSION_ZIP64, 0, 0, 0, 0),
    numbers(8, entries, entries, directoryBytes, offset),
    numbers(4, 0x07064b50, 0),
    numbers(8, offset + directoryBytes),
    numbers(4, 1),
  ];
  const count = Math.min(entries, COUNT_IN_ZIP64);
  return Buffer.concat([
    ...(isZip64 ? zip64 : []),
    numbers(4, 0x06054b50),
    numbers(2, 0, 0, count, count),
    numbers(4, Math.min(directoryBytes, IN_ZIP64), Math.min(offset, IN_ZIP64)),
    numbers(2, 0),
  ]);
}
