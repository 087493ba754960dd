/** One file of a zip, as its central directory has it (APPNOTE.TXT, section 4.3.12). */
export interface ZipEntry {
  readonly name: string;
  /** 0 stored, 8 deflated. */
  readonly method: number;
  readonly isEncrypted: boolean;
  readonly crc32: number;
  readonly compressedBytes: number;
  readonly sizeBytes: number;
  /** Where its local header begins, in bytes from the beginning of the file. */
  readonly headerOffset: number;
}

/** The end of a file, or all of it. */
export interface FileEnd {
  readonly bytes: Buffer;
  /** Of the whole file. */
  readonly sizeBytes: number;
}

const END_SIGNATURE = 0x06054b50;
const END_BYTES = 22;
const COMMENT_LIMIT_BYTES = 0xffff;
const LOCATOR_SIGNATURE = 0x07064b50;
const LOCATOR_BYTES = 20;
const END64_SIGNATURE = 0x06064b50;
const END64_BYTES = 56;
const ENTRY_SIGNATURE = 0x02014b50;
const ENTRY_BYTES = 46;
const LOCAL_HEADER_BYTES = 30;
const ZIP64_EXTRA = 0x0001;
const IN_ZIP64 = 0xffffffff;
const COUNT_IN_ZIP64 = 0xffff;
const FLAG_ENCRYPTED = 0x0001;

/** Where the directory lies. */
interface DirectoryPlace {
  readonly entries: number;
  readonly lengthBytes: number;
  /** From the beginning of the file. */
  readonly offset: number;
  /** The end of what may belong to the directory, from the beginning of the file. */
  readonly limit: number;
}

/** Reads 64 bits; what exceeds a safe number is beyond every file. */
function read64(bytes: Buffer, at: number): number {
  return Number(bytes.readBigUInt64LE(at));
}

function findEnd(bytes: Buffer): number | null {
  const lowest = Math.max(0, bytes.length - END_BYTES - COMMENT_LIMIT_BYTES);
  for (let at = bytes.length - END_BYTES; at >= lowest; at -= 1) {
    const isEnd = bytes.readUInt32LE(at) === END_SIGNATURE;
    if (isEnd && at + END_BYTES + bytes.readUInt16LE(at + 20) === bytes.length) return at;
  }
  return null;
}

function findDirectory64(bytes: Buffer, endAt: number, start: number): DirectoryPlace | null {
  const locatorAt = endAt - LOCATOR_BYTES;
  if (locatorAt < 0 || bytes.readUInt32LE(locatorAt) !== LOCATOR_SIGNATURE) return null;
  const at = read64(bytes, locatorAt + 8) - start;
  if (at < 0 || at + END64_BYTES > locatorAt || bytes.readUInt32LE(at) !== END64_SIGNATURE) return null;
  return {
    entries: read64(bytes, at + 32),
    lengthBytes: read64(bytes, at + 40),
    offset: read64(bytes, at + 48),
    limit: start + at,
  };
}

/** @param start where the bytes begin in the file */
function findDirectory(bytes: Buffer, start: number): DirectoryPlace | null {
  const at = findEnd(bytes);
  if (at === null) return null;
  const entries = bytes.readUInt16LE(at + 10);
  const lengthBytes = bytes.readUInt32LE(at + 12);
  const offset = bytes.readUInt32LE(at + 16);
  if (entries === COUNT_IN_ZIP64 || lengthBytes === IN_ZIP64 || offset === IN_ZIP64) {
    return findDirectory64(bytes, at, start);
  }
  return { entries, lengthBytes, offset, limit: start + at };
}

/** Reads the values that did not fit into 32 bits, in the order that the extra field has them in (section 4.5.3). */
function readZip64(extra: Buffer, values: readonly number[]): number[] | null {
  if (!values.includes(IN_ZIP64)) return [...values];
  let at = 0;
  while (at + 4 <= extra.length) {
    const length = extra.readUInt16LE(at + 2);
    const field = extra.subarray(at + 4, at + 4 + length);
    if (extra.readUInt16LE(at) === ZIP64_EXTRA) {
      let from = 0;
      const read = values.map((value) => {
        if (value !== IN_ZIP64) return value;
        from += 8;
        return from <= field.length ? read64(field, from - 8) : Number.NaN;
      });
      return read.includes(Number.NaN) ? null : read;
    }
    at += 4 + length;
  }
  return null;
}

/** @returns the entry and where the next one begins, or null where there is none */
function readEntry(bytes: Buffer, at: number): { readonly entry: ZipEntry; readonly end: number } | null {
  if (at + ENTRY_BYTES > bytes.length || bytes.readUInt32LE(at) !== ENTRY_SIGNATURE) return null;
  const nameEnd = at + ENTRY_BYTES + bytes.readUInt16LE(at + 28);
  const extraEnd = nameEnd + bytes.readUInt16LE(at + 30);
  const end = extraEnd + bytes.readUInt16LE(at + 32);
  if (end > bytes.length) return null;
  const values = [bytes.readUInt32LE(at + 24), bytes.readUInt32LE(at + 20), bytes.readUInt32LE(at + 42)];
  const sizes = readZip64(bytes.subarray(nameEnd, extraEnd), values);
  if (sizes === null) return null;
  const [sizeBytes = 0, compressedBytes = 0, headerOffset = 0] = sizes;
  const entry = {
    name: bytes.toString('utf8', at + ENTRY_BYTES, nameEnd),
    method: bytes.readUInt16LE(at + 10),
    isEncrypted: (bytes.readUInt16LE(at + 8) & FLAG_ENCRYPTED) !== 0,
    crc32: bytes.readUInt32LE(at + 16),
    compressedBytes,
    sizeBytes,
    headerOffset,
  };
  return { entry, end };
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

/**
 * Reads the central directory of a zip, as far as the end of the file shows it.
 * @returns null where it is not sound: cut off, contradictory, or of more than one disk
 */
export function readZipDirectory({ bytes, sizeBytes }: FileEnd): ZipEntry[] | null {
  const start = sizeBytes - bytes.length;
  const place = findDirectory(bytes, start);
  if (place === null || place.offset < start || place.offset + place.lengthBytes > place.limit) return null;
  const directory = bytes.subarray(place.offset - start, place.offset - start + place.lengthBytes);
  const entries: ZipEntry[] = [];
  for (let at = 0; at < directory.length;) {
    const read = readEntry(directory, at);
    if (read === null) return null;
    entries.push(read.entry);
    at = read.end;
  }
  return entries.length === place.entries && doNotOverlap(entries, place.offset) ? entries : null;
}

/**
 * Finds the compressed bytes of an entry in a whole file.
 * @returns null where its local header is not there
 */
export function compressedBytesOf(file: Buffer, entry: ZipEntry): Buffer | null {
  const at = entry.headerOffset;
  if (at + LOCAL_HEADER_BYTES > file.length || file.toString('latin1', at, at + 4) !== 'PK\u0003\u0004') {
    return null;
  }
  const from = at + LOCAL_HEADER_BYTES + file.readUInt16LE(at + 26) + file.readUInt16LE(at + 28);
  const end = from + entry.compressedBytes;
  return end <= file.length ? file.subarray(from, end) : null;
}
