import { ENCRYPTION_FLAGS, type ZipEntry } from '../../lib/zip/directory.ts';
import type { DirectoryPlace } from '../../lib/zip/end-record.ts';
import { parseExtraFields, uint64 } from '../../lib/zip/extra-fields.ts';
import { IN_EXTRA, type LocalHeader, readLocalHeader } from '../../lib/zip/local-header.ts';
import type { ZipBytes } from '../../lib/zip/zip-bytes.ts';
import type { ListedEntry } from './listing.ts';
import { damaged, damagedEntry, entryRefusal, quoted, type Refusals } from './policy.ts';

/** The size and the checksum of the content of an entry. */
export interface Content {
  readonly compressedBytes: number;
  readonly sizeBytes: number;
  readonly crc32: number;
}

/** The header of an entry that came, with the sizes and the checksum of what came behind it, and without extra fields. */
export interface ArrivedHeader extends LocalHeader {
  /** The length of the descriptor, which says what the content is; 0 for none. */
  readonly descriptorBytes: number;
}

/** An entry and where its content starts. */
export interface PlacedEntry extends ListedEntry {
  readonly dataOffset: number;
}

/** Enough for many small entries at once. */
const AHEAD_BYTES = 256 * 1024;
/** Enough for one local header: of what follows a great entry nothing is at hand. */
const HEADER_BYTES = 1024;
const DESCRIPTOR_SIGNATURE = 0x08074b50;
/** Bit 3: CRC and sizes follow the content in a data descriptor (APPNOTE 6.3.10, section 4.4.4). */
export const DESCRIPTOR_FLAG = 0x8;

/**
 * Reads the local headers in the order of the file and holds them against the directory. Every byte before the directory
 * must belong to one entry, and to one only: then nothing is read twice, which the worst zip bombs live on, and nothing is
 * hidden from the directory.
 * @param arrived by where their headers lie: the entries that are not in the bytes
 * @returns the entries in the order of the file
 * @throws MirrorError `archive.damaged`; what overlaps or has another name at its content is collected instead
 */
export async function locate(
  bytes: ZipBytes,
  entries: readonly ListedEntry[],
  directory: Pick<DirectoryPlace, 'offset'>,
  refusals: Refusals,
  arrived: ReadonlyMap<number, ArrivedHeader>,
): Promise<PlacedEntry[]> {
  const sorted = inOrder(entries, directory);
  const placed: PlacedEntry[] = [];
  for (const [index, { entry, verdict }] of sorted.entries()) {
    const next = sorted[index + 1]?.entry;
    const end = Math.min(next?.headerOffset ?? directory.offset, directory.offset);
    const came = arrived.get(entry.headerOffset);
    const header = came ?? readLocalHeader(bytes, entry.headerOffset, aheadFor(entry));
    const local = placeOf(bytes, entry, header instanceof Promise ? await header : header);
    placed.push({ entry, verdict, dataOffset: local.dataOffset });
    if (local.nameBytes !== entry.nameBytes) {
      const other = quoted(Buffer.from(local.nameBytes, 'latin1').toString('utf8'));
      refusals.add(entryRefusal(entry.name, `has another name, ${other}, at its content`));
    } else if (local.dataOffset + entry.compressedBytes > end) {
      const what = next === undefined ? "the archive's directory" : quoted(next.name);
      refusals.add(entryRefusal(entry.name, `overlaps ${what}`));
    } else {
      const length = lengthBehind(entry, local, end);
      if (length === 0) continue;
      const isRight =
        came === undefined
          ? await isDescriptorAt(bytes, entry, end - length, length)
          : length === came.descriptorBytes && isSameContent(entry, came);
      if (!isRight) throw contradicted(entry.name);
    }
  }
  return placed;
}

async function isDescriptorAt(
  bytes: ZipBytes,
  entry: ZipEntry,
  position: number,
  length: number,
): Promise<boolean> {
  const found = bytes.find(position, length, aheadFor(entry));
  const at = typeof found === 'number' ? found : await found;
  return isDescriptorOf(entry, bytes.atHand, at, length);
}

/** The entries in the order of the file. @throws MirrorError `archive.damaged` unless they start it, and lie before the directory */
function inOrder(
  entries: readonly ListedEntry[],
  directory: Pick<DirectoryPlace, 'offset'>,
): readonly ListedEntry[] {
  const sorted = [...entries].sort((a, b) => a.entry.headerOffset - b.entry.headerOffset);
  const start = sorted[0]?.entry.headerOffset ?? directory.offset;
  if (start > 0) throw damaged('The archive does not start with an entry: something is before it.');
  const last = sorted.at(-1)?.entry;
  if (last !== undefined && last.headerOffset >= directory.offset) throw misplaced(last.name);
  return sorted;
}

/** Where an entry's content is, by its local header. */
interface LocalPlace {
  readonly nameBytes: string;
  readonly dataOffset: number;
  readonly hasDescriptor: boolean;
  /** Whether its CRC and sizes are those of the directory. */
  readonly agrees: boolean;
}

/** @throws MirrorError `archive.damaged` where it contradicts the directory */
function placeOf(bytes: ZipBytes, entry: ZipEntry, header: LocalHeader | null): LocalPlace {
  const { name } = entry;
  if (header === null) throw misplaced(name);
  const { nameBytes, dataOffset, flags } = header;
  if (dataOffset + entry.compressedBytes > bytes.sizeBytes)
    throw damagedEntry(name, 'goes on behind the end of the archive');
  if (header.compressionMethod !== entry.compressionMethod || (flags & ENCRYPTION_FLAGS) !== 0) {
    throw damagedEntry(name, 'is packed in another way than the directory says');
  }
  const hasDescriptor = ((flags | entry.flags) & DESCRIPTOR_FLAG) !== 0;
  const sizes = sizesOf(header);
  const agrees =
    header.crc32 === entry.crc32 &&
    sizes.compressedBytes === entry.compressedBytes &&
    sizes.sizeBytes === entry.sizeBytes;
  if (!hasDescriptor && !agrees) throw contradicted(name);
  return { nameBytes, dataOffset, hasDescriptor, agrees };
}

/** Of what follows a great entry nothing is at hand: reading ahead from before it would be in vain. */
function aheadFor({ compressedBytes }: ZipEntry): number {
  return compressedBytes < AHEAD_BYTES / 4 ? AHEAD_BYTES : HEADER_BYTES;
}

/** The sizes of a local header, of 64 bits where it has such: the original one is the first (APPNOTE 6.3.10, section 4.5.3). */
export function sizesOf({
  compressedBytes,
  sizeBytes,
  extra,
}: Pick<LocalHeader, 'compressedBytes' | 'sizeBytes' | 'extra'>): {
  readonly compressedBytes: number;
  readonly sizeBytes: number;
} {
  if (compressedBytes !== IN_EXTRA && sizeBytes !== IN_EXTRA) return { compressedBytes, sizeBytes };
  const numbers = [...parseExtraFields(extra, 0, extra.length).wide];
  const realSize = sizeBytes === IN_EXTRA ? (numbers.shift() ?? sizeBytes) : sizeBytes;
  return {
    sizeBytes: realSize,
    compressedBytes: compressedBytes === IN_EXTRA ? (numbers.shift() ?? compressedBytes) : compressedBytes,
  };
}

/** With and without its signature, with sizes of 32 and of 64 bits (APPNOTE 6.3.10, section 4.3.9). */
const DESCRIPTOR_BYTES: ReadonlySet<number> = new Set([12, 16, 20, 24]);

/** The longest descriptor, and the signature of what follows it. */
export const DESCRIPTOR_AREA_BYTES = 28;

/** Signatures of what may follow an entry: the next one, or the directory (APPNOTE 6.3.10, sections 4.3.7 and 4.3.12). */
const NEXT_SIGNATURES: ReadonlySet<number> = new Set([0x04034b50, 0x02014b50]);

/**
 * The length of the descriptor behind a content, as the content and what follows tell; null where they do not.
 * @param bytes {@link DESCRIPTOR_AREA_BYTES} of what is behind the content
 */
export function descriptorBytes(bytes: Buffer, content: Content, header: LocalHeader): number | null {
  const found = [...DESCRIPTOR_BYTES].find(
    (length) => NEXT_SIGNATURES.has(bytes.readUInt32LE(length)) && isDescriptorOf(content, bytes, 0, length),
  );
  const isLeftOut = NEXT_SIGNATURES.has(bytes.readUInt32LE(0)) && isSameContent(header, content);
  return found ?? (isLeftOut ? 0 : null);
}

/** Whether two contents are the same, as far as their sizes and checksums tell. */
function isSameContent(one: Content, other: Content): boolean {
  return (
    one.crc32 === other.crc32 &&
    one.compressedBytes === other.compressedBytes &&
    one.sizeBytes === other.sizeBytes
  );
}

/**
 * How many bytes are between an entry's content and `end`: none, or those of its data descriptor.
 * @throws MirrorError `archive.damaged`
 */
function lengthBehind({ name, compressedBytes }: ZipEntry, local: LocalPlace, end: number): number {
  const length = end - local.dataOffset - compressedBytes;
  if (length === 0) {
    if (!local.agrees) throw contradicted(name);
  } else if (!local.hasDescriptor || !DESCRIPTOR_BYTES.has(length)) {
    throw damagedEntry(name, 'is followed by bytes that belong to no entry');
  }
  return length;
}

function isDescriptorOf(
  { crc32, compressedBytes, sizeBytes }: Content,
  bytes: Buffer,
  at: number,
  length: number,
): boolean {
  const hasSignature = length === 16 || length === 24;
  const start = hasSignature ? at + 4 : at;
  if (hasSignature && bytes.readUInt32LE(at) !== DESCRIPTOR_SIGNATURE) return false;
  const [compressed, size] =
    at + length - start === 12
      ? [bytes.readUInt32LE(start + 4), bytes.readUInt32LE(start + 8)]
      : [uint64(bytes, start + 4), uint64(bytes, start + 12)];
  return bytes.readUInt32LE(start) === crc32 && compressed === compressedBytes && size === sizeBytes;
}

function misplaced(name: string): Error {
  return damagedEntry(name, 'is not where the directory says');
}

function contradicted(name: string): Error {
  return damagedEntry(name, 'has another size or CRC-32 at its content than in the directory');
}
