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
