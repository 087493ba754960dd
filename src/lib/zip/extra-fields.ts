/** The relevant facts in the extra fields of an entry (APPNOTE 6.3.10, section 4.5). */
export interface ExtraFacts {
  /** Whether there is a field with sizes and places of 64 bits (section 4.5.3). */
  readonly isWide: boolean;
  /** These numbers, in the order of the fields that have no room for them. */
  readonly wide: readonly number[];
  /** The time of the last change, in milliseconds since the epoch; null for none. */
  readonly modifiedAtMs: number | null;
}

/** The facts of an entry without such fields. */
export const NO_FACTS: ExtraFacts = { isWide: false, wide: [], modifiedAtMs: null };

const ZIP64 = 0x0001;
/** NTFS (section 4.5.5). */
const WINDOWS_TIMES = 0x000a;
/** Info-ZIP's "UT" (its file proginfo/extrafld.txt). */
const UNIX_TIMES = 0x5455;

/** Parses extra fields; null if one is longer than the bytes. */
export function parseExtraFields(bytes: Buffer, start: number, end: number): ExtraFacts | null {
  if (start === end) return NO_FACTS;
  let wide: readonly number[] | null = null;
  let modifiedAtMs: number | null = null;
  for (let at = start; at < end - 3;) {
    const id = bytes.readUInt16LE(at);
    const dataAt = at + 4;
    at = dataAt + bytes.readUInt16LE(at + 2);
    if (at > end) return null;
    if (id === ZIP64) wide ??= wideNumbers(bytes, dataAt, at);
    else if (id === UNIX_TIMES) modifiedAtMs ??= unixTimeMs(bytes, dataAt, at);
    else if (id === WINDOWS_TIMES) modifiedAtMs ??= windowsTimeMs(bytes, dataAt, at);
  }
  return { isWide: wide !== null, wide: wide ?? [], modifiedAtMs };
}

/** Marks a number that is in the zip64 extra field (section 4.5.3). */
const IN_EXTRA = 0xffffffff;

/** Reads numbers of a header, in the order of the zip64 field; null for one that this field lacks. */
export function numbersOf(bytes: Buffer, { isWide, wide }: ExtraFacts): (at: number) => number | null {
  const left = [...wide];
  return (at) => {
    const short = bytes.readUInt32LE(at);
    return short === IN_EXTRA && isWide ? (left.shift() ?? null) : short;
  };
}

function wideNumbers(bytes: Buffer, start: number, end: number): number[] {
  return Array.from({ length: Math.floor((end - start) / 8) }, (_, index) =>
    uint64(bytes, start + index * 8),
  );
}

/** A number of 64 bits; beyond 2^53 it is not exact, and no file is as large as that. */
export function uint64(bytes: Buffer, at: number): number {
  return bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 0x1_0000_0000;
}

const HAS_CHANGE_TIME = 1;

function unixTimeMs(bytes: Buffer, start: number, end: number): number | null {
  const isThere = end - start >= 5 && ((bytes[start] ?? 0) & HAS_CHANGE_TIME) !== 0;
  return isThere ? bytes.readInt32LE(start + 1) * 1000 : null;
}

/** Steps of 100 ns in a millisecond, and milliseconds from 1601 to 1970. */
const STEPS_PER_MS = 10_000;
const FROM_1601_MS = 11_644_473_600_000;

function windowsTimeMs(bytes: Buffer, start: number, end: number): number | null {
  const isThere =
    end - start === 32 && bytes.readUInt16LE(start + 4) === 1 && bytes.readUInt16LE(start + 6) === 24;
  if (!isThere) return null;
  const steps = bytes.readUInt32LE(start + 8) + bytes.readInt32LE(start + 12) * 0x1_0000_0000;
  return Math.trunc(steps / STEPS_PER_MS) - FROM_1601_MS;
}
