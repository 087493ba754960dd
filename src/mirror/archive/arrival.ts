import { changeTimeMs, decodeName, ENCRYPTION_FLAGS, METHODS } from '../../lib/zip/directory.ts';
import { parseExtraFields } from '../../lib/zip/extra-fields.ts';
import {
  LOCAL_HEADER_BYTES,
  type LocalHeader,
  localHeaderBytes,
  parseLocalHeader,
} from '../../lib/zip/local-header.ts';
import { EntryFile, type EntryOutcome } from '../file-work/entry-file.ts';
import { type KnownColumns, type KnownFile, KnownFiles } from './known-files.ts';
import {
  type ArrivedHeader,
  type Content,
  DESCRIPTOR_AREA_BYTES,
  DESCRIPTOR_FLAG,
  descriptorBytes,
  sizesOf,
} from './layout.ts';
import { Tail } from './tail.ts';
import { type ArchiveLimits, judgeEntry, maxNameBytes } from './policy.ts';

/** How an archive is unpacked. All paths are absolute. */
export interface ArrivalOptions {
  /** The folder that its files are made in, private and empty. */
  readonly tree: string;
  /** Where what is not unpacked on its way is kept, if it is much. */
  readonly tailPath: string;
  /** Whether all of it is kept first. */
  readonly isSaved: boolean;
  readonly limits: ArchiveLimits;
  /** Whether large files are written past the page cache. */
  readonly isPastCache: boolean;
  readonly known: KnownColumns;
}

/** What became of an entry. */
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
  /** As its header says; null where the content ends where the deflated bytes do, and its descriptor tells what it is. */
  readonly claimed: Content | null;
  /** Null where the content is not read. */
  readonly file: EntryFile | null;
}

/**
 * Unpacks an archive while it arrives, by the local headers in front of its entries, into private files. Nothing of that counts before
 * its directory, which comes last, was found to agree with it. From the first header on that does not tell how its content ends, all is
 * kept.
 */
export class Arrival {
  /** By where their headers lie. */
  readonly entries = new Map<number, ArrivedEntry>();
  readonly known: KnownFiles;
  private readonly _options: ArrivalOptions;
  /** `lost`: it can only be judged with all of its bytes at hand, and not all of them were kept. */
  private _state: 'header' | 'content' | 'descriptor' | 'tail' | 'lost' = 'header';
  /** Where the header lies that comes, or came last. */
  private _headerOffset = 0;
  /** A header or descriptor, as far as it has come. */
  private _collected = Buffer.allocUnsafe(1024);
  private _collectedBytes = 0;
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
    this.known = new KnownFiles(options.known);
    if (options.isSaved) this._keepRest();
  }

  /** Takes the next bytes, which must stay as they are until it has ended, as it must before the next ones. @throws MirrorError `disk.*` */
  async feed(piece: Buffer): Promise<void> {
    for (let at = 0; at < piece.length;) {
      at = this._take(piece, at);
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
    if (this._state === 'header') this._keepRest();
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

  /** Takes bytes from a place on. @returns where it stopped */
  private _take(piece: Buffer, at: number): number {
    switch (this._state) {
      case 'header':
        return this._takeHeader(piece, at);
      case 'content':
        return this._takeContent(piece, at);
      case 'descriptor':
        return this._takeDescriptor(piece, at);
      case 'tail':
        this._tail?.add(piece.subarray(at));
        return piece.length;
      case 'lost':
        return piece.length;
    }
  }

  private _takeHeader(piece: Buffer, at: number): number {
    const isBegun = this._collectedBytes >= LOCAL_HEADER_BYTES;
    const wantedBytes = isBegun ? localHeaderBytes(this._collected, 0) : LOCAL_HEADER_BYTES;
    const end = this._collect(piece, at, wantedBytes ?? 0);
    if (this._collectedBytes < LOCAL_HEADER_BYTES) return end;
    const headerBytes = localHeaderBytes(this._collected, 0);
    if (headerBytes === null) this._keepRest();
    else if (this._collectedBytes === headerBytes) this._begin();
    return end;
  }

  private _collect(piece: Buffer, at: number, wantedBytes: number): number {
    if (wantedBytes > this._collected.length) {
      const greater = Buffer.allocUnsafe(wantedBytes);
      this._collected.copy(greater, 0, 0, this._collectedBytes);
      this._collected = greater;
    }
    const end = at + wantedBytes - this._collectedBytes;
    const copiedBytes = piece.copy(this._collected, this._collectedBytes, at, end);
    this._collectedBytes += copiedBytes;
    return at + copiedBytes;
  }

  private _keepRest(): void {
    this._tail = new Tail(this._options.tailPath, this._headerOffset);
    this._tail.add(this._collected.subarray(0, this._collectedBytes));
    this._state = 'tail';
  }

  /** Begins with an entry whose header has come. */
  private _begin(): void {
    const header = parseLocalHeader(this._collected, 0, this._collectedBytes, this._headerOffset);
    const claimed = claimOf(header);
    if (claimed === 'unknown') {
      this._keepRest();
      return;
    }
    const { compressedBytes, sizeBytes } = claimed ?? NOTHING;
    const path = this._pathFor(header, sizeBytes);
    const known = path === '' ? null : this.known.find(path);
    const isSame = claimed !== null && isAsKnown(claimed, known);
    const isRead = claimed === null || (path !== '' && !isSame);
    this._countMade(path);
    this._nameBytes += header.nameBytes.length;
    if (isRead) this._unpackedBytes += sizeBytes;
    this._state = this._isTooMuch() ? 'lost' : 'content';
    if (this._state === 'lost') return;
    const outcome = isSame ? ({ kind: 'same', by: 'crc32' } as const) : ({ kind: 'none' } as const);
    const file = isRead ? this._fileFor(header, claimed, path, known) : null;
    this._current = { header, path, known, outcome, claimed, file };
    this._collectedBytes = 0;
    this._leftBytes = claimed === null ? Infinity : compressedBytes;
    if (this._leftBytes === 0) this._end(claimed ?? NOTHING, 0);
  }

  private _countMade(path: string): void {
    const folder = path.slice(0, path.lastIndexOf('/') + 1);
    this._madeCount += folder === this._lastFolder ? 1 : folder.split('/').length;
    this._lastFolder = folder;
  }

  /** The path of the file for an entry; empty where none is to be made. */
  private _pathFor({ nameBytes, flags, compressionMethod }: LocalHeader, sizeBytes: number): string {
    const bytes = this._collected.subarray(LOCAL_HEADER_BYTES, LOCAL_HEADER_BYTES + nameBytes.length);
    const { name, isDecodable } = decodeName(bytes, nameBytes, flags);
    // The directory alone tells the mode.
    const verdict = judgeEntry({ name, isDecodable, unixMode: 0, flags, compressionMethod, sizeBytes });
    return verdict.kind === 'file' ? verdict.path : '';
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

  /** Whether what came so far is more than an archive may have, unless what follows makes it right. */
  private _isTooMuch(): boolean {
    const { limits } = this._options;
    return (
      this._madeCount > limits.maxEntries ||
      this._nameBytes > maxNameBytes(limits) ||
      this._unpackedBytes > limits.maxUnpackedBytes
    );
  }

  private _takeContent(piece: Buffer, at: number): number {
    const { file = null, claimed = null } = this._current ?? {};
    const mostBytes = Math.min(piece.length - at, this._leftBytes);
    const part = piece.subarray(at, at + mostBytes);
    const usedBytes = file?.write(part, mostBytes === this._leftBytes) ?? mostBytes;
    if (file?.isFull === true) {
      this._leftBytes -= usedBytes;
      return at + usedBytes;
    }
    if (claimed === null) {
      if (file?.isDamaged !== false) this._state = 'lost';
      else if (usedBytes < mostBytes) this._state = 'descriptor';
      return at + usedBytes;
    }
    this._leftBytes -= mostBytes;
    if (this._leftBytes === 0) this._end(claimed, 0);
    return at + mostBytes;
  }

  /** Reads the descriptor of a content that has ended, as what follows it tells. */
  private _takeDescriptor(piece: Buffer, at: number): number {
    const { file = null, header } = this._current ?? {};
    const end = this._collect(piece, at, DESCRIPTOR_AREA_BYTES);
    if (this._collectedBytes < DESCRIPTOR_AREA_BYTES || file === null || header === undefined) return end;
    const outcome = file.end(null);
    const content = { compressedBytes: file.usedBytes, sizeBytes: file.sizeBytes, crc32: file.crc32 };
    const length = descriptorBytes(this._collected, content, header);
    this._unpackedBytes += content.sizeBytes;
    this._end(content, length ?? 0, outcome);
    this._collected.copy(this._collected, 0, length ?? 0, this._collectedBytes);
    this._collectedBytes -= length ?? 0;
    if (length === null || this._isTooMuch()) this._state = 'lost';
    return end;
  }

  private _end(content: Content, length: number, ended?: EntryResult['outcome']): void {
    if (this._current === null) return;
    const { header, path, known, claimed, file } = this._current;
    const outcome = ended ?? file?.end(claimed) ?? this._current.outcome;
    // A failure is met where it is waited for.
    if (outcome instanceof Promise) outcome.catch(() => {});
    this.entries.set(this._headerOffset, {
      nameBytes: header.nameBytes,
      flags: header.flags,
      compressionMethod: header.compressionMethod,
      dosTime: header.dosTime,
      dataOffset: header.dataOffset,
      extra: NO_EXTRA,
      compressedBytes: content.compressedBytes,
      sizeBytes: content.sizeBytes,
      crc32: content.crc32,
      descriptorBytes: length,
      path,
      known,
      outcome,
    });
    this._headerOffset = header.dataOffset + content.compressedBytes + length;
    this._current = null;
    this._state = 'header';
  }
}

const NO_EXTRA = Buffer.alloc(0);
const NOTHING: Content = { compressedBytes: 0, sizeBytes: 0, crc32: 0 };

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

/** The content that a header claims; null where the content ends by itself; `unknown` where it does not, or contradicts itself. */
function claimOf(header: LocalHeader): Content | null | 'unknown' {
  const { flags, compressionMethod, crc32 } = header;
  const isDeflated = compressionMethod === METHODS.deflated;
  if ((flags & ENCRYPTION_FLAGS) !== 0 || (!isDeflated && compressionMethod !== METHODS.stored))
    return 'unknown';
  if ((flags & DESCRIPTOR_FLAG) !== 0) return isDeflated ? null : 'unknown';
  try {
    const { compressedBytes, sizeBytes } = sizesOf(header);
    return { compressedBytes, sizeBytes, crc32 };
  } catch {
    return 'unknown';
  }
}
