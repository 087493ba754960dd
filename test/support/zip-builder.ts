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

/** Builds a zip archive byte by byte (APPNOTE 6.3.10, section 4.3); by default, a sound one. */
export function buildZip(entries: readonly ZipEntry[], end: ZipEnd = {}): Buffer {
  const parts: Buffer[] = [end.before ?? Buffer.alloc(0)];
  const directory: Buffer[] = [];
  let position = end.before?.length ?? 0;
  for (const entry of entries) {
    const { fields, packed } = fieldsOf(entry);
    if (entry.isHidden !== true) directory.push(centralHeader(entry, fields, position));
    if (entry.isPhantom === true) continue;
    const local = Buffer.concat([localHeader(entry, fields), packed, entry.behind ?? Buffer.alloc(0)]);
    parts.push(local);
    position += local.length;
  }
  parts.push(end.between ?? Buffer.alloc(0));
  const offset = Buffer.concat(parts).length;
  const listing = Buffer.concat(directory);
  const count = entries.filter((entry) => entry.isHidden !== true).length;
  return Buffer.concat([...parts, listing, endOf(end, count, offset, listing.length)]);
}

/** Numbers, such as sizes, as a zip64 field of the extra data (APPNOTE 6.3.10, section 4.5.3). */
export function zip64Extra(...numbers: readonly bigint[]): Buffer {
  return extraField(0x0001, Buffer.concat(numbers.map(uint64)));
}

/** A field of the extra data (APPNOTE 6.3.10, section 4.5.1). */
export function extraField(id: number, data: Buffer): Buffer {
  return Buffer.concat([uint16(id), uint16(data.length), data]);
}

/** A data descriptor (APPNOTE 6.3.10, section 4.3.9). */
export function descriptor(crc: number, compressedSize: number, size: number, hasSignature = true): Buffer {
  const signature = hasSignature ? [uint32(0x08074b50)] : [];
  return Buffer.concat([...signature, uint32(crc), uint32(compressedSize), uint32(size)]);
}

/** A bare end record (APPNOTE 6.3.10, section 4.3.16). */
export function endRecord(end: ZipEnd, count: number, offset: number, size: number): Buffer {
  const comment = end.comment ?? Buffer.alloc(0);
  const disk = uint16(end.disk ?? 0);
  return Buffer.concat([
    uint32(0x06054b50),
    disk,
    disk,
    uint16(end.entriesHere ?? end.entryCount ?? count),
    uint16(end.entryCount ?? count),
    uint32(end.directorySize ?? size),
    uint32(end.directoryOffset ?? offset),
    uint16(comment.length),
    comment,
  ]);
}

type AllFields = Required<Omit<ZipFields, 'name'>> & { readonly name: Buffer };

function fieldsOf(entry: ZipEntry): { fields: AllFields; packed: Buffer } {
  const data = bufferOf(entry.data ?? '');
  const method = entry.method ?? 0;
  const packed = entry.packed ?? (method === 8 ? deflateRawSync(data) : data);
  const fields = {
    name: bufferOf(entry.name),
    method,
    flags: entry.flags ?? 0,
    crc: entry.crc ?? crc32(data),
    compressedSize: entry.compressedSize ?? packed.length,
    size: entry.size ?? data.length,
    extra: entry.extra ?? Buffer.alloc(0),
  };
  return { fields, packed };
}

function common(entry: ZipEntry, fields: AllFields): Buffer {
  return Buffer.concat([
    uint16(20),
    uint16(fields.flags),
    uint16(fields.method),
    uint16(entry.dosTime ?? 0),
    uint16(entry.dosDate ?? 0x5a21),
    uint32(fields.crc),
    uint32(fields.compressedSize),
    uint32(fields.size),
    uint16(fields.name.length),
    uint16(fields.extra.length),
  ]);
}

function overlaid(fields: AllFields, lies: ZipFields = {}): AllFields {
  return { ...fields, ...lies, name: lies.name === undefined ? fields.name : bufferOf(lies.name) };
}

function localHeader(entry: ZipEntry, plain: AllFields): Buffer {
  const fields = overlaid(plain, entry.local);
  return Buffer.concat([uint32(0x04034b50), common(entry, fields), fields.name, fields.extra]);
}

function centralHeader(entry: ZipEntry, plain: AllFields, position: number): Buffer {
  const fields = overlaid(plain, entry.central);
  const comment = entry.comment ?? Buffer.alloc(0);
  return Buffer.concat([
    uint32(0x02014b50),
    Buffer.from([20, 3]),
    common(entry, fields),
    uint16(comment.length),
    uint16(entry.disk ?? 0),
    uint16(0),
    uint32(((entry.mode ?? 0) << 16) >>> 0),
    uint32(entry.offset ?? position),
    fields.name,
    fields.extra,
    comment,
  ]);
}

function endOf(end: ZipEnd, count: number, offset: number, size: number): Buffer {
  if (end.zip64 === undefined) return endRecord(end, count, offset, size);
  const { entryCount, directorySize, directoryOffset, recordOffset, recordSize, disks } = end.zip64;
  const entries = uint64(entryCount ?? BigInt(count));
  const record = Buffer.concat([
    uint32(0x06064b50),
    uint64(recordSize ?? 44n),
    uint16(45),
    uint16(45),
    uint32(0),
    uint32(0),
    entries,
    entries,
    uint64(directorySize ?? BigInt(size)),
    uint64(directoryOffset ?? BigInt(offset)),
  ]);
  const locator = Buffer.concat([
    uint32(0x07064b50),
    uint32(0),
    uint64(recordOffset ?? BigInt(offset + size)),
    uint32(disks ?? 1),
  ]);
  const saturated = { entryCount: 0xffff, directorySize: 0xffffffff, directoryOffset: 0xffffffff, ...end };
  return Buffer.concat([record, locator, endRecord(saturated, count, offset, size)]);
}

function bufferOf(text: string | Buffer): Buffer {
  return Buffer.isBuffer(text) ? text : Buffer.from(text);
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function uint64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
}
