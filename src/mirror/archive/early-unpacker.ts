import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import { onDisk } from '../../lib/errors/disk-errors.ts';
import { type MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { DamagedEntryError, StoppedError } from '../file-work/failures.ts';
import { BULK_THREADS, doInThread } from '../file-work/pool.ts';
import type { PackedEntry } from '../file-work/tasks.ts';
import type { StopFlag } from '../file-work/failures.ts';
import type { FileDestination } from '../upstream/destination.ts';
import type { ArchiveMemory, Room } from './archive-memory.ts';
import { type ArchiveParts, ArrivingEntries } from './arriving-entries.ts';

/** An entry that was unpacked while its archive arrived. */
export type EarlyEntry =
  | {
      readonly kind: 'file';
      readonly entry: PackedEntry;
      /** Absolute path of the file that holds its bytes. */
      readonly place: string;
      /** In hexadecimal digits. */
      readonly sha256: string;
      /** Permission bits. */
      readonly mode: number;
    }
  /** It is not what its local header says. The fault goes on where its name ends. */
  | { readonly kind: 'damaged'; readonly entry: PackedEntry; readonly fault: string }
  /** It was given up, as another one is damaged. */
  | { readonly kind: 'lost'; readonly entry: PackedEntry };

/** Unpacked entries, by where their contents lie in the archive, where a hole is in its file. */
export type EarlyEntries = ReadonlyMap<number, EarlyEntry>;

/** What may be unpacked while an archive arrives. */
export interface EarlyPolicy {
  /** The folder for the files, absolute. */
  readonly folder: string;
  /** Whether the bytes of an entry are likely to be new. */
  readonly isNew: (entry: Pick<PackedEntry, 'sizeBytes' | 'crc32'>) => boolean;
  /** Most bytes of all entries together, as they claim. */
  readonly maxUnpackedBytes: number;
  /** Whether large files go past the page cache. */
  readonly isPastCache: boolean;
}

/** Below this the hole that an entry leaves in the file of the archive is none: the system keeps files in pages. */
const LEAST_BYTES = 64 * 1024;

/** Greater ones are unpacked from the file, piece by piece: here they are in memory whole. All rooms have this size, to be used again. */
const ROOM_BYTES = 16 * 1024 * 1024;

/** Batches that threads work at, and that wait for them. */
const BATCHES_AT_ONCE = BULK_THREADS + 1;

/** A greater claim is judged first, with the directory. */
const MOST_BYTES = 256 * 1024 * 1024;

/** Bytes at which entries are handed to a thread. */
const FULL_BYTES = 4 * 1024 * 1024;

/** Entries that wait together in one room, and are handed to a thread together. */
interface Batch {
  readonly room: Room;
  sizeBytes: number;
  readonly items: { readonly entry: PackedEntry; readonly atBytes: number; readonly place: string }[];
}

/**
 * Unpacks large entries of an archive into private files while it arrives, and leaves holes in their place in its file. Nothing of
 * that counts before the whole archive was judged as any other: by its directory, which must agree with the local headers.
 */
export class EarlyUnpacker {
  readonly entries = new Map<number, EarlyEntry>();
  private readonly file: FileDestination;
  private readonly memory: ArchiveMemory;
  private readonly policy: EarlyPolicy;
  private readonly arriving = new ArrivingEntries();
  private readonly stop: StopFlag = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  private readonly working = new Set<Promise<void>>();
  private batch: Batch | null = null;
  private claimedBytes = 0;
  private made = 0;
  private failure: MirrorError | null = null;

  constructor(file: FileDestination, memory: ArchiveMemory, policy: EarlyPolicy) {
    this.file = file;
    this.memory = memory;
    this.policy = policy;
  }

  /** Takes the next piece, as `Destination.write` does. @throws MirrorError `disk.*` */
  write(piece: Uint8Array): Promise<void> | null {
    return this.take(this.arriving.split(piece), true);
  }

  /** Waits until all is unpacked. @throws MirrorError `disk.*` */
  async end(): Promise<void> {
    this.dispatch();
    await Promise.all(this.working);
    if (this.failure !== null) throw this.failure;
  }

  /** Gives all up, and removes what was made. */
  async abandon(): Promise<void> {
    Atomics.store(this.stop, 0, 1);
    this.batch?.room.giveBack();
    this.batch = null;
    await Promise.all(this.working);
    this.entries.clear();
    await onDisk('removing what was unpacked', () =>
      rm(this.policy.folder, { recursive: true, force: true }),
    );
  }

  /** @param answer to the part that was taken last */
  private take(parts: ArchiveParts, answer: boolean): Promise<void> | null {
    if (this.failure !== null) throw this.failure;
    for (let next = parts.next(answer); next.done !== true; next = parts.next(answer)) {
      const part = next.value;
      if (part.kind === 'entry') {
        const begun = this.begin(part.entry);
        if (typeof begun !== 'boolean') return begun.then((isBegun) => this.takeRest(parts, isBegun));
        answer = begun;
      } else if (part.kind === 'content') this.add(part.bytes, part.isLast);
      else {
        const written = this.file.write(part.bytes);
        if (written !== null) return written.then(() => this.takeRest(parts, true));
      }
    }
    return null;
  }

  private async takeRest(parts: ArchiveParts, answer: boolean): Promise<void> {
    await this.take(parts, answer);
  }

  /** Makes room for an entry. @returns whether it is unpacked now; not where no memory is left for it */
  private begin(entry: PackedEntry): boolean | Promise<boolean> {
    const { compressedBytes, sizeBytes } = entry;
    const isFit = compressedBytes >= LEAST_BYTES && compressedBytes <= ROOM_BYTES;
    const claimedBytes = this.claimedBytes + sizeBytes;
    if (!isFit || sizeBytes > MOST_BYTES || claimedBytes > this.policy.maxUnpackedBytes) return false;
    if (!this.policy.isNew(entry)) return false;
    const enter = (isRoomy: boolean): boolean => {
      if (isRoomy) this.enter(entry);
      return isRoomy;
    };
    const isFull = this.batch !== null && this.batch.sizeBytes + compressedBytes > ROOM_BYTES;
    if (isFull) this.dispatch();
    if (this.batch !== null) return enter(true);
    return this.working.size < BATCHES_AT_ONCE && this.findRoom()
      ? enter(true)
      : this.waitForRoom().then(enter);
  }

  private findRoom(): boolean {
    const room = this.memory.lend();
    if (room.holds(ROOM_BYTES)) this.batch = { room, sizeBytes: 0, items: [] };
    else room.giveBack();
    return this.batch !== null;
  }

  /** @returns whether there is room; not where all memory is taken by others */
  private async waitForRoom(): Promise<boolean> {
    while (this.working.size > 0) {
      await Promise.race(this.working);
      if (this.failure !== null) throw this.failure;
      if (this.findRoom()) return true;
    }
    return false;
  }

  private enter(entry: PackedEntry): void {
    const place = join(this.policy.folder, String(this.made));
    this.made += 1;
    this.claimedBytes += entry.sizeBytes;
    this.batch?.items.push({ entry, atBytes: this.batch.sizeBytes, place });
  }

  private add(bytes: Uint8Array, isLast: boolean): void {
    const { batch } = this;
    if (batch === null) throw new TypeError('no room was made for an entry');
    batch.room.put(bytes, batch.sizeBytes);
    batch.sizeBytes += bytes.length;
    this.file.skip(bytes.length);
    if (isLast && batch.sizeBytes >= FULL_BYTES) this.dispatch();
  }

  /** Hands the batch to a thread. */
  private dispatch(): void {
    const { batch } = this;
    if (batch === null) return;
    this.batch = null;
    const work = this.unpack(batch)
      .catch((error: unknown) => {
        this.failure ??= toMirrorError(error);
      })
      .finally(() => {
        batch.room.giveBack();
        this.working.delete(work);
      });
    this.working.add(work);
  }

  private async unpack({ room, sizeBytes, items }: Batch): Promise<void> {
    const { isPastCache } = this.policy;
    const entries = items.map(({ entry, atBytes, place }) => ({
      packed: { ...entry, dataOffset: atBytes },
      early: null,
      destination: place,
      mtimeMs: 0,
      keptTimeMs: 0,
      known: null,
    }));
    try {
      const packed = room.first(sizeBytes);
      const request = { packed, isPastCache, entries, stop: this.stop } as const;
      const outcomes = await doInThread('extract', request);
      for (const [index, { entry, place }] of items.entries()) {
        const outcome = outcomes[index];
        if (outcome?.kind !== 'written') throw new TypeError('an entry was not unpacked');
        const { sha256, mode } = outcome;
        this.entries.set(entry.dataOffset, { kind: 'file', entry, place, sha256, mode });
      }
    } catch (error) {
      if (error instanceof StoppedError) return;
      if (!(error instanceof DamagedEntryError)) throw error;
      for (const [index, { entry }] of items.entries()) {
        const isIt = index === error.index;
        const lost = isIt ? ({ kind: 'damaged', fault: error.fault } as const) : ({ kind: 'lost' } as const);
        this.entries.set(entry.dataOffset, { ...lost, entry });
      }
    }
  }
}
