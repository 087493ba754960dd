import { METHODS } from '../../lib/zip/directory.ts';
import {
  type Content,
  DESCRIPTOR_AREA_BYTES,
  DESCRIPTOR_FLAG,
  descriptorBytes,
  LOCAL_HEADER_BYTES,
  type LocalHeader,
  localHeaderBytes,
  parseLocalHeader,
} from '../../lib/zip/local-header.ts';
import { EntryFile, type EntryOutcome, type KnownContent, TOO_MUCH } from '../file-work/entry-file.ts';
import { type ArchiveLimits, damagedEntry, OTHER_CONTENT, refuse, sizeRefusal } from './policy.ts';
import type { Source } from './source.ts';

/** A file of an archive, as far as it is known before the archive comes. */
export interface KnownFile {
  readonly path: string;
  /** The time that it is to have, in milliseconds since the epoch; null where the archive has it. */
  readonly timeMs: number | null;
  /** The content of the published file, which may stay where it is the same; null for none. */
  readonly content: KnownContent | null;
}

/** How an archive is unpacked. All paths are absolute. */
export interface UnpackOptions {
  /** The folder that its files are made in, private and empty. */
  readonly tree: string;
  /** Where the bytes are kept that are not unpacked on their way. */
  readonly keptPath: string;
  readonly limits: ArchiveLimits;
  /** Whether large files are written past the page cache. */
  readonly isPastCache: boolean;
  readonly known: readonly KnownFile[];
  /** Receives in its one element how many of the kept bytes are unpacked; shared with the thread. */
  readonly progress: Progress;
}

export type Progress = Float64Array<SharedArrayBuffer>;

/** The known files of an archive by their paths. */
export type Known = ReadonlyMap<string, KnownFile>;

/** The content of an entry, and what became of it. */
interface TakenContent {
  /** As the header or the directory claims it, or, where its end alone tells, as it was found. */
  readonly content: Content;
  /** Promised while the end of the file is written. */
  readonly outcome: Promise<EntryOutcome>;
}

/** An entry that was read. */
export interface TakenEntry extends TakenContent {
  readonly header: LocalHeader;
  /** Where what follows it starts. */
  readonly endOffset: number;
  readonly known: KnownFile | null;
}

/** The local header that comes next; null where none does. */
export async function headerAt(source: Source): Promise<LocalHeader | null> {
  const headerBytes = localHeaderBytes(await source.atHand(LOCAL_HEADER_BYTES));
  if (headerBytes === null) return null;
  const bytes = await source.atHand(headerBytes);
  return bytes.length < headerBytes
    ? null
    : parseLocalHeader(bytes.subarray(0, headerBytes), source.position);
}

export function hasDescriptor({ flags }: LocalHeader): boolean {
  return (flags & DESCRIPTOR_FLAG) !== 0;
}

/** An entry that is to be read. */
export interface ExpectedEntry {
  readonly header: LocalHeader;
  /** Null where the end of the deflated bytes shows where it ends, and its descriptor what it is. */
  readonly expected: Content | null;
  /** Null where no file is to be made. */
  readonly path: string | null;
  readonly mostBytes: number;
}

/**
 * Takes the content that comes next, which may be unpacked into a file, and the descriptor behind it.
 * @throws MirrorError `archive.damaged` where the archive ends in the content, or the descriptor is not as the content is; as {@link checkStreamed}; Error of the disk
 */
export async function takeEntry(
  source: Source,
  entry: ExpectedEntry,
  knownFiles: Known,
  options: UnpackOptions,
): Promise<TakenEntry> {
  const { header, expected, path } = entry;
  const known = path === null ? null : knownFile(knownFiles, path);
  const isNeeded = path !== null && !(expected !== null && isAsKnown(expected, known));
  const taken =
    expected === null || isNeeded
      ? await unpackContent(source, entry, known, options)
      : (await skip(source, expected.compressedBytes))
        ? { content: expected, outcome: Promise.resolve(path === null ? NONE : SAME) }
        : null;
  if (taken === null) throw damagedEntry(header.name, 'is cut off: the archive ends in its content');
  if (hasDescriptor(header)) {
    const bytes = await source.atHand(DESCRIPTOR_AREA_BYTES);
    const lengthBytes = descriptorBytes(bytes, taken.content, header.content);
    if (lengthBytes === null) throw damagedEntry(header.name, OTHER_CONTENT);
    source.take(lengthBytes);
  }
  return { ...taken, header, known, endOffset: source.position };
}

const NONE: EntryOutcome = { kind: 'none' };
const SAME: EntryOutcome = { kind: 'same', by: 'crc32' };

/** Whether a content is that of a known file, as its size and its checksum prove. */
function isAsKnown({ sizeBytes, crc32 }: Content, known: KnownFile | null): boolean {
  return known?.content?.sizeBytes === sizeBytes && known.content.crc32 === crc32;
}

/** @throws MirrorError where a content is wrong that shows its end: nothing tells where the next entry begins */
function checkStreamed({ name }: LocalHeader, { fault }: EntryFile, limits: ArchiveLimits): void {
  if (fault === TOO_MUCH) refuse(sizeRefusal(name, 'makes the files too large together', limits));
  if (fault !== null) throw damagedEntry(name, fault);
}

/** Unpacks the content that comes next into a file. @returns null where the archive ends in it */
async function unpackContent(
  source: Source,
  { header, expected, path, mostBytes }: ExpectedEntry,
  known: KnownFile | null,
  { tree, isPastCache, limits }: UnpackOptions,
): Promise<TakenContent | null> {
  const file = new EntryFile({
    place: path === null ? null : `${tree}/${path}`,
    // Some programs call an empty file deflated and give no bytes for it.
    isDeflated: header.compressionMethod === METHODS.deflated && expected?.compressedBytes !== 0,
    isPastCache,
    known: known?.content ?? null,
    mostBytes,
    timeMs: known?.timeMs ?? header.modifiedAtMs,
  });
  try {
    if (!(await fill(file, source, expected?.compressedBytes ?? Infinity))) return null;
    if (expected === null) checkStreamed(header, file, limits);
    const outcome = file.end(expected);
    // A failure is met where it is waited for.
    outcome.catch(() => {});
    const { compressedBytes, sizeBytes, crc32 } = file;
    return { content: expected ?? { compressedBytes, sizeBytes, crc32 }, outcome };
  } finally {
    await file.close();
  }
}

/**
 * Fills a file with the content that comes next.
 * @param compressedBytes its length; infinite where the deflated bytes show their end
 * @returns false where the archive ends in it
 */
async function fill(file: EntryFile, source: Source, compressedBytes: number): Promise<boolean> {
  let leftBytes = compressedBytes;
  while (leftBytes > 0 && file.fault === null) {
    const bytes = await source.atHand(1);
    if (bytes.length === 0) return false;
    const piece = bytes.subarray(0, leftBytes);
    const usedBytes = await file.write(piece, piece.length === leftBytes);
    source.take(usedBytes);
    leftBytes -= usedBytes;
    if (usedBytes < piece.length) break;
  }
  return leftBytes === Infinity || (await skip(source, leftBytes));
}

/** Moves on. @returns false where the archive ends before */
async function skip(source: Source, lengthBytes: number): Promise<boolean> {
  for (let leftBytes = lengthBytes; leftBytes > 0;) {
    const bytes = await source.atHand(1);
    if (bytes.length === 0) return false;
    const partBytes = Math.min(leftBytes, bytes.length);
    source.take(partBytes);
    leftBytes -= partBytes;
  }
  return true;
}

/**
 * Finds the known file of an entry's path, with the archive's leading folder or without: which of the two is right is known when all
 * names are, and checked then.
 */
function knownFile(known: Known, path: string): KnownFile | null {
  return known.get(path) ?? known.get(path.slice(path.indexOf('/') + 1)) ?? null;
}
