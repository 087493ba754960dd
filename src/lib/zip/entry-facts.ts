import { isAscii, isUtf8 } from 'node:buffer';

import { Entry, type ExtraField, parseExtraFields } from 'yauzl';

import { storableTimeMs } from '../time/file-time.ts';

/** The size and the checksum of the content of an entry. */
export interface Content {
  readonly compressedBytes: number;
  /** Bytes of the content once unpacked. */
  readonly sizeBytes: number;
  readonly crc32: number;
}

/** Whether two contents are the same, judged by sizes and checksums. */
export function isSameContent(one: Content, other: Content): boolean {
  return (
    one.crc32 === other.crc32 &&
    one.compressedBytes === other.compressedBytes &&
    one.sizeBytes === other.sizeBytes
  );
}

/** The facts that both headers of an entry have: the local one, in front of its content, and the one in the directory. */
export interface EntryFacts extends Content {
  /** The decoded name; if it cannot be decoded, an approximation for messages. */
  readonly name: string;
  /** False if the bytes of the name are not in the encoding that the archive claims. */
  readonly isDecodable: boolean;
  /** The bytes of the name, a character for each. */
  readonly nameBytes: string;
  /** General purpose bit flag (APPNOTE 6.3.10, section 4.4.4). */
  readonly flags: number;
  /** One of {@link METHODS}, or another (APPNOTE 6.3.10, section 4.4.5). */
  readonly compressionMethod: number;
  /** Milliseconds since the epoch, as a file system can store it; a time without a zone counts as UTC. */
  readonly modifiedAtMs: number;
}

/** The supported ways of packing (APPNOTE 6.3.10, section 4.4.5). */
export const METHODS = { stored: 0, deflated: 8 } as const;

/** Bits 0, 6 and 13: encrypted, strongly encrypted, local header masked (APPNOTE 6.3.10, section 4.4.4). */
export const ENCRYPTION_FLAGS = 0x2041;

/**
 * Parses the fields that both headers have in the same order (APPNOTE 6.3.10, sections 4.3.7 and 4.3.12).
 * @param flagsAt the first of these fields
 * @param nameAt the end of the fixed part
 * @param onFault gives the value of a number that the extra fields lack
 * @returns also a function that reads a further number, which may be in the zip64 extra field
 */
export function parseFacts(
  bytes: Buffer,
  flagsAt: number,
  nameAt: number,
  onFault: (name: string, fault: string) => number,
): readonly [EntryFacts, (at: number) => number] {
  const nameEnd = Math.min(bytes.length, nameAt + bytes.readUInt16LE(flagsAt + 20));
  const extraEnd = Math.min(bytes.length, nameEnd + bytes.readUInt16LE(flagsAt + 22));
  const flags = bytes.readUInt16LE(flagsAt);
  const nameBytes = bytes.toString('latin1', nameAt, nameEnd);
  const named = decodeName(bytes.subarray(nameAt, nameEnd), nameBytes, flags);
  const extra = extraFieldsIn(bytes.subarray(nameEnd, extraEnd));
  if (extra === null) onFault(named.name, 'an extra field extends past its end');
  const read = numbersOf(bytes, extra ?? []);
  const numberAt = (at: number): number =>
    read(at) ?? onFault(named.name, 'zip64 extended information extra field does not include all numbers');
  // The size before packing is the first of the numbers of 64 bits (section 4.5.3).
  const sizeBytes = numberAt(flagsAt + 16);
  const facts = {
    ...named,
    nameBytes,
    flags,
    compressionMethod: bytes.readUInt16LE(flagsAt + 2),
    crc32: bytes.readUInt32LE(flagsAt + 8),
    compressedBytes: numberAt(flagsAt + 12),
    sizeBytes,
    modifiedAtMs: changeTimeMs(bytes.readUInt32LE(flagsAt + 4), extra ?? []),
  };
  return [facts, numberAt];
}

const UTF8_FLAG = 0x800;

/** The characters of code page 437 from 0x80 on. */
const CODE_PAGE_437 =
  'ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0';

/**
 * Decodes a name: as UTF-8 if the archive says so, or if the bytes are UTF-8 all the same, as many programs omit
 * the flag; otherwise code page 437 (APPNOTE 6.3.10, appendix D), with control characters as such. A second name in an
 * extra field (section 4.6.9) is ignored, so that there is only one.
 * @param nameBytes the same bytes, a character for each
 */
function decodeName(
  bytes: Buffer,
  nameBytes: string,
  flags: number,
): { readonly name: string; readonly isDecodable: boolean } {
  // One text in memory instead of two, for names in ASCII.
  if (isAscii(bytes)) return { name: nameBytes, isDecodable: true };
  const isDecodable = isUtf8(bytes);
  if (isDecodable || (flags & UTF8_FLAG) !== 0) return { name: bytes.toString(), isDecodable };
  const characters = [...bytes].map((byte) =>
    byte < 0x80 ? String.fromCharCode(byte) : (CODE_PAGE_437[byte - 0x80] ?? ''),
  );
  return { name: characters.join(''), isDecodable: true };
}

/** The extra fields of an entry (APPNOTE 6.3.10, section 4.5); null if one is longer than the bytes. */
function extraFieldsIn(bytes: Buffer): readonly ExtraField[] | null {
  if (bytes.length === 0) return [];
  try {
    return parseExtraFields(bytes);
  } catch {
    return null;
  }
}

/** The extra field with sizes and places of 64 bits (section 4.5.3). */
const ZIP64 = 0x0001;
/** Marks a number that is in that field. */
const IN_EXTRA = 0xffffffff;

/** Reads numbers of a header, in the order of the zip64 field; null for one that this field lacks. */
function numbersOf(bytes: Buffer, extra: readonly ExtraField[]): (at: number) => number | null {
  const wide = extra.find(({ id }) => id === ZIP64)?.data;
  let nextAt = 0;
  return (at) => {
    const short = bytes.readUInt32LE(at);
    if (short !== IN_EXTRA || wide === undefined) return short;
    nextAt += 8;
    return nextAt > wide.length ? null : uint64(wide, nextAt - 8);
  };
}

/** A number of 64 bits; beyond 2^53 it is not exact, and no file is as large as that. */
export function uint64(bytes: Buffer, at: number): number {
  return bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 0x1_0000_0000;
}

/**
 * The time of the last change of an entry, in milliseconds since the epoch, as a file system can store it. A time that its extra field
 * cannot hold, for example after 2038, is in the older field all the same, which has no zone and counts as UTC.
 * @param dosTime a DOS date and time, in 32 bits (APPNOTE 6.3.10, section 4.4.6)
 */
function changeTimeMs(dosTime: number, extra: readonly ExtraField[]): number {
  const dated = { lastModFileDate: dosTime >>> 16, lastModFileTime: dosTime & 0xffff };
  const entry = Object.assign(new Entry(), dated, { extraFields: [...extra] });
  const timeMs = entry.getLastModDate({ timezone: 'UTC' }).getTime();
  if (timeMs === storableTimeMs(timeMs)) return timeMs;
  return storableTimeMs(entry.getLastModDate({ timezone: 'UTC', forceDosFormat: true }).getTime());
}
