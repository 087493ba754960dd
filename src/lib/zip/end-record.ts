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

/** The numbers of an end record: in 16 and 32 bits or, under zip64, in 32 and 64. */
type EndNumbers = readonly [
  disk: number,
  directoryDisk: number,
  entriesHere: number,
  entryCount: number,
  directoryBytes: number,
  directoryOffset: number,
];

/** The numbers of a short record that are only in the long one. */
const ALL_ONES: EndNumbers = [0xffff, 0xffff, 0xffff, 0xffff, 0xffffffff, 0xffffffff];

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
  const end = endNumbers(tail.subarray(at));
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
  const zip64 = zip64Numbers(record);
  if (end.some((number, index) => number !== ALL_ONES[index] && number !== zip64[index])) throw disagreeing();
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

function endNumbers(record: Buffer): EndNumbers {
  const short = (at: number): number => record.readUInt16LE(at);
  return [short(4), short(6), short(8), short(10), record.readUInt32LE(12), record.readUInt32LE(16)];
}

function zip64Numbers(record: Buffer): EndNumbers {
  const long = (at: number): number => uint64(record, at);
  return [record.readUInt32LE(16), record.readUInt32LE(20), long(24), long(32), long(40), long(48)];
}

function placeOf(numbers: EndNumbers, end: number, hasOtherDisks: boolean): DirectoryPlace {
  const [disk, directoryDisk, entriesHere, entryCount, directoryBytes, offset] = numbers;
  const isMultiDisk = hasOtherDisks || disk !== 0 || directoryDisk !== 0;
  const place = { offset, end, entryCount, isMultiDisk };
  if (isMultiDisk) return place;
  if (entriesHere !== entryCount) throw disagreeing();
  if (offset + directoryBytes !== end)
    throw new ZipFault(
      "The archive's directory is not where its end record says: a part is missing, or something is before it.",
    );
  if (entryCount * DIRECTORY_ENTRY_BYTES > directoryBytes)
    throw new ZipFault(
      `The archive's directory has no room for the ${entryCount} entries that its end record claims.`,
    );
  return place;
}

function disagreeing(): ZipFault {
  return new ZipFault("The archive's end records contradict each other.");
}
