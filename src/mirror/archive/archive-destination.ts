import { rm } from 'node:fs/promises';

import { onDisk } from '../../lib/errors/disk-errors.ts';
import { type Destination, FileDestination } from '../upstream/destination.ts';
import type { ArchiveMemory, Room } from './archive-memory.ts';
import { type EarlyEntries, type EarlyPolicy, EarlyUnpacker } from './early-unpacker.ts';

/** Where the bytes of a downloaded archive are. */
export type ArchiveSource =
  | { readonly kind: 'memory'; readonly bytes: Uint8Array<SharedArrayBuffer> }
  | { readonly kind: 'file'; readonly path: string; readonly early: EarlyEntries };

/** Bytes that go from memory to a file at once. */
const PIECE_BYTES = 1024 * 1024;

/**
 * Keeps an archive that is downloaded: in memory as long as there is room for it, then in a file; large entries of that are unpacked
 * while it arrives.
 */
export class ArchiveDestination implements Destination {
  private readonly path: string;
  private readonly memory: ArchiveMemory;
  private room: Room | null = null;
  private roomBytes = 0;
  private readonly policy: EarlyPolicy;
  private file: FileDestination | null = null;
  private unpacker: EarlyUnpacker | null = null;

  /** @param path of the file, where one is needed */
  constructor(path: string, memory: ArchiveMemory, policy: EarlyPolicy) {
    this.path = path;
    this.memory = memory;
    this.policy = policy;
  }

  get sizeBytes(): number {
    return this.room === null ? (this.file?.sizeBytes ?? 0) : this.roomBytes;
  }

  async begin(announcedBytes: number | null): Promise<void> {
    this.roomBytes = 0;
    await this.unpacker?.abandon();
    if (this.file !== null) return void (await this.beginFile(this.file));
    this.room ??= this.memory.lend();
    if (announcedBytes !== null && !this.room.mayHold(announcedBytes)) await this.moveToFile();
  }

  write(piece: Uint8Array): Promise<void> | null {
    if (this.unpacker !== null) return this.unpacker.write(piece);
    if (this.room?.put(piece, this.roomBytes) !== true) return this.writeToFile(piece);
    this.roomBytes += piece.length;
    return null;
  }

  readStart(mostBytes: number): Promise<Uint8Array> {
    if (this.file !== null) return this.file.readStart(mostBytes);
    return Promise.resolve(this.firstBytes(Math.min(mostBytes, this.roomBytes)));
  }

  async close(isKept: boolean): Promise<void> {
    const { file } = this;
    let isWhole = false;
    try {
      if (isKept) await this.unpacker?.end();
      isWhole = isKept;
    } finally {
      if (!isWhole) await this.forget();
      await file?.close(isWhole);
    }
  }

  /** Where the archive is; good until it is discarded. */
  source(): ArchiveSource {
    const { path, unpacker } = this;
    if (unpacker !== null) return { kind: 'file', path, early: unpacker.entries };
    return { kind: 'memory', bytes: this.firstBytes(this.roomBytes) };
  }

  /** Removes the archive, of which nothing is needed any more: so it need not be flushed with what came from it. */
  async discard(): Promise<void> {
    const isInFile = this.file !== null;
    await this.forget();
    if (isInFile) await onDisk('removing the downloaded archive', () => rm(this.path, { force: true }));
  }

  private async forget(): Promise<void> {
    this.giveBack();
    const { unpacker } = this;
    this.file = null;
    this.unpacker = null;
    await unpacker?.abandon();
  }

  private firstBytes(lengthBytes: number): Uint8Array<SharedArrayBuffer> {
    return this.room?.first(lengthBytes) ?? new Uint8Array(new SharedArrayBuffer(0));
  }

  private async writeToFile(piece: Uint8Array): Promise<void> {
    const unpacker = await this.moveToFile();
    await unpacker.write(piece);
  }

  private async moveToFile(): Promise<EarlyUnpacker> {
    const file = new FileDestination(this.path);
    this.file = file;
    const unpacker = await this.beginFile(file);
    for (let at = 0; at < this.roomBytes; at += PIECE_BYTES)
      await unpacker.write(this.firstBytes(this.roomBytes).subarray(at, at + PIECE_BYTES));
    this.giveBack();
    return unpacker;
  }

  private async beginFile(file: FileDestination): Promise<EarlyUnpacker> {
    await file.begin();
    const unpacker = new EarlyUnpacker(file, this.memory, this.policy);
    this.unpacker = unpacker;
    return unpacker;
  }

  private giveBack(): void {
    this.room?.giveBack();
    this.room = null;
    this.roomBytes = 0;
  }
}
