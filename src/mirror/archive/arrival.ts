import { closeSync, constants, openSync, readSync, rmSync, writeSync } from 'node:fs';

import { changeTimeMs, decodeName, ENCRYPTION_FLAGS, METHODS } from '../../lib/zip/directory.ts';
import { parseExtraFields } from '../../lib/zip/extra-fields.ts';
import {
  LOCAL_HEADER_BYTES,
  type LocalHeader,
  localHeaderBytes,
  parseLocalHeader,
} from '../../lib/zip/local-header.ts';
import { FileWindow, type ZipBytes } from '../../lib/zip/zip-bytes.ts';
import { type Content, EntryFile, type EntryOutcome, type KnownContent } from '../file-work/entry-file.ts';
import {
  type ArrivedHeader,
  contentOf,
  DESCRIPTOR_AREA_BYTES,
  DESCRIPTOR_FLAG,
  descriptorBytes,
} from './directory.ts';
import { type ArchiveLimits, judgeEntry, maxNameBytes } from './policy.ts';

/** A file of an archive, as far as it is known before the archive comes. */
export interface KnownFile {
  readonly path: string;
  /** The time that it is to have, in milliseconds since the epoch; null where the archive has it. */
  readonly timeMs: number | null;
  /** The content of the published file, which may stay where it is the same; null for none. */
  readonly content: KnownContent | null;
}

/** How an archive is unpacked. All paths are absolute. */
export interface ArrivalOptions {
  /** The folder that its files are made in, private and empty. */
  readonly tree: string;
  /** Where the bytes are kept that are not unpacked on their way. */
  readonly tailPath: string;
  /** Whether all of it is kept first. */
  readonly isSaved: boolean;
  readonly limits: ArchiveLimits;
  /** Whether large files are written past the page cache. */
  readonly isPastCache: boolean;
  readonly known: readonly KnownFile[];
}

/** The result of an entry. */
export interface EntryResult {
  /** Empty for one of which no file was to be made. */
  readonly path: string;
  readonly known: KnownFile | null;
  /** Promised while the end of a large file is written. */
  readonly outcome: EntryOutcome | Promise<EntryOutcome>;
}

/** An entry that came. */
export interface ArrivedEntry extends ArrivedHeader, EntryResult {}

/** The entry whose content comes. Its outcome counts where the content is not read. */
interface CurrentEntry extends EntryResult {
  readonly header: LocalHeader;
  /** As its header says; null where the content ends where the deflated bytes do, and its descriptor says what it is. */
  readonly claimed: Content | null;
  /** Null where the content is not read. */
  readonly file: EntryFile | null;
}

const NO_BYTES = Buffer.alloc(0);
const NOTHING: Content = { compressedBytes: 0, sizeBytes: 0, crc32: 0 };

/**
 * Unpacks an archive while it arrives, by the local headers in front of its entries, into private files. Nothing of that counts before
 * its directory, which comes last, was found to agree with it. From the first header on that does not say how its content ends, all is
 * kept.
 */
export class Arrival {
  /** By where their headers lie. */
  readonly entries = new Map<number, ArrivedEntry>();
  private readonly _options: ArrivalOptions;
  private readonly _known: ReadonlyMap<string, KnownFile>;
  /** `lost`: it can only be judged with all of its bytes at hand, and not all of them were kept. */
  private _state: 'header' | 'content' | 'descriptor' | 'tail' | 'lost' = 'header';
  /** Where the header lies that comes, or came last. */
  private _headerOffset = 0;
  /** The start of a header or descriptor that has not come whole. */
  private _begun = NO_BYTES;
  private _current: CurrentEntry | null = null;
  /** Bytes that are left of the content. */
  private _leftBytes = 0;
  private _lastFolder = '';
  /** At most so many files and folders were made. */
  private _madeCount = 0;
  private _nameBytes = 0;
  private _unpackedBytes = 0;
  private _tail: Tail | null = null;

  constructor(options: ArrivalOptions) {
    this._options = options;
    this._known = new Map(options.known.map((file) => [file.path, file]));
    if (options.isSaved) this._keepRest();
  }

  /**
   * Takes the next bytes, which must stay as they are until it has ended, as it must before the next ones.
   * @throws MirrorError `disk.*`
   */
  async feed(piece: Buffer): Promise<void> {
    const bytes = this._begun.length === 0 ? piece : Buffer.concat([this._begun, piece]);
    this._begun = NO_BYTES;
    for (let at = 0; at < bytes.length;) {
      const next = this._take(bytes, at);
      if (next === null) {
        this._begun = Buffer.from(bytes.subarray(at));
        return;
      }
      at = next;
      const file = this._current?.file;
      if (file?.isFull === true) await file.spill();
    }
  }

  /**
   * To be called when all has come.
   * @returns the bytes behind the arrived entries; null where it is lost
   */
  end(): Tail | null {
    if (this._state === 'content' || this._state === 'descriptor') this._state = 'lost';
    if (this._state === 'header') this._keepRest().add(this._begun);
    return this._state === 'lost' ? null : this._tail;
  }

  /** Lets go of what is open, once nothing is written any more. */
  async close(): Promise<void> {
    this._tail?.close();
    await this._current?.file?.close();
    this._current = null;
    const outcomes = [...this.entries.values()].map(({ outcome }) => outcome);
    await Promise.allSettled(outcomes.filter((outcome) => outcome instanceof Promise));
  }

  /**
   * Finds the known file of an entry's path, with the archive's leading folder or without: which of the two is right is known when all
   * names are, and checked then.
   */
  knownFile(path: string): KnownFile | null {
    return this._known.get(path) ?? this._known.get(path.slice(path.indexOf('/') + 1)) ?? null;
  }

  /** Takes bytes from a place on. @returns where it stopped; null where more must come first */
  private _take(bytes: Buffer, at: number): number | null {
    switch (this._state) {
      case 'header':
        return this._takeHeader(bytes, at);
      case 'content':
        return this._takeContent(bytes, at);
      case 'descriptor':
        return this._takeDescriptor(bytes, at);
      case 'tail':
        this._tail?.add(bytes.subarray(at));
        return bytes.length;
      case 'lost':
        return bytes.length;
    }
  }

  private _keepRest(): Tail {
    this._state = 'tail';
    return (this._tail = new Tail(this._options.tailPath, this._headerOffset));
  }

  private _takeHeader(bytes: Buffer, at: number): number | null {
    if (at + LOCAL_HEADER_BYTES > bytes.length) return null;
    const headerBytes = localHeaderBytes(bytes, at);
    if (headerBytes !== null && at + headerBytes > bytes.length) return null;
    const header = headerBytes === null ? null : parseLocalHeader(bytes, at, headerBytes, this._headerOffset);
    const claimed = header === null ? 'unknown' : claimOf(header);
    if (headerBytes === null || header === null || claimed === 'unknown') {
      this._keepRest();
      return at;
    }
    const nameAt = at + LOCAL_HEADER_BYTES;
    this._begin(header, claimed, bytes.subarray(nameAt, nameAt + header.nameBytes.length));
    return at + headerBytes;
  }

  private _begin(header: LocalHeader, claimed: Content | null, nameBytes: Buffer): void {
    const { compressedBytes, sizeBytes } = claimed ?? NOTHING;
    const path = pathOf(header, nameBytes, sizeBytes);
    const known = path === '' ? null : this.knownFile(path);
    const isSame = claimed !== null && isAsKnown(claimed, known);
    const isRead = claimed === null || (path !== '' && !isSame);
    this._count(path, nameBytes.length, isRead ? sizeBytes : 0);
    if (this._state === 'lost') return;
    const outcome = isSame ? ({ kind: 'same', by: 'crc32' } as const) : ({ kind: 'none' } as const);
    const file = isRead ? this._fileFor(header, claimed, path, known) : null;
    this._current = { header, path, known, outcome, claimed, file };
    this._state = 'content';
    this._leftBytes = claimed === null ? Infinity : compressedBytes;
    if (this._leftBytes === 0) this._end(claimed ?? NOTHING, 0);
  }

  /** Counts what comes. An archive that is more than it may be is lost, unless what follows makes it right. */
  private _count(path: string, nameBytes: number, sizeBytes: number): void {
    const { limits } = this._options;
    const folder = path.slice(0, path.lastIndexOf('/') + 1);
    this._madeCount += folder === this._lastFolder ? 1 : folder.split('/').length;
    this._lastFolder = folder;
    this._nameBytes += nameBytes;
    this._unpackedBytes += sizeBytes;
    const isTooMuch =
      this._madeCount > limits.maxEntries ||
      this._nameBytes > maxNameBytes(limits) ||
      this._unpackedBytes > limits.maxUnpackedBytes;
    if (isTooMuch) this._state = 'lost';
  }

  private _fileFor(
    header: LocalHeader,
    claimed: Content | null,
    path: string,
    known: KnownFile | null,
  ): EntryFile {
    const { tree, isPastCache, limits } = this._options;
    return new EntryFile({
      place: path === '' ? null : `${tree}/${path}`,
      isJudged: false,
      isDeflated: header.compressionMethod === METHODS.deflated && claimed?.compressedBytes !== 0,
      isPastCache,
      known: known?.content ?? null,
      mostBytes: claimed?.sizeBytes ?? limits.maxUnpackedBytes - this._unpackedBytes,
      timeMs: known?.timeMs ?? timeIn(header),
    });
  }

  private _takeContent(bytes: Buffer, at: number): number {
    const { file = null, claimed = null } = this._current ?? {};
    const mostBytes = Math.min(bytes.length - at, this._leftBytes);
    const part = bytes.subarray(at, at + mostBytes);
    const isLast = mostBytes === this._leftBytes;
    const usedBytes = file?.write(part, isLast) ?? mostBytes;
    this._leftBytes -= usedBytes;
    if (file?.isFull === true) return at + usedBytes;
    if (claimed === null) {
      if (file?.isDamaged !== false) this._state = 'lost';
      else if (usedBytes < mostBytes) this._state = 'descriptor';
      return at + usedBytes;
    }
    this._leftBytes -= mostBytes - usedBytes;
    if (this._leftBytes === 0) this._end(claimed, 0);
    return at + mostBytes;
  }

  /** Reads the descriptor of a content that has ended, as what follows it says. */
  private _takeDescriptor(bytes: Buffer, at: number): number | null {
    const { file = null, header } = this._current ?? {};
    if (at + DESCRIPTOR_AREA_BYTES > bytes.length || file === null || header === undefined) return null;
    const outcome = file.end(null);
    const content = { compressedBytes: file.usedBytes, sizeBytes: file.sizeBytes, crc32: file.crc32 };
    const length = descriptorBytes(bytes.subarray(at, at + DESCRIPTOR_AREA_BYTES), content, header);
    this._end(content, length ?? 0, outcome);
    this._unpackedBytes += content.sizeBytes;
    if (length === null) this._state = 'lost';
    return at + (length ?? 0);
  }

  private _end(content: Content, length: number, ended?: EntryResult['outcome']): void {
    if (this._current === null) return;
    const { header, path, known, claimed, file } = this._current;
    const outcome = ended ?? file?.end(claimed) ?? this._current.outcome;
    // A failure is met where it is waited for.
    if (outcome instanceof Promise) outcome.catch(() => {});
    const arrived = { ...header, ...content, extra: NO_BYTES, descriptorBytes: length, path, known, outcome };
    this.entries.set(this._headerOffset, arrived);
    this._headerOffset = header.dataOffset + content.compressedBytes + length;
    this._current = null;
    this._state = 'header';
  }
}

/** The path of the file for an entry; empty where none is to be made. */
function pathOf(
  { nameBytes, flags, compressionMethod }: LocalHeader,
  bytes: Buffer,
  sizeBytes: number,
): string {
  const { name, isDecodable } = decodeName(bytes, nameBytes, flags);
  // The directory alone has the mode.
  const verdict = judgeEntry({ name, isDecodable, unixMode: 0, flags, compressionMethod, sizeBytes });
  return verdict.kind === 'file' ? verdict.path : '';
}

/** Whether a content is that of a known file, as its size and its checksum prove. */
export function isAsKnown({ sizeBytes, crc32 }: Content, known: KnownFile | null): boolean {
  return known?.content?.sizeBytes === sizeBytes && known.content.crc32 === crc32;
}

/** The time in a header, which mostly is that of the directory. Milliseconds since the epoch. */
function timeIn({ dosTime, extra }: LocalHeader): number {
  try {
    return changeTimeMs(dosTime, parseExtraFields(extra, 0, extra.length));
  } catch {
    return 0;
  }
}

/** The content that a header claims; null where its deflated bytes show their end; `unknown` where neither is so, or it contradicts itself. */
function claimOf(header: LocalHeader): Content | null | 'unknown' {
  const { flags, compressionMethod } = header;
  const isDeflated = compressionMethod === METHODS.deflated;
  if ((flags & ENCRYPTION_FLAGS) !== 0 || (!isDeflated && compressionMethod !== METHODS.stored))
    return 'unknown';
  if ((flags & DESCRIPTOR_FLAG) !== 0) return isDeflated ? null : 'unknown';
  try {
    return contentOf(header);
  } catch {
    return 'unknown';
  }
}

/** The bytes of an archive from some place on, kept in a file to be read again. All methods throw errors of the disk. */
export class Tail {
  private readonly _path: string;
  private readonly _startBytes: number;
  private readonly _fd: number;
  private _lengthBytes = 0;

  /** @param startBytes where it starts in the archive */
  constructor(path: string, startBytes: number) {
    this._path = path;
    this._startBytes = startBytes;
    rmSync(path, { force: true });
    this._fd = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600);
  }

  add(bytes: Uint8Array): void {
    for (let done = 0; done < bytes.length;)
      done += writeSync(this._fd, bytes, done, bytes.length - done, this._lengthBytes + done);
    this._lengthBytes += bytes.length;
  }

  /** The bytes, by their place in the archive. */
  get bytes(): ZipBytes {
    return new FileWindow(this._fd, this._startBytes + this._lengthBytes, this._startBytes);
  }

  /**
   * Reads bytes.
   * @param position in the archive
   * @returns how many were read: fewer only where it ends
   */
  read(into: Uint8Array, position: number): number {
    return readSync(this._fd, into, 0, into.length, position - this._startBytes);
  }

  close(): void {
    closeSync(this._fd);
    rmSync(this._path, { force: true });
  }
}
