import { diskError } from '../../lib/errors/disk-errors.ts';
import { MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { readEnd, ZipFault } from '../../lib/zip/end-record.ts';
import type { ZipBytes } from '../../lib/zip/zip-bytes.ts';
import { locate, type PlacedEntry, type ArrivedHeader } from './layout.ts';
import { listEntries } from './listing.ts';
import { type ArchiveLimits, countRefusal, damaged, Refusals, refusalsTogether } from './policy.ts';

/**
 * Reads the directory of an archive, and judges all of its entries.
 * @param bytes those that were kept
 * @param arrived the entries before them, by where their headers lie
 * @returns the entries in the order of the archive
 * @throws MirrorError `archive.damaged` when it is no whole zip archive, `archive.refused` under the entry policy or the
 *   limits, `disk.failed`
 */
export async function examine(
  bytes: ZipBytes,
  limits: ArchiveLimits,
  arrived: ReadonlyMap<number, ArrivedHeader>,
): Promise<readonly PlacedEntry[]> {
  try {
    return await judge(bytes, limits, arrived);
  } catch (error) {
    throw damagedUnlessOurs(error);
  }
}

async function judge(
  bytes: ZipBytes,
  limits: ArchiveLimits,
  arrived: ReadonlyMap<number, ArrivedHeader>,
): Promise<readonly PlacedEntry[]> {
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
  const placed = await locate(bytes, entries, end, refusals, arrived);
  refusals.throwIfAny();
  return placed;
}

/** An error of yauzl's or of a read that ended early means that the archive is not whole; a disk error stays. */
function damagedUnlessOurs(error: unknown): MirrorError {
  if (error instanceof ZipFault) return damaged(error.message, error);
  if (error instanceof MirrorError || !(error instanceof Error)) return toMirrorError(error);
  if ('syscall' in error) return toMirrorError(diskError(error, 'reading the downloaded archive'));
  return damaged(`The archive is damaged: ${error.message}.`, error);
}
