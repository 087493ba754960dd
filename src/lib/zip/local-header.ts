import type { ZipBytes } from './zip-bytes.ts';

/** An entry's local header, which stands in front of its content (APPNOTE 6.3.10, section 4.3.7). */
export interface LocalHeader {
  readonly flags: number;
  readonly compressionMethod: number;
  readonly crc32: number;
  /** {@link IN_EXTRA} where the extra fields have it. */
  readonly compressedBytes: number;
  /** {@link IN_EXTRA} where the extra fields have it. */
  readonly sizeBytes: number;
  readonly nameBytes: string;
  /** As a DOS date and time, in 32 bits (APPNOTE 6.3.10, section 4.4.6). */
  readonly dosTime: number;
  /** The extra fields, good until other bytes are asked for. */
  readonly extra: Buffer;
  /** Where the content starts; it may be behind the end of an archive that is cut off. */
  readonly dataOffset: number;
}

/** The fixed part of a local header (APPNOTE 6.3.10, section 4.3.7). */
export const LOCAL_HEADER_BYTES = 30;
const LOCAL_SIGNATURE = 0x04034b50;
/** Stands for a number that is in the zip64 extra field (APPNOTE 6.3.10, section 4.5.3). */
export const IN_EXTRA = 0xffffffff;
const NO_BYTES = Buffer.alloc(0);

/**
 * Reads a local header: at once where it is at hand.
 * @param aheadBytes how much is read at least
 * @returns null where there is none
 */
export function readLocalHeader(
  bytes: ZipBytes,
  headerOffset: number,
  aheadBytes?: number,
): LocalHeader | null | Promise<LocalHeader | null> {
  if (headerOffset + LOCAL_HEADER_BYTES > bytes.sizeBytes) return null;
  const again = (): ReturnType<typeof readLocalHeader> => readLocalHeader(bytes, headerOffset, aheadBytes);
  const fixed = bytes.find(headerOffset, LOCAL_HEADER_BYTES, aheadBytes);
  if (typeof fixed !== 'number') return fixed.then(again);
  const length = localHeaderBytes(bytes.atHand, fixed);
  if (length === null) return null;
  const presentLength = Math.min(length, bytes.sizeBytes - headerOffset);
  const start = bytes.find(headerOffset, presentLength, aheadBytes);
  if (typeof start !== 'number') return start.then(again);
  return parseLocalHeader(bytes.atHand, start, presentLength, headerOffset);
}

/**
 * The length of a local header, by its fixed part.
 * @returns null where no local header is there
 */
export function localHeaderBytes(bytes: Buffer, at: number): number | null {
  if (bytes.readUInt32LE(at) !== LOCAL_SIGNATURE) return null;
  return LOCAL_HEADER_BYTES + bytes.readUInt16LE(at + 26) + bytes.readUInt16LE(at + 28);
}

/**
 * Reads a local header that is at hand.
 * @param lengthBytes how much of it there is
 * @param headerOffset where it lies in the archive
 */
export function parseLocalHeader(
  bytes: Buffer,
  at: number,
  lengthBytes: number,
  headerOffset: number,
): LocalHeader {
  const compressedBytes = bytes.readUInt32LE(at + 18);
  const sizeBytes = bytes.readUInt32LE(at + 22);
  const nameLength = bytes.readUInt16LE(at + 26);
  const nameStart = at + LOCAL_HEADER_BYTES;
  const nameEnd = Math.min(nameStart + nameLength, at + lengthBytes);
  return {
    flags: bytes.readUInt16LE(at + 6),
    compressionMethod: bytes.readUInt16LE(at + 8),
    crc32: bytes.readUInt32LE(at + 14),
    compressedBytes,
    sizeBytes,
    nameBytes: bytes.toString('latin1', nameStart, nameEnd),
    dosTime: bytes.readUInt32LE(at + 10),
    extra: nameEnd === at + lengthBytes ? NO_BYTES : bytes.subarray(nameEnd, at + lengthBytes),
    dataOffset: headerOffset + LOCAL_HEADER_BYTES + nameLength + bytes.readUInt16LE(at + 28),
  };
}
