import { type HeldDeletion, holdDeselections } from './guard.ts';
import type { PlanInput } from './plan-input.ts';
import type { TargetRecord } from './record.ts';
import { targetKey } from '../upstream/listing.ts';
import type { Candidate } from './targets.ts';

/**
 * The targets that the settings no longer select and that are mirrored all the same until a person says so: too many were deselected
 * at once. For those the selection before stays in force.
 */
export function heldDeselections(
  candidates: readonly Candidate[],
  { records, approvals, policy }: PlanInput,
): ReadonlyMap<Candidate, HeldDeletion> {
  const recordOf = ({ target }: Candidate): TargetRecord | undefined => records.get(targetKey(target));
  const mirrored = candidates.filter(({ published, duplicate }) => published !== null && !duplicate);
  const deselected = mirrored.filter((candidate) => !candidate.selected && wasSelected(recordOf(candidate)));
  if (deselected.length === 0) return new Map();
  const total = mirrored.filter(({ selected }) => selected).length + deselected.length;
  const held = holdDeselections(deselected, {
    total,
    limit: policy.guard.targets,
    approvals,
    heldBefore: (target) => records.get(targetKey(target))?.held ?? null,
  });
  const deletion = { subject: 'deselected', deletions: held.length, of: total, digest: null } as const;
  return new Map(held.map((candidate) => [candidate, deletion]));
}

/** Whether a target was mirrored in the pass before. One of which nothing is remembered proves nothing. */
function wasSelected(record: TargetRecord | undefined): boolean {
  const [last] = record?.decisions ?? [];
  return last !== undefined && last.reason !== 'not-selected';
}
