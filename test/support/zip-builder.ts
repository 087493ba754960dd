import { crc32, deflateRawSync } from 'node:zlib';

/** The fields that are both in the local header and in the directory. */
export interface ZipFields {
  readonly name?: string | Buffer;
  readonly method?: number;
  readonly flags?: number;
  readonly crc?: number;
  readonly compressedSize?: number;
  readonly size?: number;
  readonly extra?: Buffer;
}

/** An entry, each of whose fields may be false in one or both places. */
export interface ZipEntry extends ZipFields {
  readonly name: string | Buffer;
  readonly data?: string | Buffer;
  /** Replaces the packed bytes. */
  readonly packed?: Buffer;
  /** Unix mode with file type. */
  readonly mode?: number;
  /** DOS time and date (APPNOTE 6.3.10, section 4.4.6). */
  readonly dosTime?: number;
  readonly dosDate?: number;
  readonly disk?: number;
  readonly comment?: Buffer;
  /** The offset of the entry in the directory. */
  readonly offset?: number;
  readonly local?: ZipFields;
  readonly central?: ZipFields;
  /** The bytes after the packed ones, such as a data descriptor. */
  readonly behind?: Buffer;
  /** Leaves the content out: only the directory has the entry. */
  readonly isPhantom?: boolean;
  /** Leaves the entry out of the directory. */
  readonly isHidden?: boolean;
}

/** False fields at the end of an archive. */
export interface ZipEnd {
  readonly comment?: Buffer;
  readonly entryCount?: number;
  readonly entriesHere?: number;
  readonly directorySize?: number;
  readonly directoryOffset?: number;
  readonly disk?: number;
  /** Writes zip64 records, with these false numbers. */
  readonly zip64?: {
    readonly entryCount?: bigint;
    readonly directorySize?: bigint;
    readonly directoryOffset?: bigint;
    readonly recordOffset?: bigint;
    readonly recordSize?: bigint;
    readonly disks?: number;
  };
  /** Bytes before everything; all offsets count from their start. */
  readonly before?: Buffer;
  /** Bytes between the last entry and the directory. */
  readonly between?: Buffer;
}

type AllFields = Required<Omit<ZipFields, 'name'>> & { readonly name: Buffer };

/** Numbers of so many bits each, little-endian as this machine. */
const bits16 = (...values: readonly number[]): Buffer => Buffer.from(Uint16Array.from(values).buffer);
const bits32 = (...values: readonly number[]): Buffer => Buffer.from(Uint32Array.from(values).buffer);
const bits64 = (...values: readonly bigint[]): Buffer => Buffer.from(BigUint64Array.from(values).buffer);
const EMPTY = Buffer.alloc(0);

/** Builds a zip archive byte by byte (APPNOTE 6.3.10, section 4.3); by default, a sound one. */
export function buildZip(entries: readonly ZipEntry[], end: ZipEnd = {}): Buffer {
  const parts = [end.before ?? EMPTY];
  const directory: Buffer[] = [];
  let position = end.before?.length ?? 0;
  for (const entry of entries) {
    const { fields, packed } = fieldsOf(entry);
    if (entry.isHidden !== true) directory.push(centralHeader(entry, fields, position));
    if (entry.isPhantom === true) continue;
    const local = Buffer.concat([localHeader(entry, fields), packed, entry.behind ?? EMPTY]);
    parts.push(local);
    position += local.length;
  }
  const { between = EMPTY } = end;
  const listing = Buffer.concat(directory);
  const ending = endOf(end, directory.length, position + between.length, listing.length);
  return Buffer.concat([...parts, between, listing, ending]);
}

/** Numbers, such as sizes, as a zip64 field of the extra data (APPNOTE 6.3.10, section 4.5.3). */
export function zip64Extra(...numbers: readonly bigint[]): Buffer {
  return extraField(0x0001, bits64(...numbers));
}

/** A field of the extra data (APPNOTE 6.3.10, section 4.5.1). */
export function extraField(id: number, data: Buffer): Buffer {
  return Buffer.concat([bits16(id, data.length), data]);
}

/** A data descriptor (APPNOTE 6.3.10, section 4.3.9). */
export function descriptor(crc: number, compressedSize: number, size: number, hasSignature = true): Buffer {
  return bits32(...(hasSignature ? [0x08074b50] : []), crc, compressedSize, size);
}

/** A bare end record (APPNOTE 6.3.10, section 4.3.16). */
export function endRecord(end: ZipEnd, count: number, offset: number, size: number): Buffer {
  const { disk = 0, comment = EMPTY, entryCount = count, entriesHere = entryCount } = end;
  return Buffer.concat([
    bits32(0x06054b50),
    bits16(disk, disk, entriesHere, entryCount),
    bits32(end.directorySize ?? size, end.directoryOffset ?? offset),
    bits16(comment.length),
    comment,
  ]);
}

function fieldsOf(entry: ZipEntry): { fields: AllFields; packed: Buffer } {
  const data = Buffer.from(entry.data ?? '');
  const method = entry.method ?? 0;
  const packed = entry.packed ?? (method === 8 ? deflateRawSync(data) : data);
  const fields = {
    name: Buffer.from(entry.name),
    method,
    flags: entry.flags ?? 0,
    crc: entry.crc ?? crc32(data),
    compressedSize: entry.compressedSize ?? packed.length,
    size: entry.size ?? data.length,
    extra: entry.extra ?? EMPTY,
  };
  return { fields, packed };
}

/** The part of a header that is the same in both places. */
function common(entry: ZipEntry, fields: AllFields): Buffer {
  return Buffer.concat([
    bits16(20, fields.flags, fields.method, entry.dosTime ?? 0, entry.dosDate ?? 0x5a21),
    bits32(fields.crc, fields.compressedSize, fields.size),
    bits16(fields.name.length, fields.extra.length),
  ]);
}

function overlaid(fields: AllFields, lies: ZipFields = {}): AllFields {
  return { ...fields, ...lies, name: Buffer.from(lies.name ?? fields.name) };
}

function localHeader(entry: ZipEntry, plain: AllFields): Buffer {
  const fields = overlaid(plain, entry.local);
  return Buffer.concat([bits32(0x04034b50), common(entry, fields), fields.name, fields.extra]);
}

function centralHeader(entry: ZipEntry, plain: AllFields, position: number): Buffer {
  const fields = overlaid(plain, entry.central);
  const { comment = EMPTY, disk = 0, mode = 0, offset = position } = entry;
  return Buffer.concat([
    bits32(0x02014b50),
    Buffer.from([20, 3]),
    common(entry, fields),
    bits16(comment.length, disk, 0),
    bits32(mode << 16, offset),
    fields.name,
    fields.extra,
    comment,
  ]);
}

function endOf(end: ZipEnd, count: number, offset: number, size: number): Buffer {
  if (end.zip64 === undefined) return endRecord(end, count, offset, size);
  const { entryCount = BigInt(count), directorySize = BigInt(size), disks = 1 } = end.zip64;
  const {
    directoryOffset = BigInt(offset),
    recordOffset = BigInt(offset + size),
    recordSize = 44n,
  } = end.zip64;
  const saturated = { entryCount: 0xffff, directorySize: 0xffffffff, directoryOffset: 0xffffffff, ...end };
  return Buffer.concat([
    bits32(0x06064b50),
    bits64(recordSize),
    bits16(45, 45),
    bits32(0, 0),
    bits64(entryCount, entryCount, directorySize, directoryOffset),
    bits32(0x07064b50, 0),
    bits64(recordOffset),
    bits32(disks),
    endRecord(saturated, count, offset, size),
  ]);
}
