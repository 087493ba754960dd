import type { Action } from './actions.ts';
import { RETIRE_REASONS } from './actions.ts';
import { type Approvals, type HeldDeletion, holdTogether, isApproved } from './guard.ts';
import type { PlanInput } from './input.ts';
import type { TargetRecord } from './record.ts';
import { targetKey } from '../upstream/listing.ts';
import type { Candidate } from './targets.ts';
import type { Published } from './published.ts';

/** How many targets are mirrored of those that are selected: what a share of them refers to. */
function mirroredTargets(plan: readonly Action[]): number {
  return plan.filter((action) => action.published !== null && action.reason !== 'not-selected').length;
}

/** Holds the retirements of a pass when they are too many, and what was to take the places of their trees. */
export function guardRetirements(
  plan: readonly Action[],
  { policy, records, approvals }: PlanInput,
): Action[] {
  const due = plan.filter((action) => action.kind === 'retire' && RETIRE_REASONS[action.reason].isGuarded);
  const total = mirroredTargets(plan);
  const held = new Set<Action>(
    holdTogether('target', due, { total, limit: policy.guard.targets, approvals, records }),
  );
  const heldPaths = new Set([...held].map((action) => action.path));
  return plan.map((action) => {
    const { target, repository, path, published, fingerprint, moveFrom } = action;
    const same = { target, repository, path, published, fingerprint };
    if (held.has(action)) {
      const guarded = { subject: 'target', deletions: held.size, of: total, digest: null } as const;
      const reason = 'deletion-guard';
      return { ...same, moveFrom, kind: 'hold', reason, untilMs: null, missing: false, guarded };
    }
    if (!heldPaths.has(path)) return action;
    const reason = 'path-occupied';
    return { ...same, moveFrom: null, kind: 'hold', reason, untilMs: null, missing: false, guarded: null };
  });
}

/** Whether a person brought a tree back from the history, the service has not had it since, and nobody let it go again. */
export function isRestored(tree: Published | null, record: TargetRecord, approvals: Approvals): boolean {
  if (tree === null || tree.restoredAtMs === null) return false;
  if ((record.verifiedAtMs ?? 0) > tree.restoredAtMs) return false;
  const target = { repositoryId: tree.repository.id, branch: tree.branch };
  return !isApproved(approvals, target, { subject: 'restored', digest: null });
}

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
  const limit = policy.guard.targets;
  const held = holdTogether('deselected', deselected, { total, limit, approvals, records });
  const deletion = { subject: 'deselected', deletions: held.length, of: total, digest: null } as const;
  return new Map(held.map((candidate) => [candidate, deletion]));
}

/** Whether a target was mirrored in the pass before. One of which nothing is remembered proves nothing. */
function wasSelected(record: TargetRecord | undefined): boolean {
  const [last] = record?.decisions ?? [];
  return last !== undefined && last.reason !== 'not-selected';
}
