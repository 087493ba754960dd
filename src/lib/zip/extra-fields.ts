import { Entry, type ExtraField, parseExtraFields } from 'yauzl';

import { storableTimeMs } from '../time/file-time.ts';

/** The extra fields of an entry (APPNOTE 6.3.10, section 4.5); null if one is longer than the bytes. */
export function extraFieldsIn(bytes: Buffer): readonly ExtraField[] | null {
  if (bytes.length === 0) return [];
  try {
    return parseExtraFields(bytes);
  } catch {
    return null;
  }
}

/** The extra field with sizes and places of 64 bits (section 4.5.3). */
const ZIP64 = 0x0001;
/** Marks a number that is in that field. */
const IN_EXTRA = 0xffffffff;

/** Reads numbers of a header, in the order of the zip64 field; null for one that this field lacks. */
export function numbersOf(bytes: Buffer, extra: readonly ExtraField[]): (at: number) => number | null {
  const wide = extra.find(({ id }) => id === ZIP64)?.data;
  let nextAt = 0;
  return (at) => {
    const short = bytes.readUInt32LE(at);
    if (short !== IN_EXTRA || wide === undefined) return short;
    nextAt += 8;
    return nextAt > wide.length ? null : uint64(wide, nextAt - 8);
  };
}

/** A number of 64 bits; beyond 2^53 it is not exact, and no file is as large as that. */
export function uint64(bytes: Buffer, at: number): number {
  return bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 0x1_0000_0000;
}

/**
 * The time of the last change of an entry, in milliseconds since the epoch, as a file system can store it. A time that its extra field
 * cannot hold, for example after 2038, is in the older field all the same, which has no zone and counts as UTC.
 * @param dosTime a DOS date and time, in 32 bits (APPNOTE 6.3.10, section 4.4.6)
 */
export function changeTimeMs(dosTime: number, extra: readonly ExtraField[]): number {
  const dated = { lastModFileDate: dosTime >>> 16, lastModFileTime: dosTime & 0xffff };
  const entry = Object.assign(new Entry(), dated, { extraFields: [...extra] });
  const timeMs = entry.getLastModDate({ timezone: 'UTC' }).getTime();
  if (timeMs === storableTimeMs(timeMs)) return timeMs;
  return storableTimeMs(entry.getLastModDate({ timezone: 'UTC', forceDosFormat: true }).getTime());
}
