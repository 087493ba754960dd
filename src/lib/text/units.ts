import { MirrorError } from '../errors/errors.ts';

/** Durations and sizes as people write them. All arithmetic is exact: a value that would be rounded is refused. */

const DURATION_UNITS: ReadonlyMap<string, bigint> = new Map([
  ['d', 86_400_000n],
  ['h', 3_600_000n],
  ['m', 60_000n],
  ['s', 1000n],
  ['ms', 1n],
]);

/** `k` is 1000 and `Ki` is 1024 (IEC 80000-13), in any letter case; the `B` may be left out. */
const SIZE_UNITS: ReadonlyMap<string, bigint> = new Map([
  ['B', 1n],
  ['kB', 1000n],
  ['KiB', 1024n],
  ['MB', 1000n ** 2n],
  ['MiB', 1024n ** 2n],
  ['GB', 1000n ** 3n],
  ['GiB', 1024n ** 3n],
  ['TB', 1000n ** 4n],
  ['TiB', 1024n ** 4n],
  ['PB', 1000n ** 5n],
  ['PiB', 1024n ** 5n],
]);

const SIZE_UNITS_BY_SPELLING: ReadonlyMap<string, bigint> = new Map(
  [...SIZE_UNITS].flatMap(([unit, bytes]) => {
    const spelling = unit.toLowerCase();
    return [spelling, spelling.replace(/b$/, '')].map((name) => [name, bytes] as const);
  }),
);

const DURATION_EXPECTED = 'expected a duration such as 500ms, 90s, 5m, 2h, 1d or 1h30m';
const SIZE_EXPECTED = 'expected a size such as 2 GiB, 500MB or 10k';

/** Longer than any sensible value; keeps the arithmetic on hostile input small. */
const MAX_TEXT = 64;

const NUMBER = /^(\d+)(?:\.(\d+))?$/;
const DURATION_TERM = String.raw`\d+(?:\.\d+)? ?(?:ms|[smhd])`;
const DURATION = new RegExp(`^${DURATION_TERM}(?: ?${DURATION_TERM})*$`);
const SIZE = /^(\d+(?:\.\d+)?) ?([A-Za-z]*)$/;

/**
 * Parses a duration: numbers with a unit (`ms`, `s`, `m`, `h`, `d`), the larger unit first, each unit at most once.
 *
 * @returns milliseconds, a whole number
 * @throws MirrorError `usage.invalid`; the message says what is expected and leaves out the text itself
 */
export function parseDuration(text: string): number {
  const trimmed = text.trim();
  if (trimmed.length <= MAX_TEXT && NUMBER.test(trimmed)) {
    throw invalid(`${DURATION_EXPECTED} (say the unit)`);
  }
  if (trimmed.length > MAX_TEXT || !DURATION.test(trimmed)) throw invalid(DURATION_EXPECTED);
  let total = 0n;
  let previous: bigint | undefined;
  for (const [, number = '', unit = ''] of trimmed.matchAll(/([\d.]+) ?(ms|[smhd])/g)) {
    const milliseconds = DURATION_UNITS.get(unit) ?? 0n;
    if (previous !== undefined && milliseconds >= previous) {
      throw invalid(`${DURATION_EXPECTED} (the larger unit first, each once)`);
    }
    previous = milliseconds;
    total += exactProduct(number, milliseconds, 'a duration of whole milliseconds');
  }
  return safeNumber(total, 'a shorter duration');
}

/**
 * Writes a duration so that {@link parseDuration} gives the same number back.
 *
 * @param milliseconds a whole number, zero or more
 */
export function formatDuration(milliseconds: number): string {
  assertWhole(milliseconds);
  let rest = BigInt(milliseconds);
  if (rest === 0n) return '0s';
  let text = '';
  for (const [unit, size] of DURATION_UNITS) {
    const count = rest / size;
    rest %= size;
    if (count > 0n) text += `${String(count)}${unit}`;
  }
  return text;
}

/**
 * Parses a size in bytes: a number and a unit (`k`, `MB`, `GiB`, …); a bare number is bytes.
 *
 * @returns bytes, a whole number
 * @throws MirrorError `usage.invalid`; the message says what is expected and leaves out the text itself
 */
export function parseSize(text: string): number {
  const trimmed = text.trim();
  const match = trimmed.length > MAX_TEXT ? null : SIZE.exec(trimmed);
  const [, number = '', unit = ''] = match ?? [];
  const bytes = unit === '' ? 1n : SIZE_UNITS_BY_SPELLING.get(unit.toLowerCase());
  if (match === null || bytes === undefined) throw invalid(SIZE_EXPECTED);
  return safeNumber(exactProduct(number, bytes, 'a size of whole bytes'), 'a smaller size');
}

/**
 * Writes a size in the largest unit that divides it, so that {@link parseSize} gives the same number back.
 *
 * @param bytes a whole number, zero or more
 */
export function formatSize(bytes: number): string {
  assertWhole(bytes);
  const exact = BigInt(bytes);
  let text = `${String(exact)} B`;
  if (exact === 0n) return text;
  for (const [unit, size] of SIZE_UNITS) {
    if (exact % size === 0n) text = `${String(exact / size)} ${unit}`;
  }
  return text;
}

/** `number * unit` without rounding; `number` is decimal digits with at most one point. */
function exactProduct(number: string, unit: bigint, expected: string): bigint {
  const [, whole = '', fraction = ''] = NUMBER.exec(number) ?? [];
  const scale = 10n ** BigInt(fraction.length);
  const product = BigInt(whole + fraction) * unit;
  if (product % scale !== 0n) throw invalid(`expected ${expected}`);
  return product / scale;
}

function safeNumber(value: bigint, expected: string): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw invalid(`expected ${expected}`);
  return Number(value);
}

function assertWhole(value: number): void {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`not a whole number: ${String(value)}`);
}

function invalid(message: string): MirrorError {
  return new MirrorError('usage.invalid', message);
}
