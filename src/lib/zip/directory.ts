import { isAscii } from 'node:buffer';

import { DIRECTORY_ENTRY_BYTES, type DirectoryPlace, type ReadBytes, ZipFault } from './end-record.ts';
import { changeTimeMs, extraFieldsIn, numbersOf } from './extra-fields.ts';

/** An entry of a zip's central directory: only the necessary facts, as there may be a million. */
export interface ZipEntry {
  /** The decoded name; if it cannot be decoded, an approximation for messages. */
  readonly name: string;
  /** False if the bytes of the name are not in the encoding that the archive claims. */
  readonly isDecodable: boolean;
  /** The bytes of the name, a character for each. */
  readonly nameBytes: string;
  /** The Unix file mode, or 0 if the archive has none. */
  readonly unixMode: number;
  /** General purpose bit flag (APPNOTE 6.3.10, section 4.4.4). */
  readonly flags: number;
  /** One of {@link METHODS}, or another (APPNOTE 6.3.10, section 4.4.5). */
  readonly compressionMethod: number;
  readonly crc32: number;
  readonly compressedBytes: number;
  /** Bytes of the content once unpacked, as the archive claims. */
  readonly sizeBytes: number;
  readonly headerOffset: number;
  /** Milliseconds since the epoch, as a file system can store it; a time without a zone counts as UTC. */
  readonly modifiedAtMs: number;
}

/** The supported ways of packing (APPNOTE 6.3.10, section 4.4.5). */
export const METHODS = { stored: 0, deflated: 8 } as const;

/** Bits 0, 6 and 13: encrypted, strongly encrypted, local header masked (APPNOTE 6.3.10, section 4.4.4). */
export const ENCRYPTION_FLAGS = 0x2041;

/** A malformed entry of the directory, which ends the list of entries. */
export class ZipEntryFault extends ZipFault {
  /** The entry's name, as far as it is readable. */
  readonly entryName: string;

  constructor(entryName: string, message: string) {
    super(message);
    this.entryName = entryName;
  }
}

/** The longest entry: the fixed part, and a name, extra fields and a comment of 16 bits of length each. */
const MOST_ENTRY_BYTES = DIRECTORY_ENTRY_BYTES + 3 * 0xffff;

/**
 * Lists the central directory, which must be as long as its end record says.
 * @throws ZipFault; Error of the disk
 */
export function* entriesOf(
  read: ReadBytes,
  { offset, end, entryCount }: DirectoryPlace,
): Generator<ZipEntry, void> {
  let position = offset;
  for (let left = entryCount; left > 0; left -= 1) {
    if (position + DIRECTORY_ENTRY_BYTES > end) throw goesOn();
    const bytes = read(position, Math.min(MOST_ENTRY_BYTES, end - position));
    const entry = parseEntry(bytes);
    position += entryBytes(bytes);
    if (position > end) throw goesOn();
    yield entry;
  }
  if (position !== end)
    throw new ZipFault(`The archive's directory holds more than the ${entryCount} entries that are counted.`);
}

function goesOn(): ZipFault {
  return new ZipFault("The archive's directory goes on behind its end.");
}

function entryBytes(bytes: Buffer): number {
  const variableBytes = bytes.readUInt16LE(28) + bytes.readUInt16LE(30) + bytes.readUInt16LE(32);
  return DIRECTORY_ENTRY_BYTES + variableBytes;
}

const SIGNATURE = 0x02014b50;

/** Parses the entry at the start of some bytes (APPNOTE 6.3.10, section 4.3.12). @throws ZipFault */
function parseEntry(bytes: Buffer): ZipEntry {
  const nameEnd = Math.min(bytes.length, DIRECTORY_ENTRY_BYTES + bytes.readUInt16LE(28));
  const extraEnd = Math.min(bytes.length, nameEnd + bytes.readUInt16LE(30));
  const flags = bytes.readUInt16LE(8);
  const nameBytes = bytes.toString('latin1', DIRECTORY_ENTRY_BYTES, nameEnd);
  const named = decodeName(bytes.subarray(DIRECTORY_ENTRY_BYTES, nameEnd), nameBytes, flags);
  const signature = bytes.readUInt32LE(0);
  if (signature !== SIGNATURE)
    throw new ZipEntryFault(
      named.name,
      `invalid central directory file header signature: 0x${signature.toString(16)}`,
    );
  const extra = extraFieldsIn(bytes.subarray(nameEnd, extraEnd));
  if (extra === null) throw new ZipEntryFault(named.name, 'an extra field goes on behind its end');
  const read = numbersOf(bytes, extra);
  const numberAt = (position: number): number => {
    const number = read(position);
    if (number !== null) return number;
    throw new ZipEntryFault(
      named.name,
      'zip64 extended information extra field does not include all numbers',
    );
  };
  const sizeBytes = numberAt(24);
  return {
    ...named,
    nameBytes,
    unixMode: bytes.readUInt16LE(40),
    flags,
    compressionMethod: bytes.readUInt16LE(10),
    crc32: bytes.readUInt32LE(16),
    compressedBytes: numberAt(20),
    sizeBytes,
    headerOffset: numberAt(42),
    modifiedAtMs: changeTimeMs(bytes.readUInt32LE(12), extra),
  };
}

const UTF8_FLAG = 0x800;

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The characters of code page 437 from 0x80 on. */
const CODE_PAGE_437 =
  'ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0';

/**
 * Decodes a name: as UTF-8 if the archive says so, or if the bytes are UTF-8 all the same, as many programs omit the
 * flag out; otherwise code page 437 (APPNOTE 6.3.10, appendix D), with control characters as such. A second name in an
 * extra field (section 4.6.9) is ignored, so that there is only one.
 * @param nameBytes the same bytes, a character for each
 */
export function decodeName(
  bytes: Buffer,
  nameBytes: string,
  flags: number,
): { readonly name: string; readonly isDecodable: boolean } {
  // One text in memory instead of two, for names in ASCII.
  if (isAscii(bytes)) return { name: nameBytes, isDecodable: true };
  try {
    return { name: UTF8.decode(bytes), isDecodable: true };
  } catch {
    if ((flags & UTF8_FLAG) !== 0) return { name: bytes.toString('utf8'), isDecodable: false };
    const characters = [...bytes].map((byte) =>
      byte < 0x80 ? String.fromCharCode(byte) : (CODE_PAGE_437[byte - 0x80] ?? ''),
    );
    return { name: characters.join(''), isDecodable: true };
  }
}
