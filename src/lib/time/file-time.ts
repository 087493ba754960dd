/** The last second that every file system can store; the first is 0 (ext4 with small inodes, xfs without `bigtime`). */
const LAST_SECOND = 2 ** 31 - 1;

/**
 * The nearest time that every file system can store. A file system changes a time that it cannot store, and a file with another time
 * than its manifest says would look as if someone had changed it.
 * @param timeMs milliseconds since the epoch
 */
export function storableTimeMs(timeMs: number): number {
  return Math.min(Math.max(0, timeMs), LAST_SECOND * 1000);
}

/**
 * The time for new bytes of a path. rsync and other programs take a file of the same size and second for the same file, and would keep
 * the old bytes for good: so new bytes get the second after the old ones.
 * @param timeMs the time of the new bytes; like all others in milliseconds since the epoch
 * @param before the time of the file with the same size and other bytes
 * @param beforeOwn the time of the file before without this rule: a third file of that second would collide with the first one
 */
export function timeApartMs(timeMs: number, before: number, beforeOwn: number): number {
  const second = secondOf(timeMs);
  const last = secondOf(before);
  if (second !== last && second !== secondOf(beforeOwn)) return timeMs;
  return (last < LAST_SECOND ? last + 1 : last - 1) * 1000;
}

/** Whether a file has an intended time, or the one that {@link timeApartMs} gave it instead. */
export function isTimeFor(timeMs: number, foundMs: number): boolean {
  return foundMs === timeMs || foundMs === timeApartMs(timeMs, timeMs, timeMs);
}

function secondOf(timeMs: number): number {
  return Math.floor(timeMs / 1000);
}
