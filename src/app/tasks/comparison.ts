import type { Action, PullAction, HoldReason, PlanInput } from '../../mirror/plan/actions.ts';
import { makePlan } from '../../mirror/plan/plan.ts';

/** The way to find the service's present state of a target, for comparison with the published one. */
export type Comparison =
  /** Its contents are requested. */
  | { readonly kind: 'contents'; readonly action: PullAction; readonly plan: readonly Action[] }
  /** The lists show the published state: its contents are requested only if that is cheap. */
  | { readonly kind: 'as-listed'; readonly action: PullAction; readonly plan: readonly Action[] }
  /** Complete lists no longer have it. */
  | { readonly kind: 'gone'; readonly action: Action }
  /** The lists do not show it. */
  | { readonly kind: 'untold'; readonly action: Action; readonly reason: HoldReason };

/** The facts that decide it. */
type ComparisonFacts = Pick<PlanInput, 'listing' | 'published' | 'unreadable' | 'policy' | 'nowMs'>;

/**
 * Decides how the present state of a target is found out: by the plan of an instance that mirrors everything, remembers nothing, and
 * lets everything through, as nothing is published.
 * @param path below `mirror/`: the place of its tree, present or future
 * @returns null if neither the service nor the mirror has it
 */
export function planComparison(facts: ComparisonFacts, path: string): Comparison | null {
  const plan = planWithout(facts, Number.POSITIVE_INFINITY);
  const action = actionAt(plan, path);
  if (action === undefined) return null;
  switch (action.kind) {
    case 'pull':
      return { kind: 'contents', action, plan };
    case 'retire':
      return { kind: 'gone', action };
    case 'hold':
      return action.reason === 'restored'
        ? { kind: 'gone', action }
        : { kind: 'untold', action, reason: action.reason };
    case 'keep': {
      // Act as a full check would.
      const check = actionAt(planWithout(facts, 0), path);
      if (check?.kind !== 'pull') return { kind: 'gone', action };
      return { kind: 'as-listed', action: { ...check, depth: 'facts' }, plan };
    }
  }
}

/** The tree at a path comes before one that belongs there. */
function actionAt(plan: readonly Action[], path: string): Action | undefined {
  return (
    plan.find(({ published }) => published?.path === path) ?? plan.find((action) => action.path === path)
  );
}

function planWithout(
  { listing, published, unreadable, policy, nowMs }: ComparisonFacts,
  fullCheckMs: number,
): Action[] {
  return makePlan({
    listing,
    published,
    others: [],
    shard: null,
    unreadable,
    records: new Map(),
    approvals: new Map(),
    policy: {
      ...policy,
      selection: { ...policy.selection, selects: () => true },
      guard: { targets: { kind: 'off' }, files: { kind: 'off' } },
      retireAfterPasses: 1,
      processingPatienceMs: 0,
      fullCheckMs,
    },
    nowMs,
    retries: 'all',
  });
}
