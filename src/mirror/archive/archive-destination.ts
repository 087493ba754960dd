import { rm } from 'node:fs/promises';

import { onDisk } from '../../lib/errors/disk-errors.ts';
import { type Destination, FileDestination } from '../upstream/destination.ts';
import type { ArchiveMemory, Room } from './archive-memory.ts';

/** Where the bytes of a downloaded archive are. */
export type ArchiveSource =
  | { readonly kind: 'memory'; readonly bytes: Uint8Array<SharedArrayBuffer> }
  | { readonly kind: 'file'; readonly path: string };

/** Bytes that go from memory to a file at once. */
const PIECE_BYTES = 1024 * 1024;

/** Keeps an archive that is downloaded: in memory as long as there is room for it, then in a file. */
export class ArchiveDestination implements Destination {
  private readonly path: string;
  private readonly memory: ArchiveMemory;
  private room: Room | null = null;
  private roomBytes = 0;
  private file: FileDestination | null = null;

  /** @param path of the file, where one is needed */
  constructor(path: string, memory: ArchiveMemory) {
    this.path = path;
    this.memory = memory;
  }

  get sizeBytes(): number {
    return this.room === null ? (this.file?.sizeBytes ?? 0) : this.roomBytes;
  }

  async begin(announcedBytes: number | null): Promise<void> {
    this.roomBytes = 0;
    if (this.file !== null) return this.file.begin();
    this.room ??= this.memory.lend();
    if (announcedBytes !== null && !this.room.mayHold(announcedBytes)) await this.moveToFile();
  }

  write(piece: Uint8Array): Promise<void> | null {
    if (this.file !== null) return this.file.write(piece);
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
    if (!isKept) {
      this.giveBack();
      this.file = null;
    }
    await file?.close(isKept);
  }

  /** Where the archive is; good until it is discarded. */
  source(): ArchiveSource {
    if (this.file !== null) return { kind: 'file', path: this.path };
    return { kind: 'memory', bytes: this.firstBytes(this.roomBytes) };
  }

  /** Removes the archive, of which nothing is needed any more: so it need not be flushed with what came from it. */
  async discard(): Promise<void> {
    this.giveBack();
    if (this.file !== null)
      await onDisk('removing the downloaded archive', () => rm(this.path, { force: true }));
  }

  private firstBytes(lengthBytes: number): Uint8Array<SharedArrayBuffer> {
    return this.room?.first(lengthBytes) ?? new Uint8Array(new SharedArrayBuffer(0));
  }

  private async writeToFile(piece: Uint8Array): Promise<void> {
    const file = await this.moveToFile();
    await file.write(piece);
  }

  private async moveToFile(): Promise<FileDestination> {
    const file = new FileDestination(this.path);
    this.file = file;
    await file.begin();
    for (let at = 0; at < this.roomBytes; at += PIECE_BYTES)
      await file.write(this.firstBytes(this.roomBytes).subarray(at, at + PIECE_BYTES));
    this.giveBack();
    return file;
  }

  private giveBack(): void {
    this.room?.giveBack();
    this.room = null;
    this.roomBytes = 0;
  }
}
