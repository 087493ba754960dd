import { type Content, type EntryFacts, isSameContent, parseFacts, uint64 } from './entry-facts.ts';

/** An entry's local header, with the content that it claims. A descriptor behind the content overrides it. */
export interface LocalHeader extends EntryFacts {
  /** The offset of the content; it may be behind the end of a truncated archive. */
  readonly dataOffset: number;
}

/** The fixed part of a local header. */
export const LOCAL_HEADER_BYTES = 30;
const LOCAL_SIGNATURE = 0x04034b50;
/** A number that should be in the zip64 extra field, but is not. */
const UNKNOWN_NUMBER = 0xffffffff;

/** The length of a local header, from its fixed part; null if these bytes are no local header. */
export function localHeaderBytes(bytes: Buffer): number | null {
  if (bytes.length < LOCAL_HEADER_BYTES || bytes.readUInt32LE(0) !== LOCAL_SIGNATURE) return null;
  return LOCAL_HEADER_BYTES + bytes.readUInt16LE(26) + bytes.readUInt16LE(28);
}

/**
 * Parses a local header.
 * @param bytes the whole header
 * @param position its offset in the archive
 */
export function parseLocalHeader(bytes: Buffer, position: number): LocalHeader {
  const [facts] = parseFacts(bytes, 6, LOCAL_HEADER_BYTES, () => UNKNOWN_NUMBER);
  return { ...facts, dataOffset: position + bytes.length };
}

/** Bit 3: CRC and sizes follow the content in a data descriptor (APPNOTE 6.3.10, section 4.4.4). */
const DESCRIPTOR_FLAG = 0x8;
const DESCRIPTOR_SIGNATURE = 0x08074b50;

/** Whether a descriptor follows the content. */
export function hasDescriptor({ flags }: LocalHeader): boolean {
  return (flags & DESCRIPTOR_FLAG) !== 0;
}

/** With and without its signature, with sizes of 32 and of 64 bits (APPNOTE 6.3.10, section 4.3.9). */
const DESCRIPTOR_LENGTHS = [12, 16, 20, 24];

/** The longest descriptor, and the signature behind it. */
export const DESCRIPTOR_AREA_BYTES = 28;

/** Signatures of what may follow an entry: the next one, or the directory (APPNOTE 6.3.10, sections 4.3.7 and 4.3.12). */
const NEXT_SIGNATURES: ReadonlySet<number> = new Set([LOCAL_SIGNATURE, 0x02014b50]);

/**
 * The length of the descriptor behind a content, found by the content and the signature that follows: 0 if it is left out and the header
 * has the same numbers, null if no length fits.
 * @param bytes {@link DESCRIPTOR_AREA_BYTES} from behind the content
 */
export function descriptorBytes(bytes: Buffer, content: Content, claimed: Content): number | null {
  if (bytes.length < DESCRIPTOR_AREA_BYTES) return null;
  const isNextAt = (at: number): boolean => NEXT_SIGNATURES.has(bytes.readUInt32LE(at));
  const found = DESCRIPTOR_LENGTHS.find((length) => isNextAt(length) && isDescriptor(bytes, length, content));
  return found ?? (isNextAt(0) && isSameContent(claimed, content) ? 0 : null);
}

function isDescriptor(bytes: Buffer, length: number, content: Content): boolean {
  const hasSignature = length === 16 || length === 24;
  if (hasSignature && bytes.readUInt32LE(0) !== DESCRIPTOR_SIGNATURE) return false;
  const at = hasSignature ? 4 : 0;
  const [compressedBytes, sizeBytes] =
    length - at === 12
      ? [bytes.readUInt32LE(at + 4), bytes.readUInt32LE(at + 8)]
      : [uint64(bytes, at + 4), uint64(bytes, at + 12)];
  return isSameContent({ crc32: bytes.readUInt32LE(at), compressedBytes, sizeBytes }, content);
}
