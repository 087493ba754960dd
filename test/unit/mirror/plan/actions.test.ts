import { describe, expect, it } from 'vitest';
import {
  type Action,
  type HoldAction,
  type PullAction,
  type HoldReason,
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
const CARRIED = new Map([[targetKey(PULL.target), PULL]]);
const OTHER: Action = {
  ...PULL,
  kind: 'keep',
  reason: 'unchanged',
  target: { repositoryId: 'other', branch: 'main' },
  path: 'Other/main',
};

function held(reason: HoldReason, fields: Partial<HoldAction> = {}): Action {
  const { target, repository: of, path, published: tree, fingerprint, moveFrom } = PULL;
  const facts = { target, repository: of, path, published: tree, fingerprint, moveFrom };
  return {
    ...facts,
    kind: 'hold',
    reason,
    untilMs: null,
    guarded: null,
    ...fields,
  };
}

/** What becomes of the pull that goes on when the plan would do this about its target otherwise. */
function reasons(plan: readonly Action[], fields: Partial<typeof LISTING> = {}): string[] {
  return keepRunningPulls(plan, CARRIED, { ...LISTING, ...fields }).map(({ reason }) => reason);
}

describe('a pull that goes on', () => {
  it('is nothing to a plan when there is none', () => {
    const plan = [PULL, OTHER];
    expect(keepRunningPulls(plan, new Map(), LISTING)).toEqual(plan);
  });

  it.each<[string, Action]>([
    ['would pull it, for whatever reason', { ...PULL, reason: 'full-check' }],
    ['would keep it', { ...PULL, kind: 'keep', reason: 'unchanged' }],
    ...(
      [
        'backing-off',
        'quarantined',
        'service-processing',
        'manifest-unreadable',
        'listing-incomplete',
        'no-repositories-listed',
        'listing-contradicts-itself',
      ] as const
    ).map((reason): [string, Action] => [`would hold it: ${reason}`, held(reason)]),
    ['would count it as missing', held('repository-missing')],
    ['holds an earlier deletion of files', held('deletion-guard')],
  ])('has its target left alone where the plan %s', (_what, action) => {
    const [left, other, ...none] = keepRunningPulls([action, OTHER], CARRIED, LISTING);
    expect([other, none]).toEqual([OTHER, []]);
    expect(left).toMatchObject({
      kind: 'hold',
      reason: 'still-pulling',
      target: PULL.target,
      path: PULL.path,
      moveFrom: null,
      guarded: null,
    });
  });

  it.each<[string, Action]>([
    ['retires it', { ...PULL, kind: 'retire', reason: 'repository-gone' }],
    ['moves it', { ...PULL, moveFrom: 'Old/main' }],
    ['has another place for it', { ...PULL, path: 'Accounting~1/main' }],
    ['no longer selects it', held('not-selected')],
    ['has a named branch for it', held('superseded')],
    ['has another tree in its place', held('path-occupied')],
    [
      'holds its retirement',
      held('deletion-guard', {
        guarded: { subject: 'target', deletions: 1, of: 1, digest: null },
      }),
    ],
  ])('gives way where the plan %s', (_what, action) => {
    expect(keepRunningPulls([action, OTHER], CARRIED, LISTING)).toEqual([action, OTHER]);
  });

  it('gives way when a complete list knows its target no more, and only then', () => {
    expect(reasons([OTHER])).toEqual(['unchanged']);
    expect(reasons([OTHER], { repositoriesComplete: false })).toEqual(['unchanged', 'still-pulling']);
    expect(reasons([OTHER], { repositories: [] })).toEqual(['unchanged', 'still-pulling']);
  });

  it('leaves the decision about a second tree of its target as it is', () => {
    const duplicate: Action = { ...PULL, kind: 'retire', reason: 'duplicate', path: 'Copy/main' };
    expect(reasons([duplicate, PULL, OTHER])).toEqual(['duplicate', 'still-pulling', 'unchanged']);
    expect(reasons([duplicate, OTHER])).toEqual(['duplicate', 'unchanged']);
  });

  it('counts as mirrored, if its target is', () => {
    const tree = published(repository(), { fingerprint: 'old' });
    const plan = makePlan(planInput({ listing: LISTING, published: [tree] }));
    const pull = pullOf(plan);
    const [left] = keepRunningPulls(plan, new Map([[targetKey(pull.target), pull]]), LISTING);
    expect(left).toMatchObject({ reason: 'still-pulling', published: tree });
  });
});
