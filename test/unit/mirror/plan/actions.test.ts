import { describe, expect, it } from 'vitest';
import {
  type Action,
  type HoldAction,
  holdOf,
  type HoldReason,
  type PullAction,
  keepRunningPulls,
} from '../../../../src/mirror/plan/actions.ts';
import { makePlan } from '../../../../src/mirror/plan/plan.ts';
import { targetKey } from '../../../../src/mirror/upstream/listing.ts';
import { listing, planInput, published, repository, row } from '../../../support/builders.ts';

const LISTING = listing({ workbooks: [row()] });

function pullOf(plan: readonly Action[]): PullAction {
  const pull = plan.find((action) => action.kind === 'pull');
  if (pull === undefined) throw new Error('no pull');
  return pull;
}

const PULL = pullOf(makePlan(planInput({ listing: LISTING })));
const CARRIED = new Map([[targetKey(PULL.target), { action: PULL }]]);
const SECOND = { target: { repositoryId: 'other', branch: 'main' }, path: 'Other/main' };
const OTHER: Action = { ...PULL, ...SECOND, kind: 'keep', reason: 'unchanged' };

function held(reason: HoldReason, guarded: HoldAction['guarded'] = null): Action {
  return holdOf(PULL, reason, { guarded });
}

/** The fate of a running pull if the plan would otherwise choose this action for its target. */
function reasons(plan: readonly Action[], fields: Partial<typeof LISTING> = {}): string[] {
  return keepRunningPulls(plan, CARRIED, { ...LISTING, ...fields }).map(({ reason }) => reason);
}

describe('a running pull', () => {
  it('does not affect a plan if there is none', () => {
    const plan = [PULL, OTHER];
    expect(keepRunningPulls(plan, new Map(), LISTING)).toEqual(plan);
  });

  it.each<[string, Action]>([
    ['would pull it, for any reason', { ...PULL, reason: 'full-check' }],
    ['would keep it', { ...PULL, kind: 'keep', reason: 'unchanged' }],
    ['would hold it, as it failed', held('backing-off')],
    ['would hold it in quarantine', held('quarantined')],
    ['would wait for the service', held('service-processing')],
    ['cannot read its manifest', held('manifest-unreadable')],
    ['has an incomplete list', held('listing-incomplete')],
    ['has an empty list', held('no-repositories-listed')],
    ['has a list that contradicts itself', held('listing-contradicts-itself')],
    ['would count it as missing', held('repository-missing')],
    ['holds an earlier deletion of files', held('deletion-guard')],
  ])('leaves its target alone if the plan %s', (_what, action) => {
    const { target, path } = PULL;
    expect(keepRunningPulls([action, OTHER], CARRIED, LISTING)).toMatchObject([
      { kind: 'hold', reason: 'still-pulling', target, path, moveFrom: null, guarded: null },
      OTHER,
    ]);
  });

  it.each<[string, Action]>([
    ['retires it', { ...PULL, kind: 'retire', reason: 'repository-gone' }],
    ['moves it', { ...PULL, moveFrom: 'Old/main' }],
    ['has another path for it', { ...PULL, path: 'Accounting~1/main' }],
    ['no longer selects it', held('not-selected')],
    ['has a named branch for it', held('superseded')],
    ['has another tree at its path', held('path-occupied')],
    [
      'holds its retirement',
      held('deletion-guard', { subject: 'target', deletions: 1, of: 1, digest: null }),
    ],
  ])('is cancelled if the plan %s', (_what, action) => {
    expect(keepRunningPulls([action, OTHER], CARRIED, LISTING)).toEqual([action, OTHER]);
  });

  it('is cancelled only when a complete list no longer has its target', () => {
    expect(reasons([OTHER])).toEqual(['unchanged']);
    expect(reasons([OTHER], { repositoriesComplete: false })).toEqual(['unchanged', 'still-pulling']);
    expect(reasons([OTHER], { repositories: [] })).toEqual(['unchanged', 'still-pulling']);
  });

  it('does not change the decision about a second tree of its target', () => {
    const duplicate: Action = { ...PULL, kind: 'retire', reason: 'duplicate', path: 'Copy/main' };
    expect(reasons([duplicate, PULL, OTHER])).toEqual(['duplicate', 'still-pulling', 'unchanged']);
    expect(reasons([duplicate, OTHER])).toEqual(['duplicate', 'unchanged']);
  });

  it('counts as mirrored if its target is mirrored', () => {
    const tree = published(repository(), { fingerprint: 'old' });
    const plan = makePlan(planInput({ listing: LISTING, published: [tree] }));
    const pull = pullOf(plan);
    const [left] = keepRunningPulls(plan, new Map([[targetKey(pull.target), { action: pull }]]), LISTING);
    expect(left).toMatchObject({ reason: 'still-pulling', published: tree });
  });
});
