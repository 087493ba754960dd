import { type FileHandle, open } from 'node:fs/promises';

import { onDisk } from '../model/disk-errors.ts';
import { MirrorError, toMirrorError } from '../model/errors.ts';
import type { SkippedEntry } from '../model/manifest.ts';
import { readWhole, stream } from './content.ts';
import { readEnd } from './end-record.ts';
import { locate, type PlacedEntry } from './layout.ts';
import { type ArchiveLimits, countRefusal } from './limits.ts';
import { list } from './listing.ts';
import { damaged, quoted, Refusals } from './refusals.ts';
import { refusalsTogether } from './tree-policy.ts';

export type { ArchiveLimits } from './limits.ts';

/** Entries up to this size pass through memory whole; greater ones are streamed. */
const WHOLE_ENTRY_BYTES = 2 * 1024 * 1024;

/** A file in an archive. */
export interface ArchiveEntry {
  /** As the archive has it, with slashes, under the entry policy. */
  readonly path: string;
  readonly sizeBytes: number;
  /** Milliseconds since the epoch; a time without a zone is taken for UTC. */
  readonly modifiedAtMs: number;
  /** The bytes, checked against size and CRC-32 by the time the last chunk is given. */
  readonly read: () => AsyncIterable<Uint8Array>;
  /** The bytes at once, for entries that are small; null for others. Checked. */
  readonly readWhole: () => Promise<Uint8Array | null>;
}

/** An archive whose directory was read and found acceptable. */
export interface Archive {
  /** In the order in which they lie in the file. */
  readonly entries: readonly ArchiveEntry[];
  readonly skipped: readonly SkippedEntry[];
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
    const entries: ArchiveEntry[] = [];
    const skipped: SkippedEntry[] = [];
    for (const placed of await examine(handle, limits)) {
      const { verdict } = placed.entry;
      if (verdict.kind === 'file') entries.push(readable(handle, placed, verdict.path));
      if (verdict.kind === 'skip') skipped.push({ path: verdict.path, reason: verdict.reason });
    }
    return { entries, skipped, close: () => handle.close() };
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

function readable(handle: FileHandle, placed: PlacedEntry, path: string): ArchiveEntry {
  const { sizeBytes, compressedBytes, modifiedAtMs } = placed.entry;
  const isSmall = sizeBytes <= WHOLE_ENTRY_BYTES && compressedBytes <= WHOLE_ENTRY_BYTES;
  const whole = async (): Promise<Uint8Array> => {
    try {
      return await readWhole(handle.fd, placed);
    } catch (error) {
      throw damagedUnlessOurs(error, path);
    }
  };
  const pieces = async function* pieces(): AsyncGenerator<Uint8Array> {
    try {
      yield* stream(handle.fd, placed);
    } catch (error) {
      throw damagedUnlessOurs(error, path);
    }
  };
  return {
    path,
    sizeBytes,
    modifiedAtMs,
    readWhole: () => (isSmall ? whole() : Promise.resolve(null)),
    read: async function* read() {
      if (isSmall) yield await whole();
      else yield* pieces();
    },
  };
}

/** An error of yauzl's, zlib's or of a read that ended early means that the archive is not whole; a disk error stays. */
function damagedUnlessOurs(error: unknown, path?: string): MirrorError {
  if (error instanceof MirrorError) return error;
  if (!(error instanceof Error)) return toMirrorError(error);
  const isDiskError = 'syscall' in error;
  if (isDiskError) {
    return new MirrorError('disk.failed', `Cannot read the downloaded archive: ${error.message}.`, {
      cause: error,
    });
  }
  const where = path === undefined ? 'The archive' : `The archive's entry ${quoted(path)}`;
  return damaged(`${where} is damaged: ${error.message}.`, error);
}
