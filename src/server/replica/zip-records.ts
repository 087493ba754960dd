/** The records of a zip archive as bytes (APPNOTE 6.3.10, section 4.3). All numbers are little-endian. */

/** Stored as it is (APPNOTE 6.3.10, section 4.4.5). */
export const STORED = 0;
/** Deflated (section 4.4.5). */
export const DEFLATED = 8;

/** An entry, as the records describe it. */
export interface ZipEntryFacts {
  /** With slashes, relative, no slash at its end. */
  readonly name: string;
  /** Permission bits of the file. */
  readonly mode: number;
  /** Milliseconds since the epoch. */
  readonly mtimeMs: number;
  readonly method: typeof STORED | typeof DEFLATED;
  /** Whether CRC and sizes follow the content, as they are not known before it. */
  readonly hasDescriptor: boolean;
  readonly crc32: number;
  readonly compressedBytes: number;
  readonly sizeBytes: number;
  /** Where its local header begins, in bytes. */
  readonly offset: number;
  /** Whether its numbers are written with 64 bits (section 4.5.3); known before its content is. */
  readonly isZip64: boolean;
}

/** The greatest number that 32 bits hold beside the one that stands for "see the zip64 field" (section 4.4.1.4). */
const IN_ZIP64 = 0xffffffff;
const COUNT_IN_ZIP64 = 0xffff;

/** Deflate, and level 0 of it, make bytes that cannot be packed a little more: 5 for every block (RFC 1951, section 3.2.4). */
const GROWTH = 1.01;
const LEAST_GROWTH_BYTES = 1024;

/** Whether the sizes of an entry may need 64 bits. */
export function needsZip64(sizeBytes: number): boolean {
  return sizeBytes * GROWTH + LEAST_GROWTH_BYTES >= IN_ZIP64;
}

const LOCAL_SIGNATURE = 0x04034b50;
const DESCRIPTOR_SIGNATURE = 0x08074b50;
const DIRECTORY_SIGNATURE = 0x02014b50;
const END_SIGNATURE = 0x06054b50;
const ZIP64_END_SIGNATURE = 0x06064b50;
const ZIP64_LOCATOR_SIGNATURE = 0x07064b50;

/** Bit 3: CRC and sizes are in a data descriptor; bit 11: the name is UTF-8 (section 4.4.4). */
const DESCRIPTOR_FLAG = 0x8;
const UTF8_FLAG = 0x800;
/** Version of the format that is needed, and made by: 2.0, with zip64 4.5; of Unix (section 4.4.2). */
const VERSION = 20;
const VERSION_ZIP64 = 45;
const MADE_BY_UNIX = (3 << 8) | VERSION_ZIP64;
const S_IFREG = 0o100000;

class RecordWriter {
  private readonly parts: Buffer[] = [];

  u16(...values: readonly number[]): this {
    for (const value of values) {
      const part = Buffer.alloc(2);
      part.writeUInt16LE(value);
      this.parts.push(part);
    }
    return this;
  }

  u32(...values: readonly number[]): this {
    return this.bytes(...values.map((value) => Buffer.of(value, value >> 8, value >> 16, value >> 24)));
  }

  u64(...values: readonly (number | bigint)[]): this {
    for (const value of values.map(BigInt)) this.u32(Number(value & 0xffff_ffffn), Number(value >> 32n));
    return this;
  }

  bytes(...values: readonly Buffer[]): this {
    this.parts.push(...values);
    return this;
  }

  done(): Buffer {
    return Buffer.concat(this.parts);
  }
}

/** Time and date of MS-DOS in UTC, which has even seconds from 1980 to 2107 (section 4.4.6). */
function dosTime(mtimeMs: number): readonly [time: number, date: number] {
  const at = new Date(Math.min(Math.max(mtimeMs, Date.UTC(1980, 0, 1)), Date.UTC(2107, 11, 31)));
  const time = (at.getUTCHours() << 11) | (at.getUTCMinutes() << 5) | (at.getUTCSeconds() >> 1);
  const date = ((at.getUTCFullYear() - 1980) << 9) | ((at.getUTCMonth() + 1) << 5) | at.getUTCDate();
  return [time, date];
}

const NTFS_EXTRA = 0x000a;
const UNIX_TIME_EXTRA = 0x5455;
const ZIP64_EXTRA = 0x0001;
/** From 1601, where NTFS begins to count, to the epoch, in milliseconds. */
const NTFS_EPOCH_MS = 11_644_473_600_000n;
/** Units of 100 nanoseconds: half of a tenth of a millisecond, so that whoever counts with floating point rounds to the right one. */
const NTFS_MIDDLE = 500n;
const LAST_UNIX_SECOND = 2 ** 31 - 1;

/**
 * The time of change to the second (Info-ZIP's extra field "UT"); where there is a fraction, before it, for readers that take the
 * first, to the millisecond (section 4.5.5).
 */
function timeExtra(mtimeMs: number): Buffer {
  const writer = new RecordWriter();
  const second = Math.floor(mtimeMs / 1000);
  if (mtimeMs % 1000 !== 0) {
    const ntfs = (BigInt(mtimeMs) + NTFS_EPOCH_MS) * 10_000n + NTFS_MIDDLE;
    writer.u16(NTFS_EXTRA, 32).u32(0).u16(1, 24).u64(ntfs, ntfs, ntfs);
  }
  if (Math.abs(second) <= LAST_UNIX_SECOND) {
    writer.u16(UNIX_TIME_EXTRA, 5).bytes(Buffer.of(1)).u32(second);
  }
  return writer.done();
}

/** The header in front of an entry's content (section 4.3.7). */
export function localHeader(entry: ZipEntryFacts): Buffer {
  const { hasDescriptor, isZip64 } = entry;
  const name = Buffer.from(entry.name);
  const sizes = hasDescriptor ? [0, 0] : [entry.compressedBytes, entry.sizeBytes];
  const [compressedBytes = 0, sizeBytes = 0] = sizes;
  const zip64 = isZip64 ? new RecordWriter().u16(ZIP64_EXTRA, 16).u64(sizeBytes, compressedBytes) : null;
  const extra = Buffer.concat([timeExtra(entry.mtimeMs), zip64?.done() ?? Buffer.alloc(0)]);
  return new RecordWriter()
    .u32(LOCAL_SIGNATURE)
    .u16(isZip64 ? VERSION_ZIP64 : VERSION, UTF8_FLAG | (hasDescriptor ? DESCRIPTOR_FLAG : 0), entry.method)
    .u16(...dosTime(entry.mtimeMs))
    .u32(hasDescriptor ? 0 : entry.crc32)
    .u32(isZip64 ? IN_ZIP64 : compressedBytes, isZip64 ? IN_ZIP64 : sizeBytes)
    .u16(name.length, extra.length)
    .bytes(name, extra)
    .done();
}

/** The record behind an entry's content (section 4.3.9). */
export function dataDescriptor({ crc32, compressedBytes, sizeBytes, isZip64 }: ZipEntryFacts): Buffer {
  const head = new RecordWriter().u32(DESCRIPTOR_SIGNATURE, crc32);
  return (isZip64 ? head.u64(compressedBytes, sizeBytes) : head.u32(compressedBytes, sizeBytes)).done();
}

/** An entry of the central directory (section 4.3.12). */
export function directoryRecord(entry: ZipEntryFacts): Buffer {
  const name = Buffer.from(entry.name);
  const isFar = entry.offset >= IN_ZIP64;
  const isLong = entry.isZip64;
  const numbers = [
    ...(isLong ? [entry.sizeBytes, entry.compressedBytes] : []),
    ...(isFar ? [entry.offset] : []),
  ];
  const zip64 = new RecordWriter();
  if (numbers.length > 0) zip64.u16(ZIP64_EXTRA, numbers.length * 8).u64(...numbers);
  const extra = Buffer.concat([timeExtra(entry.mtimeMs), zip64.done()]);
  return new RecordWriter()
    .u32(DIRECTORY_SIGNATURE)
    .u16(MADE_BY_UNIX, numbers.length > 0 ? VERSION_ZIP64 : VERSION)
    .u16(UTF8_FLAG | (entry.hasDescriptor ? DESCRIPTOR_FLAG : 0), entry.method)
    .u16(...dosTime(entry.mtimeMs))
    .u32(entry.crc32)
    .u32(isLong ? IN_ZIP64 : entry.compressedBytes, isLong ? IN_ZIP64 : entry.sizeBytes)
    .u16(name.length, extra.length, 0, 0, 0)
    .u32((S_IFREG | (entry.mode & 0o7777)) << 16, isFar ? IN_ZIP64 : entry.offset)
    .bytes(name, extra)
    .done();
}

/** Where the central directory lies, and what it holds. */
export interface DirectoryFacts {
  readonly entries: number;
  readonly sizeBytes: number;
  /** Where it begins, in bytes. */
  readonly offset: number;
}

/** The end of an archive (sections 4.3.14 to 4.3.16). */
export function endRecords({ entries, sizeBytes, offset }: DirectoryFacts): Buffer {
  const isZip64 = entries >= COUNT_IN_ZIP64 || sizeBytes >= IN_ZIP64 || offset >= IN_ZIP64;
  const writer = new RecordWriter();
  if (isZip64) {
    writer
      .u32(ZIP64_END_SIGNATURE)
      .u64(44)
      .u16(MADE_BY_UNIX, VERSION_ZIP64)
      .u32(0, 0)
      .u64(entries, entries, sizeBytes, offset)
      .u32(ZIP64_LOCATOR_SIGNATURE, 0)
      .u64(offset + sizeBytes)
      .u32(1);
  }
  const count = Math.min(entries, COUNT_IN_ZIP64);
  return writer
    .u32(END_SIGNATURE)
    .u16(0, 0, count, count)
    .u32(Math.min(sizeBytes, IN_ZIP64), Math.min(offset, IN_ZIP64))
    .u16(0)
    .done();
}
