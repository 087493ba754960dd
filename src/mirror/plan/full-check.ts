import { targetKey, type TargetId } from '../upstream/listing.ts';

/**
 * When a target is next compared whole: between half and the whole of the period after the last time, spread by target
 * and time so that targets that were mirrored together are not checked together. Milliseconds since the epoch.
 */
export function fullCheckDueMs(target: TargetId, checkedAtMs: number, fullCheckMs: number): number {
  let hash = 0x811c9dc5;
  for (const character of `${targetKey(target)}\n${checkedAtMs}`) {
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  }
  return checkedAtMs + Math.ceil(fullCheckMs * (0.5 + (hash / 0xffffffff) * 0.5));
}

/** The latest of some times that lies not in the future: a clock that was ahead proves nothing. 0 when there is none. */
export function latestUntil(nowMs: number, timesMs: readonly (number | null)[]): number {
  return timesMs.reduce<number>(
    (latest, timeMs) => (timeMs !== null && timeMs <= nowMs ? Math.max(latest, timeMs) : latest),
    0,
  );
}
