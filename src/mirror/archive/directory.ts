import { callError } from '../../lib/errors/disk-errors.ts';
import { ENCRYPTION_FLAGS, entriesOf, type ZipEntry, ZipEntryFault } from '../../lib/zip/directory.ts';
import { type DirectoryPlace, readEnd } from '../../lib/zip/end-record.ts';
import { parseExtraFields, uint64 } from '../../lib/zip/extra-fields.ts';
import { IN_EXTRA, type LocalHeader, readLocalHeader } from '../../lib/zip/local-header.ts';
import { type ZipBytes, ZipFault } from '../../lib/zip/zip-bytes.ts';
import type { Content } from '../file-work/entry-file.ts';
import {
  type ArchiveLimits,
  countRefusal,
  damaged,
  damagedEntry,
  entryRefusal,
  type EntryVerdict,
  judgeEntry,
  maxNameBytes,
  quoted,
  Refusals,
  refusalsTogether,
  sizeRefusal,
} from './policy.ts';

/** The header of an entry that came, with the sizes and the checksum of what came behind it, and without extra fields. */
export interface ArrivedHeader extends LocalHeader {
  /** The length of the descriptor, which says what the content is; 0 for none. */
  readonly descriptorBytes: number;
}

/** An entry that the policy took. */
interface ListedEntry {
  readonly entry: ZipEntry;
  readonly verdict: Exclude<EntryVerdict, { kind: 'refuse' }>;
}

/** An entry and where its content starts. */
export interface PlacedEntry extends ListedEntry {
  readonly dataOffset: number;
}

/**
 * Reads the directory of an archive, and judges all of its entries.
 * @param bytes those that were kept
 * @param arrived the entries before them, by where their headers lie
 * @returns the entries in the order of the archive
 * @throws MirrorError `archive.damaged` when it is no whole zip archive, `archive.refused` under the entry policy or the
 *   limits, `disk.*`
 */
export async function examine(
  bytes: ZipBytes,
  limits: ArchiveLimits,
  arrived: ReadonlyMap<number, ArrivedHeader>,
): Promise<readonly PlacedEntry[]> {
  try {
    const end = await readEnd(bytes);
    const refusals = new Refusals();
    if (end.isMultiDisk) refusals.add({ message: 'The archive is one part of several.' });
    else if (end.entryCount > limits.maxEntries)
      refusals.add(countRefusal(`has ${end.entryCount} entries`, limits));
    refusals.throwIfAny();
    const entries = await listEntries(bytes, end, limits, refusals);
    for (const refusal of refusalsTogether(verdictsOf(entries), limits)) refusals.add(refusal);
    refusals.throwIfAny();
    const placed = await locate(bytes, entries, end.offset, arrived, refusals);
    refusals.throwIfAny();
    return placed;
  } catch (error) {
    if (error instanceof ZipEntryFault)
      throw damagedEntry(error.entryName, `cannot be listed: ${error.message}`, error);
    if (error instanceof ZipFault) throw damaged(error.message, error);
    throw callError(error, 'reading the downloaded archive');
  }
}

function* verdictsOf(entries: readonly ListedEntry[]): Generator<ListedEntry['verdict']> {
  for (const { verdict } of entries) yield verdict;
}

/**
 * Lists the central directory and judges each entry alone.
 * @param refusals collects what is refused
 * @throws ZipFault; Error where the archive cannot be read
 */
async function listEntries(
  bytes: ZipBytes,
  end: DirectoryPlace,
  limits: ArchiveLimits,
  refusals: Refusals,
): Promise<readonly ListedEntry[]> {
  const entries: ListedEntry[] = [];
  let greatest: Pick<ZipEntry, 'name' | 'sizeBytes'> = { name: '', sizeBytes: -1 };
  let totalBytes = 0;
  let nameBytes = 0;
  for await (const listed of entriesOf(bytes, end)) {
    for (const entry of listed) {
      totalBytes += entry.sizeBytes;
      nameBytes += entry.nameBytes.length;
      if (entry.sizeBytes > greatest.sizeBytes) greatest = entry;
      const verdict = judgeEntry(entry);
      if (verdict.kind === 'refuse') refusals.add(entryRefusal(entry.name, verdict.fault));
      else if (nameBytes <= maxNameBytes(limits)) entries.push({ entry, verdict });
    }
  }
  if (nameBytes > maxNameBytes(limits))
    refusals.add({ message: 'The names of the entries of the archive have too many bytes together.' });
  if (totalBytes > limits.maxUnpackedBytes) refusals.add(sizeRefusal(totalBytes, greatest, limits));
  return entries;
}

/** Enough for many small entries at once. */
const AHEAD_BYTES = 256 * 1024;
/** Enough for one local header: of what follows a great entry nothing is at hand. */
const HEADER_BYTES = 1024;

/**
 * Reads the local headers in the order of the file and holds them against the directory. Every byte before the directory
 * must belong to one entry, and to one only: then nothing is read twice, which the worst zip bombs live on, and nothing is
 * hidden from the directory.
 * @param arrived by where their headers lie: the entries that are not in the bytes
 * @returns the entries in the order of the file
 * @throws MirrorError `archive.damaged`; what overlaps or has another name at its content is collected instead
 */
async function locate(
  bytes: ZipBytes,
  entries: readonly ListedEntry[],
  directoryOffset: number,
  arrived: ReadonlyMap<number, ArrivedHeader>,
  refusals: Refusals,
): Promise<readonly PlacedEntry[]> {
  const sorted = inOrder(entries, directoryOffset);
  const placed: PlacedEntry[] = [];
  for (const [index, { entry, verdict }] of sorted.entries()) {
    const next = sorted[index + 1]?.entry;
    const came = arrived.get(entry.headerOffset) ?? null;
    const found = came ?? readLocalHeader(bytes, entry.headerOffset, aheadFor(entry));
    const header = found instanceof Promise ? await found : found;
    if (header === null) throw misplaced(entry.name);
    checkHeader(entry, header, bytes.sizeBytes);
    placed.push({ entry, verdict, dataOffset: header.dataOffset });
    const behindAt = header.dataOffset + entry.compressedBytes;
    const behindBytes = (next?.headerOffset ?? directoryOffset) - behindAt;
    if (header.nameBytes !== entry.nameBytes) {
      const other = quoted(Buffer.from(header.nameBytes, 'latin1').toString('utf8'));
      refusals.add(entryRefusal(entry.name, `has another name, ${other}, at its content`));
    } else if (behindBytes < 0) {
      const what = next === undefined ? "the archive's directory" : quoted(next.name);
      refusals.add(entryRefusal(entry.name, `overlaps ${what}`));
    } else {
      checkBehind(entry, header, behindBytes, came);
      if (came !== null || behindBytes === 0) continue;
      const at = await bytes.find(behindAt, behindBytes, aheadFor(entry));
      if (!isDescriptorOf(entry, bytes.atHand, at, behindBytes)) throw contradicted(entry.name);
    }
  }
  return placed;
}

/**
 * Checks the number of bytes between the content of an entry and what follows: none, or those of a descriptor.
 * @throws MirrorError `archive.damaged` where it is another, or the content is not as the directory says
 */
function checkBehind(
  entry: ZipEntry,
  header: LocalHeader,
  behindBytes: number,
  came: ArrivedHeader | null,
): void {
  const mayBe = behindBytes === 0 || (hasDescriptor(entry, header) && DESCRIPTOR_BYTES.has(behindBytes));
  if (!mayBe) throw damagedEntry(entry.name, 'is followed by bytes that belong to no entry');
  const isOther = came !== null && behindBytes !== came.descriptorBytes;
  const isRead = came === null && behindBytes > 0;
  if (isOther || (!isRead && !isSameContent(contentOf(header), entry))) throw contradicted(entry.name);
}

/** The entries in the order of the file. @throws MirrorError `archive.damaged` unless they start it, and lie before the directory */
function inOrder(entries: readonly ListedEntry[], directoryOffset: number): readonly ListedEntry[] {
  const sorted = [...entries].sort((a, b) => a.entry.headerOffset - b.entry.headerOffset);
  const start = sorted[0]?.entry.headerOffset ?? directoryOffset;
  if (start > 0) throw damaged('The archive does not start with an entry: something is before it.');
  const last = sorted.at(-1)?.entry;
  if (last !== undefined && last.headerOffset >= directoryOffset) throw misplaced(last.name);
  return sorted;
}

/** @throws MirrorError `archive.damaged` where a local header contradicts the directory */
function checkHeader(entry: ZipEntry, header: LocalHeader, archiveBytes: number): void {
  const { name } = entry;
  if (header.dataOffset + entry.compressedBytes > archiveBytes)
    throw damagedEntry(name, 'goes on behind the end of the archive');
  if (header.compressionMethod !== entry.compressionMethod || (header.flags & ENCRYPTION_FLAGS) !== 0)
    throw damagedEntry(name, 'is packed in another way than the directory says');
  if (!hasDescriptor(entry, header) && !isSameContent(contentOf(header), entry)) throw contradicted(name);
}

function hasDescriptor(entry: ZipEntry, header: LocalHeader): boolean {
  return ((header.flags | entry.flags) & DESCRIPTOR_FLAG) !== 0;
}

/** The next header lies behind a large entry: to read ahead would bring nothing but its content. */
function aheadFor({ compressedBytes }: ZipEntry): number {
  return compressedBytes < AHEAD_BYTES / 4 ? AHEAD_BYTES : HEADER_BYTES;
}

/**
 * The content that a local header claims, with sizes of 64 bits where it has such: the original one is the first (APPNOTE 6.3.10,
 * section 4.5.3).
 * @throws ZipFault
 */
export function contentOf({ crc32, compressedBytes, sizeBytes, extra }: LocalHeader): Content {
  if (compressedBytes !== IN_EXTRA && sizeBytes !== IN_EXTRA) return { crc32, compressedBytes, sizeBytes };
  const numbers = [...parseExtraFields(extra, 0, extra.length).wide];
  const realSize = sizeBytes === IN_EXTRA ? (numbers.shift() ?? sizeBytes) : sizeBytes;
  const packed = compressedBytes === IN_EXTRA ? (numbers.shift() ?? compressedBytes) : compressedBytes;
  return { crc32, compressedBytes: packed, sizeBytes: realSize };
}

/** Bit 3: CRC and sizes follow the content in a data descriptor (APPNOTE 6.3.10, section 4.4.4). */
export const DESCRIPTOR_FLAG = 0x8;
const DESCRIPTOR_SIGNATURE = 0x08074b50;

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
