import { type Entry, fromRandomAccessReaderPromise, getFileNameLowLevel, RandomAccessReader } from 'yauzl';

import { DIRECTORY_ENTRY_BYTES, type DirectoryPlace, ZipFault } from './end-record.ts';
import type { ZipBytes } from './zip-bytes.ts';

/** An entry of a zip's central directory: only what is needed, as there may be a million. */
export interface ZipEntry {
  /** The decoded name; where it cannot be decoded, something like it for messages. */
  readonly name: string;
  /** False where the bytes of the name are not in the encoding that the archive says. */
  readonly isDecodable: boolean;
  /** The bytes of the name, a character for each. */
  readonly nameBytes: string;
  /** The Unix file mode, or 0 where the archive has none. */
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
  /** Milliseconds since the epoch; a time without a zone is taken for UTC. */
  readonly modifiedAtMs: number;
}

/** The ways of packing that are understood (APPNOTE 6.3.10, section 4.4.5). */
export const METHODS = { stored: 0, deflated: 8 } as const;

/** Bits 0, 6 and 13: encrypted, strongly encrypted, local header masked (APPNOTE 6.3.10, section 4.4.4). */
export const ENCRYPTION_FLAGS = 0x2041;

/** An entry of the directory cannot be understood, which ends the list of entries; the cause says why. */
export class ZipEntryFault extends ZipFault {
  /** The entry's name, as far as it can be told. */
  readonly entryName: string;
  readonly isEncrypted: boolean;

  constructor(entryName: string, cause: Error) {
    super(cause.message, { cause });
    this.entryName = entryName;
    this.isEncrypted = /encryption/i.test(cause.message);
  }
}

/** The directory holds more entries than its end record counts: one of the two is damaged, whatever the entries are. */
export class ZipCountFault extends ZipFault {}

/**
 * Lists the central directory, which must be as long as its end record says.
 * @throws ZipFault, ZipEntryFault, ZipCountFault; Error where the archive cannot be read
 */
export async function* entriesOf(bytes: ZipBytes, place: DirectoryPlace): AsyncGenerator<ZipEntry> {
  const zip = await fromRandomAccessReaderPromise(new DirectoryReader(bytes), bytes.sizeBytes, {
    autoClose: false,
    decodeStrings: false,
    validateEntrySizes: false,
  });
  let position = place.offset;
  try {
    for await (const entry of zip.eachEntry()) {
      position += DIRECTORY_ENTRY_BYTES;
      position += entry.fileNameLength + entry.extraFieldLength + entry.fileCommentLength;
      if (position > place.end) throw new ZipFault("The archive's directory goes on behind its end.");
      yield zipEntry(entry);
    }
  } catch (error) {
    throw await faultAt(bytes, position, place.end, error);
  }
  if (position === place.end) return;
  const { entryCount } = place;
  throw new ZipCountFault(
    `The archive's directory holds more than the ${entryCount} entries that are counted.`,
  );
}

class DirectoryReader extends RandomAccessReader {
  private readonly bytes: ZipBytes;

  constructor(bytes: ZipBytes) {
    super();
    this.bytes = bytes;
  }

  override read(...[buffer, offset, length, position, done]: Parameters<RandomAccessReader['read']>): void {
    const copy = (view: Buffer): void => {
      view.copy(buffer, offset);
      done(null);
    };
    const view = this.bytes.view(position, length);
    if (view instanceof Promise) view.then(copy, done);
    else copy(view);
  }

  override close(callback: (error: Error | null) => void): void {
    callback(null);
  }
}

function zipEntry(entry: Entry): ZipEntry {
  const { name, isDecodable } = decodeName(entry.fileNameRaw, entry.generalPurposeBitFlag);
  const nameBytes = entry.fileNameRaw.toString('latin1');
  return {
    name,
    isDecodable,
    // One text in memory instead of two, for the names that have but ASCII.
    nameBytes: nameBytes === name ? name : nameBytes,
    unixMode: entry.externalFileAttributes >>> 16,
    flags: entry.generalPurposeBitFlag,
    compressionMethod: entry.compressionMethod,
    crc32: entry.crc32,
    compressedBytes: entry.compressedSize,
    sizeBytes: entry.uncompressedSize,
    headerOffset: entry.relativeOffsetOfLocalHeader,
    modifiedAtMs: modifiedAtMs(entry),
  };
}

/** The last second that every file system can keep; the first is 0. */
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
function decodeName(bytes: Buffer, flags: number): { name: string; isDecodable: boolean } {
  try {
    return { name: UTF8.decode(bytes), isDecodable: true };
  } catch {
    if ((flags & UTF8_FLAG) !== 0) return { name: bytes.toString('utf8'), isDecodable: false };
    const characters = getFileNameLowLevel(0, bytes, [], true).split('');
    const name = characters.map((character, index) => {
      const byte = bytes[index] ?? 0;
      return byte < 0x20 || byte === 0x7f ? String.fromCharCode(byte) : character;
    });
    return { name: name.join(''), isDecodable: true };
  }
}

/** Finds out at which entry the list ended; a fault that names none, and one of the disk, stay. */
async function faultAt(bytes: ZipBytes, position: number, end: number, error: unknown): Promise<unknown> {
  if (!(error instanceof Error) || error instanceof ZipFault || 'code' in error) return error;
  if (position + DIRECTORY_ENTRY_BYTES > end) return error;
  const fixed = await bytes.view(position, DIRECTORY_ENTRY_BYTES);
  const nameStart = position + DIRECTORY_ENTRY_BYTES;
  const nameBytes = await bytes.view(nameStart, Math.min(fixed.readUInt16LE(28), end - nameStart));
  return new ZipEntryFault(decodeName(nameBytes, fixed.readUInt16LE(8)).name, error);
}

/** An entry's local header, which stands in front of its content (APPNOTE 6.3.10, section 4.3.7). */
export interface LocalHeader {
  readonly flags: number;
  readonly compressionMethod: number;
  readonly crc32: number;
  /** All ones where the extra fields have it. */
  readonly compressedBytes: number;
  /** All ones where the extra fields have it. */
  readonly sizeBytes: number;
  readonly nameBytes: string;
  readonly extra: Buffer;
  /** Where the content starts; it may be behind the end of an archive that is cut off. */
  readonly dataOffset: number;
}

/** The fixed part of a local header (APPNOTE 6.3.10, section 4.3.7). */
export const LOCAL_HEADER_BYTES = 30;
const LOCAL_SIGNATURE = 0x04034b50;

/**
 * Reads a local header.
 * @param aheadBytes how much is read at least
 * @returns null where there is none
 */
export async function readLocalHeader(
  bytes: ZipBytes,
  headerOffset: number,
  aheadBytes?: number,
): Promise<LocalHeader | null> {
  if (headerOffset + LOCAL_HEADER_BYTES > bytes.sizeBytes) return null;
  const header = await bytes.view(headerOffset, LOCAL_HEADER_BYTES, aheadBytes);
  if (header.readUInt32LE(0) !== LOCAL_SIGNATURE) return null;
  const nameLength = header.readUInt16LE(26);
  const restLength = nameLength + header.readUInt16LE(28);
  const restStart = headerOffset + LOCAL_HEADER_BYTES;
  const rest = await bytes.view(restStart, Math.min(restLength, bytes.sizeBytes - restStart), aheadBytes);
  return {
    flags: header.readUInt16LE(6),
    compressionMethod: header.readUInt16LE(8),
    crc32: header.readUInt32LE(14),
    compressedBytes: header.readUInt32LE(18),
    sizeBytes: header.readUInt32LE(22),
    nameBytes: rest.toString('latin1', 0, nameLength),
    extra: rest.subarray(nameLength),
    dataOffset: restStart + restLength,
  };
}
