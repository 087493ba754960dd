/** Whole milliseconds since a reading of `performance.now()`: unlike the time of day, that clock is never set. */
export function sinceMs(beganMs: number): number {
  return Math.round(performance.now() - beganMs);
}
