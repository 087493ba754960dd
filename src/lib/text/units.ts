import { MirrorError } from '../errors/errors.ts';

/** Durations and sizes as people write them. */

/** In milliseconds, the largest first. */
const DURATION_UNITS: ReadonlyMap<string, number> = new Map([
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
]);

/** In bytes, the largest last. `k` is 1000 and `Ki` is 1024 (IEC 80000-13), in any letter case; the `B` may be left out. */
const SIZE_UNITS: ReadonlyMap<string, number> = new Map([
  ['B', 1],
  ['kB', 1000],
  ['KiB', 1024],
  ['MB', 1000 ** 2],
  ['MiB', 1024 ** 2],
  ['GB', 1000 ** 3],
  ['GiB', 1024 ** 3],
  ['TB', 1000 ** 4],
  ['TiB', 1024 ** 4],
  ['PB', 1000 ** 5],
  ['PiB', 1024 ** 5],
]);

const DURATION_EXPECTED =
  'expected a duration such as 500ms, 90s, 5m, 2h, 1d or 1h30m (each number with its unit, the larger unit first)';
const SIZE_EXPECTED = 'expected a size such as 2 GiB, 500MB or 10k';

/** Each unit at most once, the largest first; its number is the group with its name. */
const DURATION = new RegExp(
  `^${[...DURATION_UNITS.keys()].map((unit) => String.raw`(?: ?(?<${unit}>\d+(?:\.\d+)?) ?${unit})?`).join('')}$`,
);
const SIZE = /^(\d+(?:\.\d+)?) ?([A-Za-z]*)$/;

/**
 * Parses a duration: numbers with a unit (`ms`, `s`, `m`, `h`, `d`), the larger unit first, each unit at most once.
 * @returns milliseconds, a whole number
 * @throws MirrorError `usage.invalid`; the message shows the expected form and leaves out the text itself
 */
export function parseDuration(text: string): number {
  const trimmed = text.trim();
  const { groups } = DURATION.exec(trimmed) ?? {};
  if (groups === undefined || trimmed === '') throw invalid(DURATION_EXPECTED);
  let totalMs = 0;
  for (const [unit, unitMs] of DURATION_UNITS) totalMs += Number(groups[unit] ?? 0) * unitMs;
  return whole(totalMs, 'milliseconds', 'a shorter duration');
}

/**
 * Formats a duration so that {@link parseDuration} returns the same number.
 * @param milliseconds a whole number, zero or more
 */
export function formatDuration(milliseconds: number): string {
  let restMs = milliseconds;
  let text = '';
  for (const [unit, unitMs] of DURATION_UNITS) {
    const count = Math.floor(restMs / unitMs);
    restMs %= unitMs;
    if (count > 0) text += `${count}${unit}`;
  }
  return text === '' ? '0s' : text;
}

/**
 * Parses a size in bytes: a number and a unit (`k`, `MB`, `GiB`, …); a bare number is bytes.
 * @returns bytes, a whole number
 * @throws MirrorError `usage.invalid`; the message shows the expected form and leaves out the text itself
 */
export function parseSize(text: string): number {
  const [, number, unit = ''] = SIZE.exec(text.trim()) ?? [];
  const spelling = unit.toLowerCase().replace(/b?$/, 'b');
  const [, unitBytes] = [...SIZE_UNITS].find(([each]) => each.toLowerCase() === spelling) ?? [];
  if (number === undefined || unitBytes === undefined) throw invalid(SIZE_EXPECTED);
  return whole(Number(number) * unitBytes, 'bytes', 'a smaller size');
}

/**
 * Formats a size in the largest unit that divides it, so that {@link parseSize} returns the same number.
 * @param bytes a whole number, zero or more
 */
export function formatSize(bytes: number): string {
  const units = [...SIZE_UNITS].filter(([, unitBytes]) => bytes % unitBytes === 0 && unitBytes <= bytes);
  const [unit, unitBytes] = units.at(-1) ?? ['B', 1];
  return `${bytes / unitBytes} ${unit}`;
}

/** The whole number meant by a product with a decimal fraction. @param smaller the advice if it is too large */
function whole(value: number, unit: string, smaller: string): number {
  const rounded = Math.round(value);
  if (rounded > Number.MAX_SAFE_INTEGER) throw invalid(`expected ${smaller}`);
  // A binary fraction differs slightly from a decimal one.
  if (Math.abs(value - rounded) > 1e-6 * Math.max(1, value)) throw invalid(`expected whole ${unit}`);
  return rounded;
}

function invalid(message: string): MirrorError {
  return new MirrorError('usage.invalid', message);
}
