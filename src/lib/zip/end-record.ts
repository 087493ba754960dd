import { uint64 } from './entry-facts.ts';

/** A zip archive is not whole, or contradicts itself. The message is a full sentence. */
export class ZipFault extends Error {}

/**
 * Reads a part of an archive. The bytes are valid until the next part is read.
 * @throws ZipFault if the archive lacks some of it; Error of the disk
 */
export type ReadBytes = (position: number, lengthBytes: number) => Buffer;

export function endedEarly(): ZipFault {
  return new ZipFault('The archive is damaged: unexpected end of the file.');
}

/** The place of an archive's central directory, and its claimed contents. Positions and sizes in bytes. */
export interface DirectoryPlace {
  readonly offset: number;
  readonly end: number;
  readonly entryCount: number;
  /** Whether the archive is one part of several. */
  readonly isMultiDisk: boolean;
}

const END_BYTES = 22;
const LOCATOR_BYTES = 20;
const ZIP64_END_BYTES = 56;
const END_SIGNATURE = 0x06054b50;
const LOCATOR_SIGNATURE = 0x07064b50;
const ZIP64_END_SIGNATURE = 0x06064b50;
/** The fixed part of an entry of the directory (APPNOTE 6.3.10, section 4.3.12). */
export const DIRECTORY_ENTRY_BYTES = 46;

/** An end record, with fields of 16 and 32 bits or, under zip64, of 32 and 64. */
interface EndRecord {
  readonly disks: readonly number[];
  readonly entriesHere: number;
  readonly entryCount: number;
  readonly directoryBytes: number;
  readonly directoryOffset: number;
}

/** The most bytes of an archive's end that are examined: the end record with the longest comment, and the records of zip64. */
export const END_AREA_BYTES = 128 * 1024;

/**
 * Reads the end of an archive (APPNOTE 6.3.10, sections 4.3.14 to 4.3.16): the last end record counts, and directory,
 * zip64 records, end record and comment must follow each other and end where the file ends. So there is one reading of an
 * archive, even if its comment or something before or behind it looks like a record.
 * @param tail its last bytes, {@link END_AREA_BYTES} or all
 * @param sizeBytes of the whole archive
 * @throws ZipFault
 */
export function readEnd(tail: Buffer, sizeBytes: number): DirectoryPlace {
  const tailStart = sizeBytes - tail.length;
  const at = findEnd(tail);
  const end = parseEnd(tail.subarray(at));
  const locatorAt = at - LOCATOR_BYTES;
  const isZip64 = locatorAt >= 0 && tail.readUInt32LE(locatorAt) === LOCATOR_SIGNATURE;
  if (!isZip64) return placeOf(end, tailStart + at, false);
  const locator = tail.subarray(locatorAt, at);
  const isMultiDisk = locator.readUInt32LE(4) !== 0 || locator.readUInt32LE(16) > 1;
  const recordAt = uint64(locator, 8) - tailStart;
  if (recordAt < 0 || recordAt + ZIP64_END_BYTES > locatorAt) throw disagreeing();
  const record = tail.subarray(recordAt, locatorAt);
  if (record.readUInt32LE(0) !== ZIP64_END_SIGNATURE) throw disagreeing();
  if (uint64(record, 4) + 12 !== record.length) throw disagreeing();
  const zip64 = parseZip64End(record);
  if (!agree(end, zip64)) throw disagreeing();
  return placeOf(zip64, tailStart + recordAt, isMultiDisk);
}

function findEnd(tail: Buffer): number {
  for (let at = tail.length - END_BYTES; at >= 0; at -= 1) {
    if (tail.readUInt32LE(at) !== END_SIGNATURE) continue;
    if (tail.readUInt16LE(at + 20) === tail.length - at - END_BYTES) return at;
    throw new ZipFault(
      'The archive does not end where its end record says: it is cut off, or something is behind it.',
    );
  }
  throw new ZipFault('The archive has no end record: it is no zip archive, or it is cut off.');
}

function parseEnd(record: Buffer): EndRecord {
  return {
    disks: [record.readUInt16LE(4), record.readUInt16LE(6)],
    entriesHere: record.readUInt16LE(8),
    entryCount: record.readUInt16LE(10),
    directoryBytes: record.readUInt32LE(12),
    directoryOffset: record.readUInt32LE(16),
  };
}

function parseZip64End(record: Buffer): EndRecord {
  return {
    disks: [record.readUInt32LE(16), record.readUInt32LE(20)],
    entriesHere: uint64(record, 24),
    entryCount: uint64(record, 32),
    directoryBytes: uint64(record, 40),
    directoryOffset: uint64(record, 48),
  };
}

/** Whether the short record agrees with the long one, except for all-ones fields. */
function agree(end: EndRecord, zip64: EndRecord): boolean {
  const pairs: readonly (readonly [number, number, number])[] = [
    [end.entriesHere, zip64.entriesHere, 0xffff],
    [end.entryCount, zip64.entryCount, 0xffff],
    [end.directoryBytes, zip64.directoryBytes, 0xffffffff],
    [end.directoryOffset, zip64.directoryOffset, 0xffffffff],
  ];
  const disks = end.disks.every((disk, index) => disk === 0xffff || disk === zip64.disks[index]);
  return disks && pairs.every(([short, long, ones]) => short === ones || short === long);
}

function placeOf(record: EndRecord, recordPosition: number, isMultiDisk: boolean): DirectoryPlace {
  const { disks, entriesHere, entryCount, directoryBytes, directoryOffset } = record;
  if (isMultiDisk || disks.some((disk) => disk !== 0)) {
    return { offset: directoryOffset, end: recordPosition, entryCount, isMultiDisk: true };
  }
  if (entriesHere !== entryCount) throw disagreeing();
  if (directoryOffset + directoryBytes !== recordPosition) {
    throw new ZipFault(
      "The archive's directory is not where its end record says: a part is missing, or something is before it.",
    );
  }
  if (entryCount * DIRECTORY_ENTRY_BYTES > directoryBytes) {
    throw new ZipFault(
      `The archive's directory has no room for the ${entryCount} entries that its end record claims.`,
    );
  }
  return { offset: directoryOffset, end: recordPosition, entryCount, isMultiDisk };
}

function disagreeing(): ZipFault {
  return new ZipFault("The archive's end records contradict each other.");
}
