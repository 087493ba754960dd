import { createHash, hash } from 'node:crypto';
import { lstatSync, renameSync, utimesSync } from 'node:fs';

import { DamagedEntryError, DoingError, StoppedError } from './failures.ts';
import { EntryFault, readWhole, stream } from './inflate.ts';
import { makingFolder, newFile, newFilePastCache } from './new-file.ts';
import type { EarlyFile, Extracted, ExtractEntry, ExtractRequest, KnownFile, PackedEntry } from './tasks.ts';

/** Entries up to this size are handled whole; greater ones in pieces, which are hashed and written while they are in the cache. */
const WHOLE_ENTRY_BYTES = 512 * 1024;

/** Of a pull that writes many bytes, entries from this size on go past the page cache. */
const PAST_CACHE_BYTES = 1024 * 1024;

/**
 * Brings entries of an archive to files, leaving out those whose known file is the same.
 * @param onBytes receives the number of bytes as they are written
 * @throws DamagedEntryError, StoppedError, DoingError
 */
export async function extract(
  request: ExtractRequest,
  onBytes: (bytes: number) => void,
): Promise<readonly Extracted[]> {
  const extracted: Extracted[] = [];
  for (const [index, entry] of request.entries.entries()) {
    if (Atomics.load(request.stop, 0) !== 0) throw new StoppedError('The archive is unpacked no further.');
    try {
      extracted.push(await extractOne(request, entry, onBytes));
    } catch (error) {
      throw error instanceof EntryFault ? new DamagedEntryError(index, error.message) : error;
    }
  }
  return extracted;
}

async function extractOne(
  request: ExtractRequest,
  entry: ExtractEntry,
  onBytes: (bytes: number) => void,
): Promise<Extracted> {
  const { known, packed, early } = entry;
  if (early !== null) return adopt(entry, early, onBytes);
  const isSmall = Math.max(packed.sizeBytes, packed.compressedBytes) <= WHOLE_ENTRY_BYTES;
  if (!isSmall) return extractLarge(request, entry, onBytes);
  const bytes = readWhole(request.packed, packed);
  onBytes(bytes.byteLength);
  const sha256 = hash('sha256', bytes, 'hex');
  const isRewritten = known?.sha256 === sha256;
  if (isRewritten && isIntact(known, packed)) return { kind: 'kept' };
  const timeMs = isRewritten ? entry.keptTimeMs : entry.mtimeMs;
  const mode = writing(entry.destination, () => writeNew(entry.destination, timeMs, bytes));
  return { kind: 'written', sha256, mode, isRewritten };
}

/** Brings an entry to its file that is unpacked already. What is not needed of it goes with the stage. */
function adopt(
  entry: ExtractEntry,
  { place, sha256, mode }: EarlyFile,
  onBytes: (bytes: number) => void,
): Extracted {
  const { known, packed, destination } = entry;
  onBytes(packed.sizeBytes);
  const isRewritten = known?.sha256 === sha256;
  if (isRewritten && isIntact(known, packed)) return { kind: 'kept' };
  const timeS = (isRewritten ? entry.keptTimeMs : entry.mtimeMs) / 1000;
  writing(destination, () => {
    utimesSync(place, timeS, timeS);
    makingFolder(destination, (path) => renameSync(place, path));
  });
  return { kind: 'written', sha256, mode, isRewritten };
}

/** Brings an entry to its file piece by piece, unless the known file turns out to be the same. */
async function extractLarge(
  request: ExtractRequest,
  entry: ExtractEntry,
  onBytes: (bytes: number) => void,
): Promise<Extracted> {
  const { packed, known, destination, mtimeMs, keptTimeMs } = entry;
  if (known !== null) {
    const sha256 = await digestOf(request, packed, (chunk) => onBytes(chunk.byteLength));
    if (known.sha256 === sha256 && isIntact(known, packed)) return { kind: 'kept' };
  }
  const isPastCache = request.isPastCache && packed.sizeBytes >= PAST_CACHE_BYTES;
  const make = isPastCache ? newFilePastCache : newFile;
  const file = writing(destination, () => make(destination));
  try {
    const sha256 = await digestOf(request, packed, (chunk) => {
      writing(destination, () => file.write(chunk));
      onBytes(chunk.byteLength);
    });
    const isRewritten = known?.sha256 === sha256;
    const mode = writing(destination, () => file.finish(isRewritten ? keptTimeMs : mtimeMs));
    return { kind: 'written', sha256, mode, isRewritten };
  } finally {
    file.close();
  }
}

async function digestOf(
  { packed, stop }: ExtractRequest,
  entry: PackedEntry,
  onChunk: (chunk: Uint8Array) => void,
): Promise<string> {
  const digest = createHash('sha256');
  for await (const chunk of stream(packed, entry, stop)) {
    digest.update(chunk);
    onChunk(chunk);
  }
  return digest.digest('hex');
}

function writeNew(destination: string, mtimeMs: number, bytes: Uint8Array): number {
  const file = newFile(destination);
  try {
    file.write(bytes);
    return file.finish(mtimeMs);
  } finally {
    file.close();
  }
}

/** Whether a published file still is what its manifest says, as far as `lstat` tells. */
function isIntact({ place, mode, mtimeMs, mayStay }: KnownFile, { sizeBytes }: PackedEntry): boolean {
  if (!mayStay) return false;
  const found = lstatSync(place, { throwIfNoEntry: false });
  return (
    found?.isFile() === true &&
    found.size === sizeBytes &&
    Math.round(found.mtimeMs) === mtimeMs &&
    (found.mode & 0o7777) === mode
  );
}

function writing<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new DoingError(`writing ${path}`, error, path);
  }
}
