import { type FileHandle, open } from 'node:fs/promises';

import { DamagedEntryError, StoppedError } from '../file-work/failures.ts';
import { BULK_THREADS, doInThread, stopFlagOf } from '../file-work/pool.ts';
import type { Extracted, ExtractEntry, Sharing, StopFlag } from '../file-work/tasks.ts';
import { forEachConcurrently } from '../../lib/concurrency/concurrency.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import type { SkippedEntry } from '../store/manifest.ts';
import { batchesOf } from './batches.ts';
import { readEnd } from './end-record.ts';
import { METHOD_STORED } from './entry-policy.ts';
import { locate, type PlacedEntry } from './layout.ts';
import { type ArchiveLimits, countRefusal } from './limits.ts';
import { list } from './listing.ts';
import { damaged, damagedEntry, Refusals } from './refusals.ts';
import { refusalsTogether } from './tree-policy.ts';

export type { ArchiveLimits } from './limits.ts';

/** A file in an archive. */
export interface ArchiveEntry {
  /** As the archive has it, with slashes, under the entry policy. */
  readonly path: string;
  readonly sizeBytes: number;
  /** What the archive claims, and what its bytes are held against. */
  readonly crc32: number;
  /** Milliseconds since the epoch; a time without a zone is taken for UTC. */
  readonly modifiedAtMs: number;
}

/** What is to become of an entry; see `ExtractEntry`. */
export type ExtractionOrder = Omit<ExtractEntry, 'packed'> & { readonly entry: ArchiveEntry };

/** How entries are brought to files. */
export interface ExtractionOptions {
  readonly sharing: Sharing;
  readonly signal: AbortSignal;
  /** Is told of bytes as they are read or written. */
  readonly onBytes: (bytes: number) => void;
}

/** An archive whose directory was read and found acceptable. */
export interface Archive {
  /** In the order in which they lie in the file. */
  readonly entries: readonly ArchiveEntry[];
  readonly skipped: readonly SkippedEntry[];
  /**
   * Brings entries to files, several at a time; each is checked against its size and CRC-32.
   * @returns what became of them, in the order of the orders
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
export async function openArchive(path: string, limits: ArchiveLimits): Promise<Archive> {
  const handle = await onDisk('opening the downloaded archive', () => open(path, 'r'));
  try {
    const placedOf = new Map<ArchiveEntry, PlacedEntry>();
    const skipped: SkippedEntry[] = [];
    for (const placed of await examine(handle, limits)) {
      const { verdict, sizeBytes, crc, modifiedAtMs } = placed.entry;
      if (verdict.kind === 'file')
        placedOf.set({ path: verdict.path, sizeBytes, crc32: crc, modifiedAtMs }, placed);
      if (verdict.kind === 'skip') skipped.push({ path: verdict.path, reason: verdict.reason });
    }
    return {
      entries: [...placedOf.keys()],
      skipped,
      extract: (orders, options) => extractAll(handle.fd, placedOf, orders, options),
      close: () => handle.close(),
    };
  } catch (error) {
    await handle.close();
    throw damagedUnlessOurs(error);
  }
}

async function examine(handle: FileHandle, limits: ArchiveLimits): Promise<readonly PlacedEntry[]> {
  const { fd } = handle;
  const { size } = await handle.stat();
  const end = await readEnd(fd, size);
  const refused = new Refusals();
  if (end.isMultiDisk) refused.add({ message: 'The archive is one part of several.' });
  else if (end.entryCount > limits.maxEntries) {
    refused.add(countRefusal(`has ${end.entryCount} entries`, limits));
  }
  refused.throwIfAny();
  const { entries, refusals } = await list(fd, size, end, limits);
  for (const refusal of refusalsTogether(
    entries.map(({ verdict }) => verdict),
    limits,
  ))
    refusals.add(refusal);
  refusals.throwIfAny();
  const placed = await locate(fd, size, entries, end, refusals);
  refusals.throwIfAny();
  return placed;
}

/** Parts of one archive on their way: while one is worked at, the next is at hand, and other archives have their turn. */
const PARTS_AT_ONCE = BULK_THREADS + 1;

async function extractAll(
  fd: number,
  placedOf: ReadonlyMap<ArchiveEntry, PlacedEntry>,
  orders: readonly ExtractionOrder[],
  { sharing, signal, onBytes }: ExtractionOptions,
): Promise<Extracted[]> {
  const wanted = orders.map(({ entry, ...order }) => ({ ...order, packed: packedOf(placedOf, entry) }));
  const extracted: Extracted[] = [];
  const { stop, release } = stopFlagOf(signal);
  const parts = batchesOf(wanted, ({ packed }) => packed.compressedBytes + packed.sizeBytes);
  try {
    await forEachConcurrently(parts, PARTS_AT_ONCE, async ({ start, items }) => {
      const done = await extractPart({ fd, sharing, entries: items, stop }, onBytes).catch(
        (error: unknown) => {
          throw error instanceof DamagedEntryError ? damageOf(error, placedOf, orders, start) : error;
        },
      );
      done.forEach((each, index) => {
        extracted[start + index] = each;
      });
    });
    return extracted;
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    release();
  }
}

/** Has a part extracted; a failure ends the other parts, too. */
async function extractPart(
  request: { fd: number; sharing: Sharing; entries: readonly ExtractEntry[]; stop: StopFlag },
  onBytes: (bytes: number) => void,
): Promise<readonly Extracted[]> {
  try {
    return await doInThread('extract', request, onBytes);
  } catch (error) {
    Atomics.store(request.stop, 0, 1);
    throw error instanceof StoppedError ? new MirrorError('pass.abandoned', error.message) : error;
  }
}

function packedOf(
  placedOf: ReadonlyMap<ArchiveEntry, PlacedEntry>,
  entry: ArchiveEntry,
): ExtractEntry['packed'] {
  const placed = placedOf.get(entry);
  if (placed === undefined) throw new MirrorError('internal.defect', `${entry.path} is not of this archive.`);
  const { compressedBytes, sizeBytes, crc, compressionMethod } = placed.entry;
  // Some programs call an empty file deflated and give no bytes for it.
  const isEmpty = compressedBytes === 0 && sizeBytes === 0;
  const isDeflated = compressionMethod !== METHOD_STORED && !isEmpty;
  return { dataOffset: placed.dataOffset, compressedBytes, sizeBytes, crc32: crc, isDeflated };
}

function damageOf(
  { index, fault }: DamagedEntryError,
  placedOf: ReadonlyMap<ArchiveEntry, PlacedEntry>,
  orders: readonly ExtractionOrder[],
  start: number,
): MirrorError {
  const entry = orders[start + index]?.entry;
  const placed = entry === undefined ? undefined : placedOf.get(entry);
  return damagedEntry(placed?.entry.name ?? '', fault);
}

/** An error of yauzl's or of a read that ended early means that the archive is not whole; a disk error stays. */
function damagedUnlessOurs(error: unknown): MirrorError {
  if (error instanceof MirrorError) return error;
  if (!(error instanceof Error)) return toMirrorError(error);
  const isDiskError = 'syscall' in error;
  if (isDiskError) {
    return new MirrorError('disk.failed', `Cannot read the downloaded archive: ${error.message}.`, {
      cause: error,
    });
  }
  return damaged(`The archive is damaged: ${error.message}.`, error);
}
