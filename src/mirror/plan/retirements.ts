import type { Action } from './actions.ts';
import { type Approvals, holdRetirements, isApproved } from './guard.ts';
import type { PlanInput } from './plan-input.ts';
import type { TargetRecord } from './record.ts';
import { targetKey } from '../upstream/listing.ts';
import type { Published } from './targets.ts';

/** How many targets are mirrored of those that are selected: what a share of them refers to. */
export function mirroredTargets(plan: readonly Action[]): number {
  return plan.filter((action) => action.published !== null && action.reason !== 'not-selected').length;
}

/** Holds the retirements of a pass when they are too many, and what was to take the places of their trees. */
export function guardRetirements(
  plan: readonly Action[],
  { policy, records, approvals }: PlanInput,
): Action[] {
  const due = plan.filter((action) => action.kind === 'retire' && action.reason === 'repository-gone');
  const total = mirroredTargets(plan);
  const missingPasses = (action: Action): number => records.get(targetKey(action.target))?.missingPasses ?? 0;
  // Branches that the service very likely has no longer: whether it has is asked in the same pass.
  const others = plan.filter(
    (action) => action.reason === 'confirm-gone' && missingPasses(action) + 1 >= policy.retireAfterPasses,
  ).length;
  const held = new Set<Action>(
    holdRetirements(due, {
      total,
      others,
      limit: policy.guard.targets,
      approvals,
      heldBefore: (target) => records.get(targetKey(target))?.held ?? null,
    }),
  );
  const heldPaths = new Set([...held].map((action) => action.path));
  return plan.map((action) => {
    const { target, repository, path, published, fingerprint, moveFrom } = action;
    const same = { target, repository, path, published, fingerprint };
    if (held.has(action)) {
      const guarded = { subject: 'target', deletions: held.size + others, of: total, digest: null } as const;
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
