import { readdirSync, rmSync } from 'node:fs';
import type { MessagePort } from 'node:worker_threads';

import { diskError } from '../../lib/errors/disk-errors.ts';
import { type ZipEntry, ZipEntryFault } from '../../lib/zip/directory.ts';
import { type Content, isSameContent, METHODS } from '../../lib/zip/entry-facts.ts';
import {
  DESCRIPTOR_AREA_BYTES,
  descriptorBytes,
  hasDescriptor,
  LOCAL_HEADER_BYTES,
  type LocalHeader,
  localHeaderBytes,
  parseLocalHeader,
} from '../../lib/zip/local-header.ts';
import { ZipFault } from '../../lib/zip/end-record.ts';
import { EntryFile, type EntryOutcome, type KnownFile, TOO_MUCH } from '../file-work/entry-file.ts';
import { dropFiles } from '../file-work/trees.ts';
import type { SkippedEntry } from '../store/manifest.ts';
import {
  type ArchiveLimits,
  damaged,
  damagedEntry,
  judgeEntry,
  maxNameBytes,
  misplaced,
  sizeRefusal,
} from './policy.ts';
import { Arrival, contradiction, KeptBytes, listEntries, OTHER_CONTENT, type Source } from './source.ts';

/** How an archive is unpacked. All paths are absolute. */
export interface UnpackOptions {
  /** A private, empty folder for its files. */
  readonly tree: string;
  /** The file for the bytes that are not unpacked while they arrive. */
  readonly keptPath: string;
  readonly limits: ArchiveLimits;
  /** Published files, which stay if the archive has the same. */
  readonly known: readonly KnownFile[];
  /** Brings the parts of the archive, each an {@link ArchivePart}; takes their memory back, and null for each progress of unpacking stored bytes. */
  readonly parts: MessagePort;
}

/** A file of an archive. */
export interface UnpackedEntry {
  /** The path in the archive, with slashes, under the entry policy. */
  readonly path: string;
  readonly sizeBytes: number;
  readonly crc32: number;
  /** Milliseconds since the epoch; a time without a zone counts as UTC. */
  readonly modifiedAtMs: number;
  readonly content: Extract<EntryOutcome, { kind: 'written' | 'same' }>;
}

/** An archive that was unpacked and found acceptable. */
export interface UnpackedArchive {
  /** In the order of the archive. The times of their files are not set. */
  readonly entries: readonly UnpackedEntry[];
  readonly skipped: readonly SkippedEntry[];
}

/**
 * Unpacks an archive into private files while it arrives, by the local headers in front of its entries. If an entry does not allow that,
 * the archive is stored in a file from there on. Nothing counts until the directory, which comes last, agrees with every
 * header: every byte before it must belong to exactly one entry. So nothing is read twice, as the worst zip bombs require,
 * and nothing is hidden from the directory.
 * @throws MirrorError `archive.damaged` if it is no whole zip archive or contradicts itself, `archive.refused` under the entry policy
 *   or the limits; Error of the disk; the reason of the signal
 */
async function unpackArchive(arrival: Arrival, options: UnpackOptions): Promise<UnpackedArchive> {
  const known: Known = new Map(options.known.map((file) => [file.path, file]));
  const arrived = new Map<number, TakenEntry>();
  try {
    await takeArriving(arrival, arrived, known, options);
    const onRead = (): void => options.parts.postMessage(null, []);
    const kept = new KeptBytes(options.keptPath, arrival.position, onRead, arrival.signal);
    try {
      for (let bytes = await arrival.atHand(1); bytes.length > 0; bytes = await arrival.atHand(1)) {
        kept.add(bytes);
        arrival.take(bytes.length);
      }
      return await takeListed(kept, arrived, known, options);
    } finally {
      kept.close();
    }
  } catch (error) {
    if (error instanceof ZipEntryFault)
      throw damagedEntry(error.entryName, `cannot be listed: ${error.message}`, error);
    throw error instanceof ZipFault ? damaged(error.message, error) : error;
  } finally {
    await Promise.allSettled([...arrived.values()].map(({ outcome }) => outcome));
  }
}

/** The known files by their paths. */
type Known = ReadonlyMap<string, KnownFile>;

/** An entry to unpack. */
interface ExpectedEntry {
  readonly header: LocalHeader;
  /** Null if the end of the deflated bytes must be found, and the descriptor gives the facts. */
  readonly expected: Content | null;
  /** Null if no file is made. */
  readonly path: string | null;
  readonly mostBytes: number;
}

/** An unpacked entry. */
interface TakenEntry {
  readonly header: LocalHeader;
  /** As the header or the directory claims it or, if only its end is known, as found. */
  readonly content: Content;
  /** Resolves when the end of the file is written. */
  readonly outcome: Promise<EntryOutcome>;
  /** The offset of its successor. */
  readonly endOffset: number;
}

/**
 * Unpacks the entries that allow it while they arrive. It ends before the first one that does not: its name is refused, its header
 * does not give its end, or it may exceed the limits, which the directory then gives exactly.
 * @param arrived receives them, by the offsets of their headers
 */
async function takeArriving(
  source: Arrival,
  arrived: Map<number, TakenEntry>,
  known: Known,
  options: UnpackOptions,
): Promise<void> {
  const { maxUnpackedBytes, maxEntries } = options.limits;
  let [leftBytes, leftNameBytes, leftSegments] = [maxUnpackedBytes, maxNameBytes(options.limits), maxEntries];
  for (let last: Promise<unknown> = Promise.resolve(); ;) {
    const header = await headerAt(source);
    const isStreamed = header !== null && hasDescriptor(header);
    if (header === null || (isStreamed && header.compressionMethod !== METHODS.deflated)) return;
    const expected = isStreamed ? null : header;
    const sizeBytes = expected?.sizeBytes ?? 0;
    // Only the directory has the mode.
    const verdict = judgeEntry({ ...header, unixMode: 0, sizeBytes });
    if (verdict.kind === 'refuse') return;
    leftBytes -= sizeBytes;
    leftNameBytes -= header.nameBytes.length;
    leftSegments -= verdict.path.split('/').length;
    if (Math.min(leftBytes, leftNameBytes, leftSegments) < 0) return;
    const path = verdict.kind === 'file' ? verdict.path : null;
    const mostBytes = expected?.sizeBytes ?? leftBytes;
    const headerOffset = source.position;
    source.take(header.dataOffset - headerOffset);
    const entry = { header, expected: await contentAhead(source, header), path, mostBytes };
    const taken = await takeEntry(source, entry, known, options);
    arrived.set(headerOffset, taken);
    if (isStreamed) leftBytes -= taken.content.sizeBytes;
    // At most two files are written at a time.
    await last;
    last = taken.outcome;
  }
}

/** The next content, if it is known before it is read; null otherwise. */
async function contentAhead(source: Source, header: LocalHeader): Promise<Content | null> {
  if (!hasDescriptor(header)) return header;
  // Some programs mark an empty file as deflated and give no bytes for it: its descriptor follows at once.
  const empty = { compressedBytes: 0, sizeBytes: 0, crc32: 0 };
  return (await descriptorFor(source, empty, header)) === null ? null : empty;
}

/** Compares the directory with the entries that arrived, and unpacks the stored ones. Files made of links and folders are removed. */
async function takeListed(
  kept: KeptBytes,
  arrived: ReadonlyMap<number, TakenEntry>,
  known: Known,
  options: UnpackOptions,
): Promise<UnpackedArchive> {
  const entries: UnpackedEntry[] = [];
  const skipped: SkippedEntry[] = [];
  const dropped: string[] = [];
  const lastTaken = [...arrived.values()].at(-1)?.header.name ?? null;
  for (const listed of listEntries(kept, options.limits, lastTaken)) {
    const { entry, verdict, next } = listed;
    const came = arrived.get(entry.headerOffset);
    const header = came?.header ?? (await keptHeader(kept, entry));
    const fault = contradiction(header, listed);
    if (fault !== null) throw damagedEntry(entry.name, fault);
    const path = verdict.kind === 'file' ? verdict.path : null;
    const expected = { header, expected: entry, path, mostBytes: entry.sizeBytes };
    const taken = came ?? (await takeEntry(kept, expected, known, options));
    if (!isSameContent(taken.content, entry)) throw damagedEntry(entry.name, OTHER_CONTENT);
    if (taken.endOffset !== next.offset)
      throw damagedEntry(entry.name, 'is followed by bytes that belong to no entry');
    const content = await taken.outcome;
    if (path !== null) {
      if (content.kind === 'fault') throw damagedEntry(entry.name, content.fault);
      const { sizeBytes, crc32, modifiedAtMs } = entry;
      entries.push({ path, sizeBytes, crc32, modifiedAtMs, content });
    } else if (content.kind === 'written') dropped.push(verdict.path);
    if (verdict.kind === 'skip') skipped.push({ path: verdict.path, reason: verdict.reason });
  }
  dropFiles(options.tree, dropped);
  return { entries, skipped };
}

/** The next local header; null if none follows. */
async function headerAt(source: Source): Promise<LocalHeader | null> {
  const headerBytes = localHeaderBytes(await source.atHand(LOCAL_HEADER_BYTES));
  if (headerBytes === null) return null;
  const bytes = await source.atHand(headerBytes);
  return bytes.length < headerBytes
    ? null
    : parseLocalHeader(bytes.subarray(0, headerBytes), source.position);
}

/** Goes to the content of the next stored entry. @throws MirrorError `archive.damaged` if its header is not there */
async function keptHeader(kept: KeptBytes, { name, headerOffset }: ZipEntry): Promise<LocalHeader> {
  const header = headerOffset === kept.position ? await headerAt(kept) : null;
  if (header === null) throw misplaced(name);
  kept.take(header.dataOffset - headerOffset);
  return header;
}

/**
 * Reads the next content, perhaps into a file, and the descriptor behind it.
 * @throws MirrorError `archive.damaged` if the archive ends in the content, or the descriptor contradicts it; as
 *   {@link unpackContent}; Error of the disk
 */
async function takeEntry(
  source: Source,
  entry: ExpectedEntry,
  knownFiles: Known,
  options: UnpackOptions,
): Promise<TakenEntry> {
  const { header } = entry;
  const taken = await unpackContent(source, entry, knownFiles, options);
  if (hasDescriptor(header)) {
    const lengthBytes = await descriptorFor(source, taken.content, header);
    if (lengthBytes === null) throw damagedEntry(header.name, OTHER_CONTENT);
    source.take(lengthBytes);
  }
  return { ...taken, header, endOffset: source.position };
}

/** The length of the next bytes if they are the descriptor of a content; null if they are not. */
async function descriptorFor(source: Source, content: Content, header: LocalHeader): Promise<number | null> {
  return descriptorBytes(await source.atHand(DESCRIPTOR_AREA_BYTES), content, header);
}

/**
 * Unpacks the next content into a file, or skips it if a known file has its size and checksum.
 * @throws MirrorError if a content without a known length is wrong: then the start of the next entry is unknown
 */
async function unpackContent(
  source: Source,
  { header, expected, path, mostBytes }: ExpectedEntry,
  knownFiles: Known,
  { tree, limits }: UnpackOptions,
): Promise<Pick<TakenEntry, 'content' | 'outcome'>> {
  const { name, compressionMethod } = header;
  const known = path === null ? null : knownFile(knownFiles, path);
  if (expected !== null && isProven(known, expected)) {
    await takeContent(source, header, expected.compressedBytes, null);
    const same = { kind: 'same', by: 'crc32', as: known.path } as const;
    return { content: expected, outcome: Promise.resolve(same) };
  }
  const isDeflated = compressionMethod === METHODS.deflated && expected?.compressedBytes !== 0;
  const file = new EntryFile({
    place: path === null ? null : `${tree}/${path}`,
    isDeflated,
    known,
    mostBytes,
  });
  try {
    await takeContent(source, header, expected?.compressedBytes ?? Infinity, file);
    if (expected === null && file.fault === TOO_MUCH)
      throw sizeRefusal(name, 'makes the files too large together', limits);
    if (expected === null && file.fault !== null) throw damagedEntry(name, file.fault);
    const outcome = file.end(expected);
    // A failure is handled where the result is awaited.
    outcome.catch(() => {});
    const { compressedBytes, sizeBytes, crc32 } = file;
    return { content: expected ?? { compressedBytes, sizeBytes, crc32 }, outcome };
  } finally {
    await file.close();
  }
}

/** Whether a content need not be read, as a known file has its size and checksum. */
function isProven(known: KnownFile | null, { sizeBytes, crc32 }: Content): known is KnownFile {
  return known?.sizeBytes === sizeBytes && known.crc32 === crc32;
}

/**
 * Reads the next content into a file, as far as the file takes it.
 * @param compressedBytes its length; infinite if the deflated bytes show their end
 * @throws MirrorError `archive.damaged` if the archive ends in it
 */
async function takeContent(
  source: Source,
  { name }: LocalHeader,
  compressedBytes: number,
  file: EntryFile | null,
): Promise<void> {
  let fed = file;
  for (let leftBytes = compressedBytes; leftBytes > 0;) {
    const piece = (await source.atHand(1)).subarray(0, leftBytes);
    if (piece.length === 0) throw damagedEntry(name, 'is cut off: the archive ends in its content');
    const usedBytes = fed === null ? piece.length : await fed.write(piece, piece.length === leftBytes);
    source.take(usedBytes);
    leftBytes -= usedBytes;
    if (usedBytes < piece.length || (fed !== null && fed.fault !== null)) {
      if (leftBytes === Infinity) return;
      fed = null;
    }
  }
}

/**
 * Finds the known file for an entry's path, with or without the archive's leading folder: which of the two is right is known, and
 * checked, when all names are known.
 */
function knownFile(known: Known, path: string): KnownFile | null {
  return known.get(path) ?? known.get(path.slice(path.indexOf('/') + 1)) ?? null;
}

/**
 * Receives an archive, and unpacks it. Files from an earlier try are removed.
 * @throws MirrorError `archive.damaged`, `archive.refused`, `disk.*`; Error if it is abandoned
 */
export async function receiveArchive(options: UnpackOptions): Promise<UnpackedArchive> {
  const { tree, parts } = options;
  try {
    const arrival = new Arrival(parts);
    for (const name of readdirSync(tree)) rmSync(`${tree}/${name}`, { recursive: true, force: true });
    return await unpackArchive(arrival, options);
  } catch (error) {
    throw diskError(error, 'unpacking the archive', tree);
  } finally {
    parts.close();
  }
}
