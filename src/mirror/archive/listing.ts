import { type Entry, fromRandomAccessReaderPromise, getFileNameLowLevel } from 'yauzl';

import { type EntryVerdict, judgeEntry } from './entry-policy.ts';
import type { DirectoryPlace } from './end-record.ts';
import { type ArchiveLimits, maxNameBytes, sizeRefusal } from './limits.ts';
import { DirectoryReader, readExactly } from './reader.ts';
import { damaged, damagedEntry, entryRefusal, Refusals } from './refusals.ts';

/** An entry of the central directory that the policy took: only what is needed, as there may be a million. */
export interface ListedEntry {
  readonly verdict: Exclude<EntryVerdict, { kind: 'refuse' }>;
  /** For messages, decoded. */
  readonly name: string;
  /** The bytes of the name, a character for each. */
  readonly nameBytes: string;
  readonly flags: number;
  readonly compressionMethod: number;
  readonly crc: number;
  readonly compressedBytes: number;
  readonly sizeBytes: number;
  readonly headerOffset: number;
  /** Milliseconds since the epoch. */
  readonly modifiedAtMs: number;
}

/** What an archive's directory holds. */
export interface Listing {
  readonly entries: readonly ListedEntry[];
  readonly refusals: Refusals;
}

/**
 * Lists the central directory and judges each entry by itself; what is refused is collected, not thrown.
 * @throws MirrorError `archive.damaged`, and `archive.refused` for strong encryption, which ends the listing
 */
export async function list(
  fd: number,
  fileBytes: number,
  place: DirectoryPlace,
  limits: ArchiveLimits,
): Promise<Listing> {
  const zip = await fromRandomAccessReaderPromise(new DirectoryReader(fd), fileBytes, {
    autoClose: false,
    decodeStrings: false,
    validateEntrySizes: false,
  });
  const listing = new Collector(limits);
  let position = place.offset;
  try {
    for await (const entry of zip.eachEntry()) {
      position += headerBytes(entry);
      if (position > place.end) throw damaged("The archive's directory goes on behind its end.");
      listing.add(entry);
    }
  } catch (error) {
    await explain(error, fd, position, place.end, listing.refusals);
  }
  if (position !== place.end) {
    throw damaged(
      `The archive's directory holds more than the ${place.entryCount} entries that are counted.`,
    );
  }
  listing.judgeSizes(fileBytes);
  return listing;
}

class Collector implements Listing {
  readonly entries: ListedEntry[] = [];
  readonly refusals = new Refusals();
  private readonly limits: ArchiveLimits;
  private greatest = { name: '', sizeBytes: -1 };
  private totalBytes = 0;
  private nameBytes = 0;

  constructor(limits: ArchiveLimits) {
    this.limits = limits;
  }

  add(entry: Entry): void {
    const { name, isDecodable } = decodeName(entry);
    this.totalBytes += entry.uncompressedSize;
    if (entry.uncompressedSize > this.greatest.sizeBytes) {
      this.greatest = { name, sizeBytes: entry.uncompressedSize };
    }
    const verdict = judgeEntry({
      name,
      isDecodable,
      unixMode: entry.externalFileAttributes >>> 16,
      flags: entry.generalPurposeBitFlag,
      compressionMethod: entry.compressionMethod,
      sizeBytes: entry.uncompressedSize,
    });
    if (verdict.kind === 'refuse') {
      this.refusals.add(entryRefusal(name, verdict.fault));
      return;
    }
    this.nameBytes += entry.fileNameLength;
    if (this.nameBytes <= maxNameBytes(this.limits)) this.entries.push(listed(entry, name, verdict));
    else if (this.nameBytes - entry.fileNameLength <= maxNameBytes(this.limits)) {
      this.refusals.add(entryRefusal(name, 'and those before it have too many bytes of names together'));
    }
  }

  judgeSizes(fileBytes: number): void {
    const { totalBytes, greatest } = this;
    const refusal = sizeRefusal({ totalBytes, greatest }, fileBytes, this.limits);
    if (refusal !== null) this.refusals.add(refusal);
  }
}

function listed(entry: Entry, name: string, verdict: ListedEntry['verdict']): ListedEntry {
  const nameBytes = entry.fileNameRaw.toString('latin1');
  return {
    verdict,
    name,
    // One text in memory instead of two, for the names that have but ASCII.
    nameBytes: nameBytes === name ? name : nameBytes,
    flags: entry.generalPurposeBitFlag,
    compressionMethod: entry.compressionMethod,
    crc: entry.crc32,
    compressedBytes: entry.compressedSize,
    sizeBytes: entry.uncompressedSize,
    headerOffset: entry.relativeOffsetOfLocalHeader,
    modifiedAtMs: modifiedAtMs(entry),
  };
}

/** The fixed part of an entry of the directory (APPNOTE 6.3.10, section 4.3.12). */
const FIXED_BYTES = 46;

function headerBytes(entry: Entry): number {
  return FIXED_BYTES + entry.fileNameLength + entry.extraFieldLength + entry.fileCommentLength;
}

/** The last second that every file system can keep, and the first. */
const TIME_LIMIT_MS = (2 ** 31 - 1) * 1000;

/** A time that a file system would change would look as if somebody had changed the file. */
function modifiedAtMs(entry: Entry): number {
  const timeMs = entry.getLastModDate({ timezone: 'UTC' }).getTime();
  if (timeMs >= 0 && timeMs <= TIME_LIMIT_MS) return timeMs;
  const dosTimeMs = entry.getLastModDate({ timezone: 'UTC', forceDosFormat: true }).getTime();
  return Math.min(Math.max(0, dosTimeMs), TIME_LIMIT_MS);
}

const UTF8_FLAG = 0x800;

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Decodes a name: UTF-8 where the archive says so and where the bytes are UTF-8 all the same, as many programs leave the
 * flag out; otherwise code page 437 (APPNOTE 6.3.10, appendix D), with control characters as such. A second name in an
 * extra field (section 4.6.9) is not looked at, so that there is one only.
 */
function decodeName(entry: Pick<Entry, 'fileNameRaw' | 'generalPurposeBitFlag'>): {
  name: string;
  isDecodable: boolean;
} {
  const bytes = entry.fileNameRaw;
  try {
    const name = UTF8.decode(bytes);
    return { name, isDecodable: true };
  } catch {
    if ((entry.generalPurposeBitFlag & UTF8_FLAG) !== 0) {
      return { name: bytes.toString('utf8'), isDecodable: false };
    }
    const characters = getFileNameLowLevel(0, bytes, [], true).split('');
    const isControl = (byte: number | undefined): boolean =>
      byte !== undefined && (byte < 0x20 || byte === 0x7f);
    const name = characters.map((character, index) => {
      const byte = bytes[index];
      return byte !== undefined && isControl(byte) ? String.fromCharCode(byte) : character;
    });
    return { name: name.join(''), isDecodable: true };
  }
}

/** Says at which entry the listing ended. @throws always */
async function explain(
  error: unknown,
  fd: number,
  position: number,
  end: number,
  refusals: Refusals,
): Promise<never> {
  refusals.throwIfAny();
  if (!(error instanceof Error) || 'code' in error || position + FIXED_BYTES > end) throw error;
  const fixed = await readExactly(fd, FIXED_BYTES, position);
  const nameBytes = Math.min(fixed.readUInt16LE(28), end - position - FIXED_BYTES);
  const fileNameRaw = await readExactly(fd, nameBytes, position + FIXED_BYTES);
  const { name } = decodeName({ fileNameRaw, generalPurposeBitFlag: fixed.readUInt16LE(8) });
  if (!/encryption/i.test(error.message))
    throw damagedEntry(name, `cannot be listed: ${error.message}`, error);
  refusals.add(entryRefusal(name, 'is encrypted'));
  refusals.throwIfAny();
  throw error;
}
