import { open } from 'node:fs/promises';

import { diskError, onDisk } from '../../lib/errors/disk-errors.ts';
import { MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { METHODS } from '../../lib/zip/directory.ts';
import { readEnd, ZipFault } from '../../lib/zip/end-record.ts';
import { bytesInMemory, FileWindow, type ZipBytes } from '../../lib/zip/zip-bytes.ts';
import type { Extracted } from '../file-work/tasks.ts';
import type { SkippedEntry } from '../store/manifest.ts';
import type { ArchiveSource } from './archive-destination.ts';
import type { EarlyEntries } from './early-unpacker.ts';
import {
  type ArchiveEntry,
  extractAll,
  type ExtractionOptions,
  type ExtractionOrder,
  type PackedArchive,
} from './extraction.ts';
import { locate, type PlacedEntry } from './layout.ts';
import { type ArchiveLimits, countRefusal } from './limits.ts';
import { listEntries } from './listing.ts';
import { damaged, Refusals } from './refusals.ts';
import { refusalsTogether } from './tree-policy.ts';

export type { ArchiveEntry, ExtractionOrder } from './extraction.ts';
export type { ArchiveLimits } from './limits.ts';

/** An archive whose directory was read and found acceptable. */
export interface Archive {
  /** In the order in which they lie in the file. */
  readonly entries: readonly ArchiveEntry[];
  readonly skipped: readonly SkippedEntry[];
  /**
   * Brings entries to files, several at a time; each is checked against its size and CRC-32.
   * @returns their outcomes, in the order of `orders`
   * @throws MirrorError `archive.damaged`, `disk.*`; the reason of the signal
   */
  readonly extract: (
    orders: readonly ExtractionOrder[],
    options: ExtractionOptions,
  ) => Promise<readonly Extracted[]>;
  readonly close: () => Promise<void>;
}

/**
 * Opens a downloaded zip archive and judges all of its entries before any of them is read.
 * @throws MirrorError `archive.damaged` when it is no whole zip archive, `archive.refused` under the entry policy or the
 *   limits, `disk.failed`
 */
export async function openArchive(source: ArchiveSource, limits: ArchiveLimits): Promise<Archive> {
  const opened = source.kind === 'memory' ? inMemory(source.bytes) : await inFile(source);
  try {
    const placed = await examine(opened.bytes, limits);
    return {
      entries: placed.flatMap(archiveEntry),
      skipped: placed.flatMap(({ verdict }) =>
        verdict.kind === 'skip' ? [{ path: verdict.path, reason: verdict.reason }] : [],
      ),
      extract: (orders, options) => extractAll(opened, orders, options),
      close: opened.close,
    };
  } catch (error) {
    await opened.close();
    throw damagedUnlessOurs(error);
  }
}

/** The bytes of an archive, for the reader of its directory and for the threads that unpack it. */
interface OpenedArchive extends PackedArchive {
  readonly bytes: ZipBytes;
  readonly close: () => Promise<void>;
}

function inMemory(bytes: Uint8Array<SharedArrayBuffer>): OpenedArchive {
  const { buffer, byteOffset, length } = bytes;
  return {
    bytes: bytesInMemory(Buffer.from(buffer, byteOffset, length)),
    packed: bytes,
    early: NONE_EARLY,
    close: () => Promise.resolve(),
  };
}

const NONE_EARLY: EarlyEntries = new Map();

async function inFile({ path, early }: Extract<ArchiveSource, { kind: 'file' }>): Promise<OpenedArchive> {
  const handle = await onDisk('opening the downloaded archive', () => open(path, 'r'));
  try {
    const { size } = await onDisk('opening the downloaded archive', () => handle.stat());
    const bytes = new FileWindow(handle.fd, size);
    return { bytes, packed: handle.fd, early, close: () => handle.close() };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function examine(bytes: ZipBytes, limits: ArchiveLimits): Promise<readonly PlacedEntry[]> {
  const end = await readEnd(bytes);
  const refusals = new Refusals();
  if (end.isMultiDisk) refusals.add({ message: 'The archive is one part of several.' });
  else if (end.entryCount > limits.maxEntries) {
    refusals.add(countRefusal(`has ${end.entryCount} entries`, limits));
  }
  refusals.throwIfAny();
  const entries = await listEntries(bytes, end, limits, refusals);
  const verdicts = entries.map(({ verdict }) => verdict);
  for (const refusal of refusalsTogether(verdicts, limits)) refusals.add(refusal);
  refusals.throwIfAny();
  const placed = await locate(bytes, entries, end, refusals, new Map());
  refusals.throwIfAny();
  return placed;
}

function archiveEntry({ entry, verdict, dataOffset }: PlacedEntry): ArchiveEntry[] {
  const { compressedBytes, sizeBytes, crc32, modifiedAtMs } = entry;
  if (verdict.kind !== 'file') return [];
  // Some programs call an empty file deflated and give no bytes for it.
  const isEmpty = compressedBytes === 0 && sizeBytes === 0;
  const isDeflated = entry.compressionMethod !== METHODS.stored && !isEmpty;
  return [{ path: verdict.path, modifiedAtMs, dataOffset, compressedBytes, sizeBytes, crc32, isDeflated }];
}

/** A fault of the archive or a read that ended early means that the archive is not whole; a disk error stays. */
function damagedUnlessOurs(error: unknown): MirrorError {
  if (error instanceof ZipFault) return damaged(error.message, error);
  if (error instanceof MirrorError || !(error instanceof Error)) return toMirrorError(error);
  if ('syscall' in error) return toMirrorError(diskError(error, 'reading the downloaded archive'));
  return damaged(`The archive is damaged: ${error.message}.`, error);
}
