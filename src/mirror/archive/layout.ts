import { parseExtraFields } from 'yauzl';

import { type DirectoryPlace, uint64 } from './end-record.ts';
import { ENCRYPTION_FLAGS } from './entry-policy.ts';
import type { ListedEntry } from './listing.ts';
import { FileWindow } from './reader.ts';
import { damaged, damagedEntry, entryRefusal, quoted, type Refusals } from './refusals.ts';

/** An entry and where its content starts. */
export interface PlacedEntry {
  readonly entry: ListedEntry;
  readonly dataOffset: number;
}

/** Enough for many small entries at once. */
const AHEAD_BYTES = 256 * 1024;
/** Enough for one local header: of what follows a great entry nothing is at hand. */
const HEADER_BYTES = 1024;
/** The fixed part of a local header (APPNOTE 6.3.10, section 4.3.7). */
const LOCAL_BYTES = 30;
const LOCAL_SIGNATURE = 0x04034b50;
const DESCRIPTOR_SIGNATURE = 0x08074b50;
/** Bit 3: CRC and sizes follow the content in a data descriptor (APPNOTE 6.3.10, section 4.4.4). */
const DESCRIPTOR_FLAG = 0x8;
const ZIP64_EXTRA = 0x0001;
/** Stands for a number that is in the zip64 extra field (APPNOTE 6.3.10, section 4.5.3). */
const IN_ZIP64 = 0xffffffff;

/**
 * Reads the local headers in the order of the file and holds them against the directory. Every byte before the directory
 * must belong to one entry, and to one only: then nothing is read twice, which the worst zip bombs live on, and nothing is
 * hidden from the directory.
 * @param fileBytes the size of the archive
 * @returns the entries in the order of the file
 * @throws MirrorError `archive.damaged`; what overlaps or has another name at its content is collected instead
 */
export async function locate(
  fd: number,
  fileBytes: number,
  entries: readonly ListedEntry[],
  directory: Pick<DirectoryPlace, 'offset'>,
  refusals: Refusals,
): Promise<PlacedEntry[]> {
  const window = new FileWindow(fd, AHEAD_BYTES);
  const sorted = [...entries].sort((a, b) => a.headerOffset - b.headerOffset);
  const start = sorted[0]?.headerOffset ?? directory.offset;
  if (start > 0) throw damaged('The archive does not start with an entry: something is before it.');
  const last = sorted.at(-1);
  if (last !== undefined && last.headerOffset >= directory.offset) throw misplaced(last.name);
  const placed: PlacedEntry[] = [];
  for (const [index, entry] of sorted.entries()) {
    const local = await readLocal(window, entry, fileBytes);
    const next = sorted[index + 1];
    const end = Math.min(next?.headerOffset ?? directory.offset, directory.offset);
    placed.push({ entry, dataOffset: local.dataOffset });
    if (local.nameBytes !== entry.nameBytes) {
      const other = quoted(Buffer.from(local.nameBytes, 'latin1').toString('utf8'));
      refusals.add(entryRefusal(entry.name, `has another name, ${other}, at its content`));
    } else if (local.dataOffset + entry.compressedBytes > end) {
      const what = next === undefined ? "the archive's directory" : quoted(next.name);
      refusals.add(entryRefusal(entry.name, `overlaps ${what}`));
    } else {
      await checkBehind(window, entry, local, end);
    }
  }
  return placed;
}

/** What stands in front of an entry's content. */
interface LocalHeader {
  readonly nameBytes: string;
  readonly dataOffset: number;
  readonly hasDescriptor: boolean;
  /** Whether its CRC and sizes are those of the directory. */
  readonly agrees: boolean;
}

async function readLocal(window: FileWindow, entry: ListedEntry, fileBytes: number): Promise<LocalHeader> {
  const { headerOffset, name } = entry;
  window.aheadBytes = entry.compressedBytes < AHEAD_BYTES / 4 ? AHEAD_BYTES : HEADER_BYTES;
  const isWithin = headerOffset + LOCAL_BYTES <= fileBytes;
  const header = isWithin ? Buffer.from(await window.view(headerOffset, LOCAL_BYTES)) : null;
  if (header?.readUInt32LE(0) !== LOCAL_SIGNATURE) throw misplaced(name);
  const nameBytes = header.readUInt16LE(26);
  const extraBytes = header.readUInt16LE(28);
  const dataOffset = headerOffset + LOCAL_BYTES + nameBytes + extraBytes;
  if (dataOffset + entry.compressedBytes > fileBytes)
    throw damagedEntry(name, 'goes on behind the end of the archive');
  const rest = await window.view(headerOffset + LOCAL_BYTES, nameBytes + extraBytes);
  const flags = header.readUInt16LE(6);
  if (header.readUInt16LE(8) !== entry.compressionMethod || (flags & ENCRYPTION_FLAGS) !== 0) {
    throw damagedEntry(name, 'is packed in another way than the directory says');
  }
  const hasDescriptor = ((flags | entry.flags) & DESCRIPTOR_FLAG) !== 0;
  const agrees = isAgreed(header, rest.subarray(nameBytes), entry);
  if (!hasDescriptor && !agrees) throw contradicted(name);
  return { nameBytes: rest.toString('latin1', 0, nameBytes), dataOffset, hasDescriptor, agrees };
}

function isAgreed(header: Buffer, extra: Buffer, { crc, compressedBytes, sizeBytes }: ListedEntry): boolean {
  const compressed = header.readUInt32LE(18);
  const size = header.readUInt32LE(22);
  const sizes =
    compressed === IN_ZIP64 || size === IN_ZIP64 ? zip64Sizes(extra, compressed, size) : { compressed, size };
  return header.readUInt32LE(14) === crc && sizes.compressed === compressedBytes && sizes.size === sizeBytes;
}

/** The sizes of a local header under zip64: the original one is the first (APPNOTE 6.3.10, section 4.5.3). */
function zip64Sizes(extra: Buffer, compressed: number, size: number): { compressed: number; size: number } {
  const field = parseExtraFields(extra).find(({ id }) => id === ZIP64_EXTRA)?.data ?? Buffer.alloc(0);
  const numbers = Array.from({ length: Math.floor(field.length / 8) }, (_, index) =>
    uint64(field, index * 8),
  );
  const realSize = size === IN_ZIP64 ? (numbers.shift() ?? size) : size;
  return {
    size: realSize,
    compressed: compressed === IN_ZIP64 ? (numbers.shift() ?? compressed) : compressed,
  };
}

/** With and without its signature, with sizes of 32 and of 64 bits (APPNOTE 6.3.10, section 4.3.9). */
const DESCRIPTOR_BYTES: ReadonlySet<number> = new Set([12, 16, 20, 24]);

/** Checks that behind an entry's content there is its data descriptor, if it has one, and nothing else. */
async function checkBehind(
  window: FileWindow,
  entry: ListedEntry,
  local: LocalHeader,
  end: number,
): Promise<void> {
  const dataEnd = local.dataOffset + entry.compressedBytes;
  const behindBytes = end - dataEnd;
  if (behindBytes === 0) {
    if (!local.agrees) throw contradicted(entry.name);
    return;
  }
  if (!local.hasDescriptor || !DESCRIPTOR_BYTES.has(behindBytes)) {
    throw damagedEntry(entry.name, 'is followed by bytes that belong to no entry');
  }
  if (!isDescriptorOf(entry, await window.view(dataEnd, behindBytes))) throw contradicted(entry.name);
}

function isDescriptorOf({ crc, compressedBytes, sizeBytes }: ListedEntry, bytes: Buffer): boolean {
  const hasSignature = bytes.length === 16 || bytes.length === 24;
  const start = hasSignature ? 4 : 0;
  if (hasSignature && bytes.readUInt32LE(0) !== DESCRIPTOR_SIGNATURE) return false;
  const [compressed, size] =
    bytes.length - start === 12
      ? [bytes.readUInt32LE(start + 4), bytes.readUInt32LE(start + 8)]
      : [uint64(bytes, start + 4), uint64(bytes, start + 12)];
  return bytes.readUInt32LE(start) === crc && compressed === compressedBytes && size === sizeBytes;
}

function misplaced(name: string): Error {
  return damagedEntry(name, 'is not where the directory says');
}

function contradicted(name: string): Error {
  return damagedEntry(name, 'has another size or CRC-32 at its content than in the directory');
}
