import { type Action, RETIRE_REASONS, type PullAction, holdRule, holdOf } from './actions.ts';
import { type Approvals, type HeldDeletion, holdTogether, isApproved } from './guard.ts';
import type { PlanInput } from './input.ts';
import type { TargetRecord, Published } from './record.ts';
import { targetKey, type Listing } from '../upstream/listing.ts';
import type { Candidate } from './targets.ts';

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
    if (held.has(action)) {
      const guarded = { subject: 'target', deletions: held.size, of: total, digest: null } as const;
      return holdOf(action, 'deletion-guard', { guarded });
    }
    return heldPaths.has(action.path) ? holdOf(action, 'path-occupied', { moveFrom: null }) : action;
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

/**
 * Has a plan leave alone the targets of which a pull of an earlier pass still goes on. Whatever a plan judges as a whole, such as
 * how much would be deleted, is judged before, as though none went on. A pull does not go on for a target that is to leave the mirror
 * or to move, or whose place another one has now: then the plan stays as it is, and the pull is to be called off.
 * @param carried what goes on, by target key
 */
export function keepRunningPulls(
  plan: readonly Action[],
  carried: ReadonlyMap<string, PullAction>,
  listing: Pick<Listing, 'repositories' | 'repositoriesComplete'>,
): Action[] {
  if (carried.size === 0) return [...plan];
  const planned = new Map<string, Action>();
  for (const action of plan) {
    const key = targetKey(action.target);
    // A second tree of the same target has a decision of its own.
    if (carried.has(key) && action.reason !== 'duplicate') planned.set(key, action);
  }
  // Only a complete list says that a target is no more.
  const isComplete = listing.repositoriesComplete && listing.repositories.length > 0;
  const goingOn = new Map<string, PullAction>();
  for (const [key, pull] of carried) {
    const action = planned.get(key);
    if (action === undefined ? !isComplete : goesOn(pull, action)) goingOn.set(key, pull);
  }
  const others = plan.filter((action) => !goingOn.has(targetKey(action.target)));
  const held = [...goingOn].map(([key, pull]) =>
    holdOf(planned.get(key) ?? pull, 'still-pulling', { moveFrom: null }),
  );
  return [...others, ...held];
}

/** Whether a pull still does what is wanted, by what the plan would do otherwise. */
function goesOn(pull: PullAction, action: Action): boolean {
  if (action.path !== pull.path || action.moveFrom !== null) return false;
  switch (action.kind) {
    case 'pull':
    case 'keep':
      return true;
    case 'hold':
      return action.guarded === null && holdRule(action.reason).endsPull !== true;
    case 'retire':
      return false;
  }
}
