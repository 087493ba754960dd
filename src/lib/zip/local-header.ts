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
  /** The extra fields where a size is in them, good until other bytes are asked for; else nothing. */
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
  if (bytes.atHand.readUInt32LE(fixed) !== LOCAL_SIGNATURE) return null;
  const nameLength = bytes.atHand.readUInt16LE(fixed + 26);
  const length = LOCAL_HEADER_BYTES + nameLength + bytes.atHand.readUInt16LE(fixed + 28);
  const presentLength = Math.min(length, bytes.sizeBytes - headerOffset);
  const start = bytes.find(headerOffset, presentLength, aheadBytes);
  if (typeof start !== 'number') return start.then(again);
  const { atHand } = bytes;
  const compressedBytes = atHand.readUInt32LE(start + 18);
  const sizeBytes = atHand.readUInt32LE(start + 22);
  const nameStart = start + LOCAL_HEADER_BYTES;
  const nameEnd = Math.min(nameStart + nameLength, start + presentLength);
  const isInExtra = compressedBytes === IN_EXTRA || sizeBytes === IN_EXTRA;
  return {
    flags: atHand.readUInt16LE(start + 6),
    compressionMethod: atHand.readUInt16LE(start + 8),
    crc32: atHand.readUInt32LE(start + 14),
    compressedBytes,
    sizeBytes,
    nameBytes: atHand.toString('latin1', nameStart, nameEnd),
    extra: isInExtra ? atHand.subarray(nameEnd, start + presentLength) : NO_BYTES,
    dataOffset: headerOffset + length,
  };
}
