import { createHash } from 'node:crypto';

import { type Entry, fromBufferPromise } from 'yauzl';

import { findLeadingFolder, type LeadingFolder } from '../mirror/archive/policy.ts';
import { countsOf } from './words.ts';

/** The directory of an archive. */
export interface ArchiveFacts {
  /** By their names in the archive. */
  readonly files: ReadonlyMap<string, FileFacts>;
  readonly folderEntries: number;
  /** Numbers of the compression methods (APPNOTE 6.3.10, section 4.4.5), with how many files have them. */
  readonly methods: ReadonlyArray<readonly [number, number]>;
  /** How many entries have their sizes behind their content (section 4.4.4, bit 3). */
  readonly dataDescriptors: number;
  /** How many entries have names marked as UTF-8 (bit 11). */
  readonly utf8Names: number;
  readonly isZip64: boolean;
  readonly hasComment: boolean;
  /** Whether there is one folder around everything that the listing does not know. */
  readonly leadingFolder: LeadingFolder['kind'];
  /** That folder with its slash; empty where there is none. */
  readonly prefix: string;
}

/** A file in an archive. */
interface FileFacts {
  readonly sizeBytes: number;
  readonly crc32: number;
  /** Taken for UTC where it has no zone, in milliseconds since the epoch. */
  readonly modifiedAtMs: number;
}

const LOCATOR_SIGNATURE = 0x07064b50;
const ZIP64_EXTRA = 0x0001;

/**
 * Reads the directory of an archive.
 * @param workbookPaths paths of the workbooks that are listed on its branch
 * @returns null when it cannot be read
 */
export async function examineArchive(
  bytes: Buffer,
  workbookPaths: Iterable<string>,
): Promise<ArchiveFacts | null> {
  try {
    const zip = await fromBufferPromise(bytes, { strictFileNames: false, validateEntrySizes: false });
    const entries: Entry[] = [];
    for await (const entry of zip.eachEntry()) entries.push(entry);
    const files = entries.filter(({ fileName }) => !fileName.endsWith('/'));
    const names = files.map(({ fileName }) => fileName);
    const leading = findLeadingFolder(names, workbookPaths);
    return {
      files: new Map(files.map((entry) => [entry.fileName, factsOf(entry)])),
      folderEntries: entries.length - files.length,
      methods: countsOf(files.map(({ compressionMethod }) => compressionMethod)),
      dataDescriptors: entries.filter(({ generalPurposeBitFlag: flags }) => (flags & 0x8) !== 0).length,
      utf8Names: entries.filter(({ generalPurposeBitFlag: flags }) => (flags & 0x800) !== 0).length,
      isZip64:
        hasZip64End(bytes, zip.comment) ||
        entries.some((entry) => entry.extraFields.some(({ id }) => id === ZIP64_EXTRA)),
      hasComment: zip.comment.length > 0,
      leadingFolder: leading.kind,
      prefix: leading.kind === 'wrapped' ? `${leading.folder}/` : '',
    };
  } catch {
    return null;
  }
}

function factsOf(entry: Entry): FileFacts {
  return {
    sizeBytes: entry.uncompressedSize,
    crc32: entry.crc32,
    modifiedAtMs: entry.getLastModDate({ timezone: 'UTC' }).getTime(),
  };
}

/** The paths in the repository: a folder around everything is taken off. */
export function innerPaths({ files, prefix }: ArchiveFacts): string[] {
  return [...files.keys()].map((name) => name.slice(prefix.length));
}

/** Whether there is a locator of the zip64 end record before the end record (section 4.3.15). */
function hasZip64End(bytes: Buffer, comment: string): boolean {
  const at = bytes.length - Buffer.byteLength(comment) - 22 - 20;
  return at >= 0 && bytes.readUInt32LE(at) === LOCATOR_SIGNATURE;
}

/** The same for archives with the same files, whatever their order, times and packing. */
export function contentKey({ files }: ArchiveFacts): string {
  const lines = [...files].map(([path, { sizeBytes, crc32 }]) => `${path}\0${sizeBytes}\0${crc32}`).sort();
  return createHash('sha256').update(lines.join('\n')).digest('hex');
}

/** The times in an archive are whole two seconds (section 4.4.6). */
const RESOLUTION_MS = 2000;
const MINUTE_MS = 60_000;

/** Says how the times of files agree with those of their versions: where all differ alike, the archive's are local ones. */
export function compareTimes(
  files: ReadonlyMap<string, { readonly modifiedAtMs: number }>,
  versionTimesMs: ReadonlyMap<string, number>,
): string {
  const differences = [...versionTimesMs]
    .map(([path, versionMs]) => (files.get(path)?.modifiedAtMs ?? Number.NaN) - versionMs)
    .filter((differenceMs) => !Number.isNaN(differenceMs));
  if (differences.length === 0) return 'nothing to compare';
  const near = (aimMs: number): number =>
    differences.filter((each) => Math.abs(each - aimMs) <= RESOLUTION_MS).length;
  if (near(0) === differences.length) return 'yes';
  const shiftMs = Math.round((differences[0] ?? 0) / (15 * MINUTE_MS)) * 15 * MINUTE_MS;
  const isZone = Math.abs(shiftMs) <= 14 * 60 * MINUTE_MS;
  if (isZone && near(shiftMs) === differences.length)
    return `no: all shifted by ${shiftMs / MINUTE_MS} minutes`;
  const times = new Set([...files.values()].map(({ modifiedAtMs }) => modifiedAtMs));
  if (files.size > 1 && times.size === 1) return 'no: all files have one time';
  return `${near(0)} of ${differences.length}`;
}
