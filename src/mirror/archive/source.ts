import { on } from 'node:events';
import { closeSync, constants, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { setImmediate as pause } from 'node:timers/promises';
import type { MessagePort } from 'node:worker_threads';

import type { MirrorError } from '../../lib/errors/errors.ts';
import { entriesOf, type ZipEntry } from '../../lib/zip/directory.ts';
import { ENCRYPTION_FLAGS, isSameContent } from '../../lib/zip/entry-facts.ts';
import { type DirectoryPlace, END_AREA_BYTES, readEnd, endedEarly } from '../../lib/zip/end-record.ts';
import { hasDescriptor, type LocalHeader } from '../../lib/zip/local-header.ts';
import {
  type ArchiveLimits,
  countRefusal,
  damaged,
  damagedEntry,
  type EntryVerdict,
  judgeEntry,
  maxNameBytes,
  misplaced,
  quoted,
  refused,
  refusedEntry,
  refusalTogether,
  sizeRefusal,
} from './policy.ts';

/** The bytes of an archive from an offset on. The buffered bytes are valid until more are requested. */
export interface Source {
  /** The offset of the buffered bytes in the archive. */
  readonly position: number;
  /**
   * Buffers this many bytes, or all that are left. If that takes long, other tasks of the thread run.
   * @throws the reason for abandoning the archive; Error of the disk
   */
  readonly atHand: (leastBytes: number) => Promise<Buffer>;
  /** Skips some of the buffered bytes. */
  readonly take: (lengthBytes: number) => void;
}

const NO_BYTES = Buffer.alloc(0);

/** A part of an archive on its way to a thread: bytes, whose memory comes back when it is no longer read; or the end. */
export type ArchivePart = { readonly memory: ArrayBuffer; readonly lengthBytes: number } | 'end';

/** An archive that arrives part by part. It is abandoned if the other end of its port is closed first. */
export class Arrival implements Source {
  position = 0;
  readonly #port: MessagePort;
  readonly #parts: AsyncIterator<ArchivePart[], undefined>;
  readonly #control = new AbortController();
  #hand: Buffer = NO_BYTES;
  /** The memory of the last part. */
  #memory: ArrayBuffer | null = null;
  #isWhole = false;

  constructor(port: MessagePort) {
    this.#port = port;
    this.#parts = on(port, 'message', { close: ['close'] });
    port.once('close', () => this.#control.abort(new Error('The archive is abandoned.')));
  }

  /** Fires if the archive is abandoned. */
  get signal(): AbortSignal {
    return this.#control.signal;
  }

  async atHand(leastBytes: number): Promise<Buffer> {
    this.signal.throwIfAborted();
    while (this.#hand.length < leastBytes && !this.#isWhole) {
      const rest = Buffer.from(this.#hand);
      const next = await this.#nextPart();
      this.#hand = rest.length === 0 ? next : Buffer.concat([rest, next]);
    }
    return this.#hand;
  }

  take(lengthBytes: number): void {
    this.position += lengthBytes;
    this.#hand = this.#hand.subarray(lengthBytes);
  }

  /** Returns the memory of the last part. @returns the bytes of the next one; none at the end */
  async #nextPart(): Promise<Buffer> {
    this.#hand = NO_BYTES;
    if (this.#memory !== null) this.#port.postMessage(this.#memory, [this.#memory]);
    this.#memory = null;
    const { value } = await this.#parts.next();
    this.signal.throwIfAborted();
    const [part = 'end'] = value ?? [];
    this.#isWhole = part === 'end';
    if (part === 'end') return NO_BYTES;
    this.#memory = part.memory;
    return Buffer.from(part.memory, 0, part.lengthBytes);
  }
}

/** How many bytes are read together. */
const WINDOW_BYTES = 512 * 1024;

/** The last bytes of an archive, stored in a file and read through a window. Methods throw errors of the disk. */
export class KeptBytes implements Source {
  position: number;
  /** The size of the whole archive. */
  sizeBytes: number;
  /** The offset of the stored bytes in the archive. */
  readonly startBytes: number;
  readonly #path: string;
  readonly #onRead: () => void;
  readonly #signal: AbortSignal;
  readonly #fd: number;
  #window = NO_BYTES;
  #windowStart = 0;

  /** @param onRead called as the window moves on */
  constructor(path: string, startBytes: number, onRead: () => void, signal: AbortSignal) {
    this.#onRead = onRead;
    this.#path = path;
    this.#signal = signal;
    this.startBytes = startBytes;
    this.position = startBytes;
    this.sizeBytes = startBytes;
    rmSync(path, { force: true });
    this.#fd = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600);
  }

  add(bytes: Buffer): void {
    for (let at = 0; at < bytes.length;) {
      const written = writeSync(this.#fd, bytes, at, bytes.length - at, this.sizeBytes - this.startBytes);
      at += written;
      this.sizeBytes += written;
    }
  }

  /** See `ReadBytes`. */
  read(position: number, lengthBytes: number): Buffer {
    if (!(position >= this.startBytes) || !(position + lengthBytes <= this.sizeBytes)) throw endedEarly();
    const isThere =
      position >= this.#windowStart && position + lengthBytes <= this.#windowStart + this.#window.length;
    if (!isThere) this.#fill(position, lengthBytes);
    const at = position - this.#windowStart;
    return this.#window.subarray(at, at + lengthBytes);
  }

  async atHand(leastBytes: number): Promise<Buffer> {
    const lengthBytes = Math.min(leastBytes, this.sizeBytes - this.position);
    if (this.position + lengthBytes > this.#windowStart + this.#window.length) await pause();
    this.#signal.throwIfAborted();
    this.read(this.position, lengthBytes);
    return this.#window.subarray(this.position - this.#windowStart);
  }

  take(lengthBytes: number): void {
    this.position += lengthBytes;
  }

  close(): void {
    closeSync(this.#fd);
    rmSync(this.#path, { force: true });
  }

  #fill(position: number, leastBytes: number): void {
    this.#onRead();
    const lengthBytes = Math.max(leastBytes, Math.min(WINDOW_BYTES, this.sizeBytes - position));
    const window = Buffer.allocUnsafe(lengthBytes);
    const bytesRead = readSync(this.#fd, window, 0, lengthBytes, position - this.startBytes);
    this.#window = window.subarray(0, bytesRead);
    this.#windowStart = position;
    if (bytesRead < leastBytes) throw endedEarly();
  }
}

/** The directory's name for messages. */
const DIRECTORY = "the archive's directory";

/** An accepted entry. */
export interface ListedEntry {
  readonly entry: ZipEntry;
  readonly verdict: Exclude<EntryVerdict, { kind: 'refuse' }>;
  /** The start of its successor, the next entry or the directory, and its name for messages. */
  readonly next: { readonly offset: number; readonly name: string };
}

/**
 * Reads the directory of an archive, and judges all of its entries, each alone and together.
 * @param lastTaken the name of the last entry before the stored bytes; null for none
 * @returns the entries in the order of the archive
 * @throws ZipFault; MirrorError `archive.damaged`, `archive.refused`; Error of the disk
 */
export function listEntries(
  kept: KeptBytes,
  limits: ArchiveLimits,
  lastTaken: string | null,
): readonly ListedEntry[] {
  const tailBytes = Math.min(kept.sizeBytes - kept.startBytes, END_AREA_BYTES);
  const end = readEnd(kept.read(kept.sizeBytes - tailBytes, tailBytes), kept.sizeBytes);
  if (end.isMultiDisk) throw refused('The archive is one part of several.');
  if (end.entryCount > limits.maxEntries) throw countRefusal(`has ${end.entryCount} entries`, limits);
  if (lastTaken !== null && end.offset < kept.startBytes)
    throw damagedEntry(lastTaken, `overlaps ${DIRECTORY}`);
  const judged = judgeEntries(kept, end, limits);
  const refusal = refusalTogether(
    judged.map(({ verdict }) => verdict),
    limits,
  );
  if (refusal !== null) throw refusal;
  return inOrder(judged, end.offset);
}

type JudgedEntry = Omit<ListedEntry, 'next'>;

/** Judges each entry alone, and all sums. @throws ZipFault; MirrorError `archive.refused`; Error of the disk */
function judgeEntries(kept: KeptBytes, end: DirectoryPlace, limits: ArchiveLimits): readonly JudgedEntry[] {
  const judged: JudgedEntry[] = [];
  let greatest: Pick<ZipEntry, 'name' | 'sizeBytes'> = { name: '', sizeBytes: -1 };
  let refusal: MirrorError | null = null;
  let totalBytes = 0;
  let nameBytes = 0;
  for (const entry of entriesOf((...part) => kept.read(...part), end)) {
    totalBytes += entry.sizeBytes;
    nameBytes += entry.nameBytes.length;
    if (entry.sizeBytes > greatest.sizeBytes) greatest = entry;
    const verdict = judgeEntry(entry);
    if (verdict.kind === 'refuse') refusal ??= refusedEntry(entry.name, verdict.fault);
    else if (nameBytes <= maxNameBytes(limits)) judged.push({ entry, verdict });
  }
  if (nameBytes > maxNameBytes(limits))
    refusal ??= refused('The names of the entries of the archive have too many bytes together.');
  if (totalBytes > limits.maxUnpackedBytes) {
    const fault = `would unpack to ${greatest.sizeBytes} of ${totalBytes} bytes`;
    refusal ??= sizeRefusal(greatest.name, fault, limits);
  }
  // Only now: a directory whose entries cannot all be read is damaged, not refused.
  if (refusal !== null) throw refusal;
  return judged;
}

/** The entries in the order of the file. @throws MirrorError `archive.damaged` unless they start it, and lie before the directory */
function inOrder(judged: readonly JudgedEntry[], directoryOffset: number): readonly ListedEntry[] {
  const sorted = [...judged].sort((a, b) => a.entry.headerOffset - b.entry.headerOffset);
  const start = sorted[0]?.entry.headerOffset ?? directoryOffset;
  if (start > 0) throw damaged('The archive does not start with an entry: something is before it.');
  const last = sorted.at(-1)?.entry;
  if (last !== undefined && last.headerOffset >= directoryOffset) throw misplaced(last.name);
  return sorted.map(({ entry, verdict }, index) => {
    const following = sorted[index + 1]?.entry;
    const name = following === undefined ? DIRECTORY : quoted(following.name);
    return { entry, verdict, next: { offset: following?.headerOffset ?? directoryOffset, name } };
  });
}

/** The fault of an entry whose content, header or descriptor contradicts the directory. */
export const OTHER_CONTENT = 'has another size or CRC-32 at its content than in the directory';

/** The contradiction between a local header and the directory, to follow the entry's name; null for none. */
export function contradiction(header: LocalHeader, { entry, next }: ListedEntry): string | null {
  if (header.nameBytes !== entry.nameBytes) return `has another name, ${quoted(header.name)}, at its content`;
  if (header.compressionMethod !== entry.compressionMethod || (header.flags & ENCRYPTION_FLAGS) !== 0)
    return 'is packed in another way than the directory says';
  if (!hasDescriptor(header) && !isSameContent(header, entry)) return OTHER_CONTENT;
  return header.dataOffset + entry.compressedBytes > next.offset ? `overlaps ${next.name}` : null;
}
