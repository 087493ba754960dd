import { entryRefusal, type Refusal } from './refusals.ts';

/** Bounds of an archive that is accepted. */
export interface ArchiveLimits {
  /** Most bytes of all files together, as the archive claims them; no entry gives more than it claims. */
  readonly maxUnpackedBytes: number;
  /** Most entries, and most files and folders that they make. */
  readonly maxEntries: number;
  /** How many times greater than the archive all files together may be, above 256 MiB of files. */
  readonly maxRatio: number;
  /** The way with names in one folder that differ only in case or Unicode form. */
  readonly nameTwins: 'refuse' | 'accept';
}

/** Below this many bytes of files together their ratio to the archive is not looked at. */
const RATIO_FREE_BYTES = 256 * 1024 * 1024;

/** The sizes that the entries of an archive claim, in bytes. */
export interface ClaimedSizes {
  readonly totalBytes: number;
  readonly greatest: { readonly name: string; readonly sizeBytes: number };
}

/** The refusal of the sizes that an archive claims; null where they are within the limits. */
export function sizeRefusal(
  { totalBytes, greatest }: ClaimedSizes,
  archiveBytes: number,
  { maxUnpackedBytes, maxRatio }: ArchiveLimits,
): Refusal | null {
  const part = `would unpack to ${greatest.sizeBytes} of ${totalBytes} bytes`;
  if (totalBytes > maxUnpackedBytes) {
    return entryRefusal(
      greatest.name,
      `${part}, and archive.maxUnpackedSize allows ${maxUnpackedBytes}`,
      'Make it smaller in the service, or raise archive.maxUnpackedSize',
    );
  }
  if (isTooDense(totalBytes, archiveBytes, maxRatio)) {
    return entryRefusal(
      greatest.name,
      `${part} from an archive of ${archiveBytes}, and archive.maxRatio allows ${maxRatio} times as much`,
      'If its content is meant to be like that, raise archive.maxRatio',
    );
  }
  return null;
}

function isTooDense(totalBytes: number, archiveBytes: number, maxRatio: number): boolean {
  return totalBytes > RATIO_FREE_BYTES && totalBytes > archiveBytes * maxRatio;
}

/** Whether so many bytes of files, from so many of an archive, are beyond the limits. */
export function isTooMuch(
  totalBytes: number,
  archiveBytes: number,
  { maxUnpackedBytes, maxRatio }: ArchiveLimits,
): boolean {
  return totalBytes > maxUnpackedBytes || isTooDense(totalBytes, archiveBytes, maxRatio);
}

/** The refusal of an archive with more entries, or more files and folders, than it may have. */
export function countRefusal(what: string, { maxEntries }: ArchiveLimits): Refusal {
  return {
    message: `The archive ${what}, and archive.maxEntries allows ${maxEntries}.`,
    advice: 'Make it smaller in the service, or raise archive.maxEntries',
  };
}

const NAME_BYTES_PER_ENTRY = 128;
const LEAST_NAME_BYTES = 16 * 1024 * 1024;

/** Most bytes that the names of an archive may have together: they are held in memory until it is unpacked. */
export function maxNameBytes({ maxEntries }: ArchiveLimits): number {
  return Math.max(LEAST_NAME_BYTES, maxEntries * NAME_BYTES_PER_ENTRY);
}
