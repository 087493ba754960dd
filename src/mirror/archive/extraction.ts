import { forEachConcurrently } from '../../lib/concurrency/concurrency.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { DamagedEntryError, StoppedError } from '../file-work/failures.ts';
import { BULK_THREADS, doInThread, withStopFlag } from '../file-work/pool.ts';
import type {
  EarlyFile,
  Extracted,
  ExtractEntry,
  ExtractRequest,
  PackedBytes,
  PackedEntry,
} from '../file-work/tasks.ts';
import type { EarlyEntries } from './early-unpacker.ts';
import { damagedEntry } from './refusals.ts';

/** A file in an archive, and what its bytes are held against. */
export interface ArchiveEntry extends PackedEntry {
  /** As the archive has it, with slashes, under the entry policy. */
  readonly path: string;
  /** Milliseconds since the epoch; a time without a zone is taken for UTC. */
  readonly modifiedAtMs: number;
}

/** The bytes of an archive that is open. */
export interface PackedArchive {
  readonly packed: PackedBytes;
  /** Entries whose bytes are in files of their own. */
  readonly early: EarlyEntries;
}

/** An entry and the file that it is to become; see `ExtractEntry`. */
export type ExtractionOrder = Omit<ExtractEntry, 'packed' | 'early'> & { readonly entry: ArchiveEntry };

/** How entries are brought to files. */
export interface ExtractionOptions {
  /** See `ExtractRequest`. */
  readonly isPastCache: boolean;
  readonly signal: AbortSignal;
  /** Receives the number of bytes as they are read or written. */
  readonly onBytes: (bytes: number) => void;
}

/** Items that are handed to a thread together: handing them over one by one would take longer than most of them. */
const MOST_ITEMS = 64;

/** Bytes at which a batch is full, so that threads share the work evenly. */
const FULL_BYTES = 4 * 1024 * 1024;

/** Batches of one archive on their way: while one is worked at, the next is at hand, and other archives have their turn. */
const BATCHES_AT_ONCE = BULK_THREADS + 1;

/** A run of items, and where it starts. */
interface Batch<T> {
  readonly start: number;
  readonly items: readonly T[];
}

/** Cuts items into batches, in their order; one alone may be greater than a batch should be. */
export function* batchesOf<T>(items: readonly T[], bytesOf: (item: T) => number): Generator<Batch<T>> {
  let start = 0;
  let bytes = 0;
  for (const [index, item] of items.entries()) {
    const itemBytes = bytesOf(item);
    const isFull = index - start === MOST_ITEMS || bytes + itemBytes > FULL_BYTES;
    if (isFull && index > start) {
      yield { start, items: items.slice(start, index) };
      start = index;
      bytes = 0;
    }
    bytes += itemBytes;
  }
  if (start < items.length) yield { start, items: items.slice(start) };
}

/**
 * Brings entries of an open archive to files, as `Archive.extract` says.
 * @param archive stays as it is until this ends
 */
export async function extractAll(
  { packed, early }: PackedArchive,
  orders: readonly ExtractionOrder[],
  { isPastCache, signal, onBytes }: ExtractionOptions,
): Promise<readonly Extracted[]> {
  for (const { entry } of orders) refuseDamaged(entry, early);
  const wanted = orders.map(({ entry, ...order }) => ({
    ...order,
    packed: entry,
    early: earlyFileOf(entry, early),
  }));
  const batches = batchesOf(wanted, ({ packed: entry, early: file }) =>
    file === null ? entry.compressedBytes + entry.sizeBytes : 0,
  );
  const extracted: Extracted[] = [];
  await withStopFlag(signal, (stop) =>
    forEachConcurrently(batches, BATCHES_AT_ONCE, async ({ start, items }) => {
      const done = await extractBatch({ packed, isPastCache, entries: items, stop }, onBytes);
      done.forEach((each, index) => {
        extracted[start + index] = each;
      });
    }),
  );
  return extracted;
}

/** @throws MirrorError `archive.damaged` for an entry that was found damaged while the archive arrived */
function refuseDamaged({ path, dataOffset }: ArchiveEntry, early: EarlyEntries): void {
  const found = early.get(dataOffset);
  if (found?.kind === 'damaged') throw damagedEntry(path, found.fault);
}

/**
 * The file that holds the bytes of an entry already; null where they are in the archive.
 * @throws MirrorError `archive.damaged` where it was unpacked as something else than the directory says: its bytes are gone
 */
function earlyFileOf(entry: ArchiveEntry, early: EarlyEntries): EarlyFile | null {
  const found = early.get(entry.dataOffset);
  if (found === undefined) return null;
  const { compressedBytes, sizeBytes, crc32, isDeflated } = found.entry;
  const isSame =
    compressedBytes === entry.compressedBytes &&
    sizeBytes === entry.sizeBytes &&
    crc32 === entry.crc32 &&
    isDeflated === entry.isDeflated;
  if (!isSame || found.kind !== 'file')
    throw damagedEntry(entry.path, 'is packed in another way than the directory says');
  const { place, sha256, mode } = found;
  return { place, sha256, mode };
}

/** Extracts a batch; a failure ends the other batches, too. */
async function extractBatch(
  request: ExtractRequest & { readonly entries: readonly { readonly packed: ArchiveEntry }[] },
  onBytes: (bytes: number) => void,
): Promise<readonly Extracted[]> {
  try {
    return await doInThread('extract', request, onBytes);
  } catch (error) {
    Atomics.store(request.stop, 0, 1);
    if (error instanceof StoppedError) throw new MirrorError('pass.abandoned', error.message);
    if (!(error instanceof DamagedEntryError)) throw error;
    throw damagedEntry(request.entries[error.index]?.packed.path ?? '', error.fault);
  }
}
