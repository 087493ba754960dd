import { isAhead } from '../../lib/time/wrong-clock.ts';
import type { PlanInput } from './input.ts';
import type { Published, TargetRecord } from './record.ts';
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

/**
 * Whether a tree is to be read whole again, and the contents compared with it. A pull of what changed in between is none of
 * that: it does not look at the bytes of the other files.
 */
export function isCheckDue(
  target: TargetId,
  { examinedAtMs, checkedAtMs }: TargetRecord,
  published: Published,
  { nowMs, policy }: PlanInput,
): boolean {
  const { verifiedAtMs, comparedAtMs, publishedAtMs, restoredAtMs } = published;
  // A clock that was ahead wrote this manifest: the check writes it again.
  if (isAhead(nowMs, verifiedAtMs, comparedAtMs, publishedAtMs, restoredAtMs)) return true;
  const lastMs = examinedAtMs ?? Math.max(checkedAtMs ?? 0, comparedAtMs ?? verifiedAtMs);
  return nowMs >= fullCheckDueMs(target, lastMs, policy.fullCheckMs);
}

/** Contents that lack a listed workbook may have it again without a new version: they are looked at again after this, in milliseconds. */
const MISSING_CHECK_MS = 60 * 60_000;

/** The longest time between two comparisons of a tree with the whole contents, in milliseconds. */
export function comparisonPeriodMs({ missing }: Pick<Published, 'missing'>, fullCheckMs: number): number {
  return missing.length === 0 ? fullCheckMs : Math.min(fullCheckMs, MISSING_CHECK_MS);
}

/** Whether contents that lacked a listed workbook are to be looked at again. */
export function isMissingDue(
  target: TargetId,
  { checkedAtMs }: TargetRecord,
  published: Published,
  { nowMs, policy }: PlanInput,
): boolean {
  if (published.missing.length === 0) return false;
  const lastMs = Math.max(checkedAtMs ?? 0, published.comparedAtMs ?? published.verifiedAtMs);
  return nowMs >= fullCheckDueMs(target, lastMs, comparisonPeriodMs(published, policy.fullCheckMs));
}
