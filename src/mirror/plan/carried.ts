import { type Action, type HoldAction, type PullAction, holdRule } from './actions.ts';
import { type Listing, targetKey } from '../upstream/listing.ts';

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
    // Of a second tree of the same target another decision is taken.
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
  const held = [...goingOn].map(([key, pull]) => hold(pull, planned.get(key) ?? pull));
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

function hold({ path }: PullAction, { target, repository, published, fingerprint }: Action): HoldAction {
  return {
    kind: 'hold',
    reason: 'still-pulling',
    target,
    repository,
    path,
    published,
    fingerprint,
    moveFrom: null,
    untilMs: null,
    missing: false,
    guarded: null,
  };
}
