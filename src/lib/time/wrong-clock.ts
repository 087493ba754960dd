/** A clock may have been ahead. A time in the future proves nothing, and never wins over another one. */

/** How far a clock may be set back, or differ from another machine's, before a time counts as wrong. In milliseconds. */
export const CLOCK_STEP_MS = 5 * 60 * 1000;

/** Whether any of some times lies in the future. All times in milliseconds since the epoch; null for never. */
export function isAhead(nowMs: number, ...timesMs: readonly (number | null)[]): boolean {
  return timesMs.some((timeMs) => timeMs !== null && timeMs > nowMs);
}

/** The latest of some times that is not in the future; 0 if there is none. */
export function latestUntil(nowMs: number, timesMs: readonly (number | null)[]): number {
  return Math.max(0, ...timesMs.map((timeMs) => (timeMs !== null && timeMs <= nowMs ? timeMs : 0)));
}

/** The latest of some times that is not in the future or, if all are, the latest; 0 if there is none. */
export function latestKnown(nowMs: number, timesMs: readonly (number | null)[]): number {
  const latestMs = latestUntil(nowMs, timesMs);
  return latestMs > 0 ? latestMs : latestUntil(Number.POSITIVE_INFINITY, timesMs);
}

/** Compares times for sorting: the latest first, and times in the future last. */
export function latestFirst(nowMs: number): (one: number, other: number) => number {
  return (one, other) => Number(one > nowMs) - Number(other > nowMs) || other - one;
}
