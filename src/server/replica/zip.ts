import { crc32 } from 'node:zlib';

import type { ByteRange, Bytes } from '../http/library.ts';

/**
 * A writer of zip archives with uncompressed entries (APPNOTE 6.3.10): the length of such an archive is known before its
 * first byte, and a part can be made without the bytes before it. All numbers in the records are little-endian.
 */

/** A file of an archive. */
interface ZipFile {
  /** With slashes, relative. */
  readonly name: string;
  /** Permission bits. */
  readonly mode: number;
  /** Milliseconds since the epoch. */
  readonly mtimeMs: number;
  readonly sizeBytes: number;
}

/** A file for an archive. */
export interface ZipSource extends ZipFile {
  /** If omitted, it is computed, and the content is read twice. */
  readonly crc32?: number;
  /** Reads the content, or a part of it. */
  readonly read: (range?: ByteRange) => Bytes;
}

/** An entry, as the records describe it. */
interface Entry extends ZipFile {
  readonly crc32: number;
  /** Position of its local header, in bytes. */
  readonly offset: number;
}

/** A part of an archive that can be made separately. */
interface Segment {
  readonly lengthBytes: number;
  /** @param range within the segment; all of it if omitted */
  readonly open: (range?: ByteRange) => Bytes;
}

/** Small segments are joined: each piece is a write to a connection. */
const GATHERED_BYTES = 64 * 1024;

/** The length of an archive in bytes. */
export function zipBytes(files: readonly ZipFile[]): number {
  let offset = 0;
  let directoryBytes = 0;
  for (const file of files) {
    const entry = { ...file, crc32: 0, offset };
    directoryBytes += directoryRecord(entry).length;
    offset += localHeader(entry).length + file.sizeBytes;
  }
  return offset + directoryBytes + endRecords(files.length, directoryBytes, offset).length;
}

/**
 * Gives the bytes of an archive, or of a part of it, with only a piece of a file in memory. The same files give the same bytes.
 * If a file fails, the archive ends there, without its directory.
 */
export async function* zipOf(
  sources: readonly ZipSource[],
  { first, last }: ByteRange = { first: 0, last: Infinity },
): Bytes {
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  let at = 0;
  for await (const { lengthBytes, open } of segments(sources)) {
    const from = Math.max(0, first - at);
    const to = Math.min(lengthBytes, last + 1 - at);
    at += lengthBytes;
    if (from < to) {
      for await (const piece of open(to - from === lengthBytes ? undefined : { first: from, last: to - 1 })) {
        held.push(piece);
        heldBytes += piece.length;
        if (heldBytes < GATHERED_BYTES) continue;
        yield Buffer.concat(held);
        held = [];
        heldBytes = 0;
      }
    }
    if (at > last) break;
  }
  if (heldBytes > 0) yield Buffer.concat(held);
}

async function* segments(sources: readonly ZipSource[]): AsyncGenerator<Segment> {
  const entries: Entry[] = [];
  let offset = 0;
  for (const source of sources) {
    const entry = { ...source, crc32: source.crc32 ?? (await crcOf(source.read())), offset };
    entries.push(entry);
    const header = localHeader(entry);
    yield inMemory(header);
    if (source.sizeBytes > 0) yield { lengthBytes: source.sizeBytes, open: source.read };
    offset += header.length + source.sizeBytes;
  }
  let directoryBytes = 0;
  for (const entry of entries) {
    const record = directoryRecord(entry);
    yield inMemory(record);
    directoryBytes += record.length;
  }
  yield inMemory(endRecords(entries.length, directoryBytes, offset));
}

function inMemory(bytes: Buffer): Segment {
  return {
    lengthBytes: bytes.length,
    open: async function* open({ first, last } = { first: 0, last: bytes.length - 1 }) {
      yield bytes.subarray(first, last + 1);
    },
  };
}

async function crcOf(content: Bytes): Promise<number> {
  let crc = 0;
  for await (const piece of content) crc = crc32(piece, crc);
  return crc;
}

/** The greatest number that 32 bits hold; as a value it says that the number is in the zip64 field (section 4.4.1.4). */
const IN_ZIP64 = 0xffffffff;
const COUNT_IN_ZIP64 = 0xffff;

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

function u16(...values: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(values.length * 2);
  for (const [index, value] of values.entries()) bytes.writeUInt16LE(value, index * 2);
  return bytes;
}

function u32(...values: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(values.length * 4);
  for (const [index, value] of values.entries()) bytes.writeUInt32LE(value >>> 0, index * 4);
  return bytes;
}

function u64(...values: readonly (number | bigint)[]): Buffer {
  const bytes = Buffer.allocUnsafe(values.length * 8);
  for (const [index, value] of values.entries()) bytes.writeBigUInt64LE(BigInt(value), index * 8);
  return bytes;
}

/** Time and date of MS-DOS in UTC: even seconds, 1980 to 2107 (section 4.4.6). */
function dosTime(mtimeMs: number): Buffer {
  const at = new Date(Math.min(Math.max(mtimeMs, Date.UTC(1980, 0, 1)), Date.UTC(2107, 11, 31)));
  const time = (at.getUTCHours() << 11) | (at.getUTCMinutes() << 5) | (at.getUTCSeconds() >> 1);
  return u16(time, ((at.getUTCFullYear() - 1980) << 9) | ((at.getUTCMonth() + 1) << 5) | at.getUTCDate());
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
    fields.push(u16(EXTRA.ntfs, 32), u32(0), u16(1, 24), u64(ntfs, ntfs, ntfs));
  }
  if (Math.abs(second) <= LAST_UNIX_SECOND) fields.push(u16(EXTRA.unixTime, 5), Buffer.of(1), u32(second));
  return Buffer.concat(fields);
}

/** The field of 64-bit numbers (section 4.5.3); empty if there are none. */
function zip64Extra(numbers: readonly number[]): Buffer {
  return numbers.length === 0
    ? Buffer.alloc(0)
    : Buffer.concat([u16(EXTRA.zip64, numbers.length * 8), u64(...numbers)]);
}

/** The fields that both records of an entry share, from the version needed to the length of the extra fields. */
function commonFields(
  { name, mtimeMs, sizeBytes, crc32 }: Entry,
  extra: Buffer,
  isZip64: boolean,
): readonly Buffer[] {
  const size = Math.min(sizeBytes, IN_ZIP64);
  return [
    u16(isZip64 ? VERSION_ZIP64 : VERSION, UTF8_FLAG, STORED),
    dosTime(mtimeMs),
    u32(crc32, size, size),
    u16(Buffer.byteLength(name), extra.length),
  ];
}

/** The header in front of the content of an entry (section 4.3.7). */
function localHeader(entry: Entry): Buffer {
  const { name, mtimeMs, sizeBytes } = entry;
  const wide = sizeBytes >= IN_ZIP64 ? [sizeBytes, sizeBytes] : [];
  const extra = Buffer.concat([timeExtra(mtimeMs), zip64Extra(wide)]);
  const fields = commonFields(entry, extra, wide.length > 0);
  return Buffer.concat([u32(0x04034b50), ...fields, Buffer.from(name), extra]);
}

/** An entry of the central directory (section 4.3.12). */
function directoryRecord(entry: Entry): Buffer {
  const { name, mode, mtimeMs, sizeBytes, offset } = entry;
  const wide = [
    ...(sizeBytes >= IN_ZIP64 ? [sizeBytes, sizeBytes] : []),
    ...(offset >= IN_ZIP64 ? [offset] : []),
  ];
  const extra = Buffer.concat([timeExtra(mtimeMs), zip64Extra(wide)]);
  return Buffer.concat([
    u32(0x02014b50),
    u16(MADE_BY_UNIX),
    ...commonFields(entry, extra, wide.length > 0),
    u16(0, 0, 0),
    u32((S_IFREG | (mode & 0o7777)) << 16, Math.min(offset, IN_ZIP64)),
    Buffer.from(name),
    extra,
  ]);
}

/** The end of an archive (sections 4.3.14 to 4.3.16). @param offset position of the central directory, in bytes */
function endRecords(entries: number, directoryBytes: number, offset: number): Buffer {
  const isZip64 = entries >= COUNT_IN_ZIP64 || directoryBytes >= IN_ZIP64 || offset >= IN_ZIP64;
  const zip64 = [
    u32(0x06064b50),
    u64(44),
    u16(MADE_BY_UNIX, VERSION_ZIP64),
    u32(0, 0),
    u64(entries, entries, directoryBytes, offset),
    u32(0x07064b50, 0),
    u64(offset + directoryBytes),
    u32(1),
  ];
  const count = Math.min(entries, COUNT_IN_ZIP64);
  return Buffer.concat([
    ...(isZip64 ? zip64 : []),
    u32(0x06054b50),
    u16(0, 0, count, count),
    u32(Math.min(directoryBytes, IN_ZIP64), Math.min(offset, IN_ZIP64)),
    u16(0),
  ]);
}
