import { isAscii } from 'node:buffer';

import {
  type Entry,
  fromRandomAccessReaderPromise,
  getFileNameLowLevel,
  RandomAccessReader,
  type ZipFile,
} from 'yauzl';

import { storableTimeMs } from '../time/file-time.ts';
import { DIRECTORY_ENTRY_BYTES, type DirectoryPlace, ZipFault } from './end-record.ts';
import { viewOf, type ZipBytes } from './zip-bytes.ts';

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
  /** Milliseconds since the epoch, as a file system can keep it; a time without a zone is taken for UTC. */
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

/** Entries that are handed on together: a promise for each would take longer than what is done with most of them. */
const ENTRIES_TOGETHER = 1000;

/**
 * Lists the central directory, which must be as long as its end record says, many entries at a time.
 * @throws ZipFault, ZipEntryFault, ZipCountFault, once all entries before the fault were given; Error where the archive cannot be read
 */
export async function* entriesOf(
  bytes: ZipBytes,
  place: DirectoryPlace,
): AsyncGenerator<readonly ZipEntry[]> {
  const zip = await fromRandomAccessReaderPromise(new DirectoryReader(bytes), bytes.sizeBytes, {
    autoClose: false,
    decodeStrings: false,
    validateEntrySizes: false,
  });
  let position = place.offset;
  try {
    for await (const entries of yauzlEntries(zip)) {
      const listed: ZipEntry[] = [];
      for (const entry of entries) {
        position += DIRECTORY_ENTRY_BYTES;
        position += entry.fileNameLength + entry.extraFieldLength + entry.fileCommentLength;
        if (position > place.end) break;
        listed.push(zipEntry(entry));
      }
      yield listed;
      if (position > place.end) throw new ZipFault("The archive's directory goes on behind its end.");
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

/** Asks yauzl for entries by its events: what is at hand it gives before `readEntry` returns, without a promise for each. */
async function* yauzlEntries(zip: ZipFile): AsyncGenerator<readonly Entry[]> {
  const events = new EntryEvents(zip);
  while (!events.isEnded) {
    const entries: Entry[] = [];
    while (entries.length < ENTRIES_TOGETHER) {
      zip.readEntry();
      const entry = events.take() ?? (await events.next());
      if (entry === null) break;
      entries.push(entry);
    }
    yield entries;
  }
  if (events.error !== null) throw events.error;
}

/** The events of yauzl's list, one after the other. */
class EntryEvents {
  error: Error | null = null;
  isEnded = false;
  private entry: Entry | null = null;
  private wake = (): void => {};

  constructor(zip: ZipFile) {
    zip.on('entry', (entry: Entry) => {
      this.entry = entry;
      this.wake();
    });
    zip.once('end', () => this.end(null));
    zip.once('error', (error: Error) => this.end(error));
  }

  /** The entry that has come; null where none has. */
  take(): Entry | null {
    const { entry } = this;
    this.entry = null;
    return entry;
  }

  /** Waits for the entry that was asked for; null where the list has ended. */
  async next(): Promise<Entry | null> {
    if (!this.isEnded) {
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
    return this.take();
  }

  private end(error: Error | null): void {
    this.error = error;
    this.isEnded = true;
    this.wake();
  }
}

class DirectoryReader extends RandomAccessReader {
  private readonly bytes: ZipBytes;

  constructor(bytes: ZipBytes) {
    super();
    this.bytes = bytes;
  }

  override read(...[buffer, offset, length, position, done]: Parameters<RandomAccessReader['read']>): void {
    const copy = (start: number): void => {
      this.bytes.atHand.copy(buffer, offset, start, start + length);
      done(null);
    };
    const start = this.bytes.find(position, length);
    if (typeof start === 'number') copy(start);
    else start.then(copy, done);
  }

  override close(callback: (error: Error | null) => void): void {
    callback(null);
  }
}

function zipEntry(entry: Entry): ZipEntry {
  const { fileNameRaw: bytes, generalPurposeBitFlag: flags } = entry;
  const nameBytes = bytes.toString('latin1');
  // One text in memory instead of two, for the names that have but ASCII.
  const { name, isDecodable } = isAscii(bytes)
    ? { name: nameBytes, isDecodable: true }
    : decodeName(bytes, flags);
  return {
    name,
    isDecodable,
    nameBytes,
    unixMode: entry.externalFileAttributes >>> 16,
    flags,
    compressionMethod: entry.compressionMethod,
    crc32: entry.crc32,
    compressedBytes: entry.compressedSize,
    sizeBytes: entry.uncompressedSize,
    headerOffset: entry.relativeOffsetOfLocalHeader,
    modifiedAtMs: modifiedAtMs(entry),
  };
}

/** A time that its extra field cannot hold, such as one after 2038, is in the older field all the same. */
function modifiedAtMs(entry: Entry): number {
  const timeMs = entry.getLastModDate({ timezone: 'UTC' }).getTime();
  if (timeMs === storableTimeMs(timeMs)) return timeMs;
  return storableTimeMs(entry.getLastModDate({ timezone: 'UTC', forceDosFormat: true }).getTime());
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
  const fixed = await viewOf(bytes, position, DIRECTORY_ENTRY_BYTES);
  const [flags, nameLength] = [fixed.readUInt16LE(8), fixed.readUInt16LE(28)];
  const nameStart = position + DIRECTORY_ENTRY_BYTES;
  const nameBytes = await viewOf(bytes, nameStart, Math.min(nameLength, end - nameStart));
  return new ZipEntryFault(decodeName(nameBytes, flags).name, error);
}
