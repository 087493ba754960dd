import { describe, expect, it } from 'vitest';
import type { Action, PlanInput } from '../../../../src/mirror/plan/actions.ts';
import { fullCheckDueMs } from '../../../../src/mirror/plan/next-record.ts';
import { makePlan } from '../../../../src/mirror/plan/plan.ts';
import { HEAD_BRANCH, type Listing } from '../../../../src/mirror/upstream/listing.ts';
import {
  allBut,
  failure,
  HOUR_MS,
  listing,
  MINUTE_MS,
  NOW_MS,
  planInput,
  planPolicy,
  published,
  publishedUnder,
  record,
  recordMap,
  repository,
  row,
  selection,
  target,
} from '../../../support/builders.ts';

const REPOSITORY = repository();
const ROWS = [row()];
const TREE = publishedUnder(REPOSITORY, ROWS);
const LISTED = listing({ workbooks: ROWS });
const OTHER = repository({ fullName: 'Other' });
/** A complete answer in which `Accounting` is missing. */
const GONE = listing({ repositories: [OTHER] });

function brief(action: Action): string {
  return `${action.kind} ${action.reason} ${action.path}`;
}

function planOf(fields: Partial<PlanInput>): string[] {
  return makePlan(planInput(fields)).map(brief);
}

function only(fields: Partial<PlanInput>): Action {
  const [action, ...more] = makePlan(planInput(fields));
  expect(more).toEqual([]);
  if (action === undefined) throw new Error('the plan is empty');
  return action;
}

/** Mirrored and unchanged, with the policy's full check far away. */
function mirrored(fields: Partial<PlanInput> = {}): Partial<PlanInput> {
  return { listing: LISTED, published: [TREE], ...fields };
}

describe('a plan for one target', () => {
  it.each<[string, Partial<PlanInput>, string[]]>([
    ['nothing is listed or mirrored', { listing: listing({ repositories: [] }) }, []],
    ['a version names a new branch', { listing: LISTED }, ['pull never-mirrored Accounting/main']],
    ['a repository has no workbooks', { listing: listing() }, ['pull never-mirrored Accounting/HEAD']],
    ['it is mirrored and unchanged', mirrored(), ['keep unchanged Accounting/main']],
    [
      'its tree is gone from the disk',
      mirrored({ published: [{ ...TREE, treePresent: false }] }),
      ['pull tree-missing Accounting/main'],
    ],
    [
      'a version changed',
      mirrored({ listing: listing({ workbooks: [row({ versionId: 'v2' })] }) }),
      ['pull versions-changed Accounting/main'],
    ],
    [
      'all its versions left the listing',
      mirrored({ listing: listing() }),
      ['pull versions-changed Accounting/main'],
    ],
    [
      'it was published without a list of workbooks',
      mirrored({ published: [published()] }),
      ['pull versions-changed Accounting/main'],
    ],
    [
      'it was missing in the pass before',
      mirrored({ records: recordMap(record({ missingPasses: 1 })) }),
      ['pull confirm-gone Accounting/main'],
    ],
    [
      'the service has finished a branch that was pulled unfinished',
      mirrored({ published: [{ ...TREE, settled: false }] }),
      ['pull processing-finished Accounting/main'],
    ],
    [
      'the service has still not finished a branch that was pulled unfinished',
      {
        listing: listing({ workbooks: [row({ processing: 1 })] }),
        published: [{ ...TREE, settled: false }],
      },
      ['keep unchanged Accounting/main'],
    ],
    [
      'the service works again on a branch that was pulled finished',
      { listing: listing({ workbooks: [row({ versionStatus: 'running' })] }), published: [TREE] },
      ['keep unchanged Accounting/main'],
    ],
    [
      'there is no list of workbooks',
      mirrored({ listing: listing({ workbooks: null }) }),
      ['pull no-version-list Accounting/main'],
    ],
    [
      'the full check is due',
      mirrored({ nowMs: NOW_MS + 24 * HOUR_MS }),
      ['pull full-check Accounting/main'],
    ],
    [
      'the full check seems to have been in the future',
      mirrored({ published: [{ ...TREE, verifiedAtMs: NOW_MS + HOUR_MS }] }),
      ['pull full-check Accounting/main'],
    ],
    [
      'the full check was done later than the tree was published',
      mirrored({
        published: [{ ...TREE, verifiedAtMs: NOW_MS - 48 * HOUR_MS }],
        records: recordMap(record({ checkedAtMs: NOW_MS - HOUR_MS })),
      }),
      ['keep unchanged Accounting/main'],
    ],
    [
      'the service has only just begun with a new branch',
      { listing: listing({ workbooks: [row({ processing: 1 })] }) },
      ['hold service-processing Accounting/main'],
    ],
    [
      'the service has not finished with a new branch for longer than the patience',
      {
        listing: listing({ workbooks: [row({ versionStatus: 'pending' })] }),
        records: recordMap(record({ processingSinceMs: NOW_MS - HOUR_MS })),
      },
      ['pull never-mirrored Accounting/main'],
    ],
    [
      'a configured branch was not there a moment ago',
      {
        records: recordMap(record({ absentSinceMs: NOW_MS - 1, checkedAtMs: NOW_MS - 1 })),
        policy: planPolicy({ selection: selection({ configured: [{ branch: 'main', required: false }] }) }),
      },
      ['keep absent Accounting/main'],
    ],
    [
      'a configured branch was not there long ago',
      {
        records: recordMap(record({ absentSinceMs: 1, checkedAtMs: NOW_MS - 24 * HOUR_MS })),
        policy: planPolicy({ selection: selection({ configured: [{ branch: 'main', required: false }] }) }),
      },
      ['pull never-mirrored Accounting/main'],
    ],
    [
      'a person asks for a branch that was not there a moment ago',
      {
        retries: 'all' as const,
        records: recordMap(record({ absentSinceMs: NOW_MS - 1, checkedAtMs: NOW_MS - 1 })),
        policy: planPolicy({ selection: selection({ configured: [{ branch: 'main', required: false }] }) }),
      },
      ['pull never-mirrored Accounting/main'],
    ],
    [
      'a version names a branch that was not there a moment ago',
      {
        listing: LISTED,
        records: recordMap(record({ absentSinceMs: NOW_MS - 1, checkedAtMs: NOW_MS - 1 })),
      },
      ['pull never-mirrored Accounting/main'],
    ],
    [
      'the filters exclude a mirrored target',
      mirrored({ policy: planPolicy({ selection: selection({ selects: allBut('main') }) }) }),
      ['hold not-selected Accounting/main'],
    ],
    [
      'the filters exclude a target that is not mirrored',
      { listing: LISTED, policy: planPolicy({ selection: selection({ selects: allBut('main') }) }) },
      [],
    ],
    [
      'the filters exclude a mirrored target of a deleted repository',
      {
        listing: GONE,
        published: [TREE, published(OTHER, { branch: 'dev' })],
        records: recordMap(record({ missingPasses: 9 })),
        policy: planPolicy({ selection: selection({ selects: allBut('main', 'dev') }) }),
      },
      ['hold not-selected Other/dev', 'hold not-selected Accounting/main'],
    ],
    [
      'workbooks of an unlisted repository are listed',
      { listing: listing({ repositories: [], workbooks: [row({ repository: 'Unlisted' })] }) },
      [],
    ],
  ])('when %s', (_when, fields, plan) => {
    expect(planOf(fields)).toEqual(plan);
  });

  it('delays a new branch until the service has had its time, counted from the first sight', () => {
    const unrecovered = listing({ workbooks: [row({ processing: 1 })] });
    expect(only({ listing: unrecovered })).toMatchObject({ untilMs: NOW_MS + HOUR_MS });
    const records = recordMap(record({ processingSinceMs: NOW_MS - 10 * MINUTE_MS }));
    expect(only({ listing: unrecovered, records })).toMatchObject({ untilMs: NOW_MS + 50 * MINUTE_MS });
  });

  it('checks a tree that was verified in the future, and rewrites its manifest', () => {
    const action = only(
      mirrored({
        published: [{ ...TREE, verifiedAtMs: NOW_MS + HOUR_MS }],
        records: recordMap(record({ verifiedAtMs: NOW_MS - MINUTE_MS, checkedAtMs: NOW_MS - MINUTE_MS })),
      }),
    );
    expect(action).toMatchObject({ kind: 'pull', reason: 'full-check' });
  });

  it('records for a pull whether the service had finished', () => {
    expect(only({ listing: LISTED })).toMatchObject({ settled: true });
    const records = recordMap(record({ processingSinceMs: 0 }));
    expect(only({ listing: listing({ workbooks: [row({ processing: 1 })] }), records })).toMatchObject({
      settled: false,
    });
  });

  it('notices a new version on another branch of a workbook that its tree has and that is listed once', () => {
    const onDev = [row({ branch: 'dev' })];
    const tree = publishedUnder(REPOSITORY, onDev, { holds: ['plan.xlsx'] });
    expect(tree.borrowed).toEqual(['plan.xlsx']);
    expect(planOf({ listing: listing({ workbooks: onDev }), published: [tree] })).toContain(
      'keep unchanged Accounting/main',
    );
    const newer = listing({ workbooks: [row({ branch: 'dev', versionId: 'v2' })] });
    expect(planOf({ listing: newer, published: [tree] })).toContain('pull versions-changed Accounting/main');
  });

  it('gives no fingerprint without a list of workbooks', () => {
    expect(only(mirrored({ listing: listing({ workbooks: null }) })).fingerprint).toBeNull();
    expect(only(mirrored()).fingerprint).toBe(TREE.fingerprint);
  });
});

describe('the meaning of an answer without contents', () => {
  const due = NOW_MS + 25 * HOUR_MS;
  const empty = publishedUnder(REPOSITORY, []);
  const configured = (required: boolean): PlanInput['policy'] =>
    planPolicy({ selection: selection({ configured: [{ branch: 'main', required }] }) });
  it.each<[string, Partial<PlanInput>, string]>([
    ['a failure if a version names the branch', { listing: LISTED }, 'fail'],
    ['a failure if a version names the mirrored branch', mirrored({ nowMs: due }), 'fail'],
    ['a failure if the settings name exactly this target', { policy: configured(true) }, 'fail'],
    [
      'a failure if the settings name exactly this target and it is mirrored',
      { published: [empty], nowMs: due, policy: configured(true) },
      'fail',
    ],
    ['nothing if only a glob names the branch', { policy: configured(false) }, 'accept'],
    ['nothing for HEAD of a repository that has no branch yet', {}, 'accept'],
    [
      'a failure for HEAD that is mirrored',
      { published: [publishedUnder(REPOSITORY, [], { branch: HEAD_BRANCH })], nowMs: due },
      'fail',
    ],
    ['a miss if a complete list lacks the branch', { published: [empty], nowMs: due }, 'count-as-missing'],
    [
      'a miss if there is no list',
      { published: [empty], listing: listing({ workbooks: null }) },
      'count-as-missing',
    ],
    [
      'a failure if the list is incomplete',
      { published: [empty], nowMs: due, listing: listing({ workbooksComplete: false }) },
      'fail',
    ],
    [
      'a miss if a glob names a mirrored branch',
      { published: [empty], nowMs: due, policy: configured(false) },
      'count-as-missing',
    ],
  ])('is %s', (_what, fields, whenAbsent) => {
    expect(only(fields)).toMatchObject({ kind: 'pull', whenAbsent });
  });
});

describe('a target that failed', () => {
  const changed = listing({ workbooks: [row({ versionId: 'v2' })] });
  const failed = (fields: Parameters<typeof failure>[0]): Partial<PlanInput> => ({
    listing: changed,
    published: [TREE],
    records: recordMap(record({ failure: failure(fields) })),
  });
  const fingerprint = makePlan(planInput({ listing: changed, published: [TREE] }))[0]?.fingerprint ?? null;
  const later = NOW_MS + HOUR_MS / 2;

  it.each<[string, Partial<PlanInput>, string]>([
    ['waits for its time', failed({}), 'hold backing-off'],
    ['is pulled when its time has come', { ...failed({}), nowMs: later }, 'pull versions-changed'],
    [
      'is pulled at once when a person asks',
      { ...failed({}), retries: 'all' as const },
      'pull versions-changed',
    ],
    ['waits if it stalls', failed({ action: 'stall' }), 'hold backing-off'],
    [
      'is pulled when a person asks though it stalls',
      { ...failed({ action: 'stall' }), retries: 'all' as const },
      'pull versions-changed',
    ],
    ['stays in quarantine', failed({ action: 'quarantine', fingerprint }), 'hold quarantined'],
    [
      'leaves quarantine when a person asks',
      { ...failed({ action: 'quarantine', fingerprint }), retries: 'all' as const },
      'pull versions-changed',
    ],
    [
      'leaves quarantine with another version',
      failed({ action: 'quarantine', fingerprint: 'another' }),
      'pull versions-changed',
    ],
    [
      'leaves quarantine after the slow retry',
      { ...failed({ action: 'quarantine', fingerprint }), nowMs: later },
      'pull versions-changed',
    ],
    ['recovers when nothing is left to do', { ...failed({}), listing: LISTED }, 'keep unchanged'],
    ['waits before it was ever mirrored', { ...failed({}), published: [] }, 'hold backing-off'],
  ])('%s', (_what, fields, start) => {
    const action = only(fields);
    expect(`${action.kind} ${action.reason}`).toBe(start);
    if (action.kind === 'hold') expect(action).toMatchObject({ untilMs: later });
  });

  it('stays in quarantine without a list of workbooks', () => {
    const records = recordMap(record({ failure: failure({ action: 'quarantine', fingerprint: null }) }));
    expect(only({ listing: listing({ workbooks: null }), published: [TREE], records })).toMatchObject({
      reason: 'quarantined',
    });
  });

  it('does not wait for years after the clock was ahead for a moment', () => {
    const year = 365 * 24 * HOUR_MS;
    const ahead = failure({ lastAtMs: NOW_MS + year, nextAttemptAtMs: NOW_MS + year + HOUR_MS });
    expect(only({ ...failed({}), records: recordMap(record({ failure: ahead })) }).kind).toBe('pull');
  });
});

describe('a repository missing from the list', () => {
  const missed = (missingPasses: number): Partial<PlanInput> => ({
    listing: GONE,
    published: [TREE, published(OTHER)],
    records: recordMap(record({ missingPasses })),
  });
  const ofTree = (fields: Partial<PlanInput>): Action | undefined =>
    makePlan(planInput(fields)).find(({ target: { repositoryId } }) => repositoryId === REPOSITORY.id);

  it.each([
    [0, 'hold', 'repository-missing'],
    [1, 'hold', 'repository-missing'],
    [2, 'retire', 'repository-gone'],
    [7, 'retire', 'repository-gone'],
  ])('after %i complete answers without it: %s', (passes, kind, reason) => {
    expect(ofTree(missed(passes))).toMatchObject({ kind, reason });
  });

  it.each<[string, Partial<Listing>, string]>([
    ['the list is empty', { repositories: [] }, 'no-repositories-listed'],
    [
      'the list is empty and incomplete',
      { repositories: [], repositoriesComplete: false },
      'no-repositories-listed',
    ],
    ['the list is incomplete', { repositoriesComplete: false }, 'listing-incomplete'],
    ['the list of workbooks still names it', { workbooks: ROWS }, 'listing-contradicts-itself'],
  ])('is neither counted nor retired when %s', (_when, fields, reason) => {
    const action = ofTree({ ...missed(9), listing: { ...GONE, ...fields } });
    expect(action).toMatchObject({ kind: 'hold', reason });
  });

  it('is retired without a list of workbooks too', () => {
    expect(ofTree({ ...missed(2), listing: { ...GONE, workbooks: null } })?.kind).toBe('retire');
  });

  it('is retired immediately if one answer is enough', () => {
    const fields = { ...missed(0), policy: planPolicy({ retireAfterPasses: 1 }) };
    expect(ofTree(fields)?.kind).toBe('retire');
  });

  it('is pulled as a whole when it is back', () => {
    expect(planOf({ ...missed(2), listing: LISTED, published: [TREE] })).toEqual([
      'pull confirm-gone Accounting/main',
    ]);
  });
});

describe('a repository with another name', () => {
  const renamed = repository({ id: REPOSITORY.id, fullName: 'Finance' });
  const rows = [row({ repository: 'Finance' })];

  it('only moves its tree, without a pull', () => {
    const action = only({
      listing: listing({ repositories: [renamed], workbooks: rows }),
      published: [TREE],
    });
    expect(action).toMatchObject({
      kind: 'keep',
      path: 'Finance/main',
      moveFrom: 'Accounting/main',
      repository: { fullName: 'Finance' },
    });
  });

  it('moves its tree and pulls what has changed', () => {
    const changed = [row({ repository: 'Finance', versionId: 'v2' })];
    const action = only({
      listing: listing({ repositories: [renamed], workbooks: changed }),
      published: [TREE],
    });
    expect(action).toMatchObject({ kind: 'pull', reason: 'versions-changed', moveFrom: 'Accounting/main' });
  });

  it('moves its tree though it failed before', () => {
    const action = only({
      listing: listing({ repositories: [renamed], workbooks: rows }),
      published: [TREE],
      records: recordMap(record({ failure: failure() })),
    });
    expect(action).toMatchObject({ kind: 'keep', moveFrom: 'Accounting/main' });
  });

  it('moves every tree under its branch', () => {
    const trees = [TREE, published(REPOSITORY, { branch: 'feature/x', path: 'Accounting/feature%2Fx' })];
    const plan = makePlan(
      planInput({ listing: listing({ repositories: [renamed], workbooks: rows }), published: trees }),
    );
    expect(plan.map(({ path, moveFrom }) => [moveFrom, path])).toEqual([
      ['Accounting/feature%2Fx', 'Finance/feature%2Fx'],
      ['Accounting/main', 'Finance/main'],
    ]);
  });

  it('does not move trees that the filters exclude', () => {
    const action = only({
      listing: listing({ repositories: [renamed], workbooks: rows }),
      published: [TREE],
      policy: planPolicy({ selection: selection({ selects: (fullName) => fullName !== 'Finance' }) }),
    });
    expect(action).toMatchObject({ kind: 'hold', reason: 'not-selected', moveFrom: null });
  });

  it('gets a corrected manifest if only that differs', () => {
    const tree = { ...TREE, path: 'Finance/main' };
    const action = only({
      listing: listing({ repositories: [renamed], workbooks: rows }),
      published: [tree],
    });
    expect(action).toMatchObject({ kind: 'keep', path: 'Finance/main', moveFrom: 'Finance/main' });
  });

  it('does not move if nothing differs', () => {
    expect(only(mirrored()).moveFrom).toBeNull();
  });
});

describe('a repository that was recreated with the same name', () => {
  const anew = repository({ id: 'anew' });
  const recreated = (missingPasses: number, fields: Partial<Listing> = {}): Partial<PlanInput> => ({
    listing: listing({ repositories: [anew], workbooks: ROWS, ...fields }),
    published: [TREE],
    records: recordMap(record({ missingPasses })),
  });

  it.each([
    [0, ['hold path-occupied Accounting/main', 'hold repository-missing Accounting/main']],
    [1, ['hold path-occupied Accounting/main', 'hold repository-missing Accounting/main']],
    [2, ['pull never-mirrored Accounting/main', 'retire repository-gone Accounting/main']],
  ])('after %i answers without the old one', (passes, plan) => {
    expect(planOf(recreated(passes))).toEqual(plan);
  });

  it('is pulled immediately to a path where the old one has no tree', () => {
    const onDev = recreated(0, { workbooks: [row({ branch: 'dev' })] });
    expect(planOf(onDev)).toEqual([
      'pull never-mirrored Accounting/dev',
      'hold repository-missing Accounting/main',
    ]);
  });

  it('does not displace the old one because of an incomplete list', () => {
    expect(planOf(recreated(2, { repositoriesComplete: false }))).toEqual([
      'hold path-occupied Accounting/main',
      'hold listing-incomplete Accounting/main',
    ]);
  });
});

describe('HEAD', () => {
  const head = publishedUnder(REPOSITORY, [], { branch: HEAD_BRANCH });

  it('is kept while no branch is known', () => {
    expect(planOf({ published: [head] })).toEqual(['keep unchanged Accounting/HEAD']);
  });

  it('is pulled in every pass without a list of workbooks', () => {
    expect(planOf({ published: [head], listing: listing({ workbooks: null }) })).toEqual([
      'pull no-version-list Accounting/HEAD',
    ]);
  });

  it('waits once a branch is known, and is retired once that is published', () => {
    expect(planOf({ listing: LISTED, published: [head] })).toEqual([
      'pull never-mirrored Accounting/main',
      'hold superseded Accounting/HEAD',
    ]);
    expect(planOf({ listing: LISTED, published: [head, TREE] })).toEqual([
      'keep unchanged Accounting/main',
      'retire branch-known Accounting/HEAD',
    ]);
  });

  it('is not retired for a tree that is missing from the disk', () => {
    expect(planOf({ listing: LISTED, published: [head, { ...TREE, treePresent: false }] })).toEqual([
      'pull tree-missing Accounting/main',
      'hold superseded Accounting/HEAD',
    ]);
  });

  it('is retired from its present path in a renamed repository', () => {
    const renamed = repository({ id: REPOSITORY.id, fullName: 'Finance' });
    const rows = [row({ repository: 'Finance' })];
    const plan = makePlan(
      planInput({
        listing: listing({ repositories: [renamed], workbooks: rows }),
        published: [head, TREE],
      }),
    );
    expect(plan.find(({ kind }) => kind === 'retire')).toMatchObject({
      path: 'Accounting/HEAD',
      moveFrom: null,
    });
  });

  it('is not requested if a configured or mirrored branch is known', () => {
    const configured = selection({ configured: [{ branch: 'main', required: false }] });
    expect(planOf({ policy: planPolicy({ selection: configured }) })).toEqual([
      'pull never-mirrored Accounting/main',
    ]);
    const tree = publishedUnder(REPOSITORY, []);
    expect(planOf({ published: [tree] })).toEqual(['keep unchanged Accounting/main']);
  });

  it('may be configured', () => {
    const configured = selection({ configured: [{ branch: HEAD_BRANCH, required: true }] });
    expect(only({ policy: planPolicy({ selection: configured }) })).toMatchObject({
      path: 'Accounting/HEAD',
      whenAbsent: 'fail',
    });
  });
});

describe('branches of a repository', () => {
  it('come from versions, settings and the disk, each once', () => {
    const configured = selection({
      configured: [
        { branch: 'main', required: true },
        { branch: 'release', required: false },
      ],
    });
    const rows = [row(), row({ path: 'b' }), row({ branch: 'feature/x' })];
    const tree = published(REPOSITORY, { branch: 'old' });
    const plan = planOf({
      listing: listing({ workbooks: rows }),
      published: [tree],
      policy: planPolicy({ selection: configured }),
    });
    expect(plan.map((each) => each.split(' ')[2])).toEqual([
      'Accounting/feature%2Fx',
      'Accounting/main',
      'Accounting/old',
      'Accounting/release',
    ]);
  });

  it('are decided one by one', () => {
    const rows = [row(), row({ branch: 'dev', versionId: 'v2' })];
    const dev = publishedUnder(REPOSITORY, [row({ branch: 'dev' })], { branch: 'dev' });
    expect(planOf({ listing: listing({ workbooks: rows }), published: [TREE, dev] })).toEqual([
      'pull versions-changed Accounting/dev',
      'keep unchanged Accounting/main',
    ]);
  });

  it('do not take the versions of another repository', () => {
    const rows = [row(), row({ repository: 'Other', branch: 'dev' })];
    expect(planOf({ listing: listing({ repositories: [REPOSITORY, OTHER], workbooks: rows }) })).toEqual([
      'pull never-mirrored Accounting/main',
      'pull never-mirrored Other/dev',
    ]);
  });
});

describe('an incomplete list of repositories', () => {
  it('never retires HEAD', () => {
    const head = publishedUnder(REPOSITORY, [], { branch: HEAD_BRANCH });
    const doubtful = listing({ workbooks: ROWS, repositoriesComplete: false });
    const plan = makePlan(planInput({ listing: doubtful, published: [head, TREE] }));
    expect(plan.some(({ kind }) => kind === 'retire')).toBe(false);
  });
});

describe('the next full check', () => {
  const PERIOD_MS = 24 * HOUR_MS;
  const dues = Array.from({ length: 500 }, (_, index) =>
    fullCheckDueMs(target(`branch ${index}`), NOW_MS, PERIOD_MS),
  );

  it('happens after half to all of the period', () => {
    expect(Math.min(...dues)).toBeGreaterThanOrEqual(NOW_MS + PERIOD_MS / 2);
    expect(Math.max(...dues)).toBeLessThanOrEqual(NOW_MS + PERIOD_MS);
  });

  it('is spread over that time', () => {
    const tenths = dues.map((due) => Math.floor((10 * (due - NOW_MS - PERIOD_MS / 2)) / (PERIOD_MS / 2)));
    for (let tenth = 0; tenth < 10; tenth += 1) {
      expect(tenths.filter((each) => each === tenth).length).toBeGreaterThan(20);
    }
  });

  it('has a constant time until it happens', () => {
    const due = fullCheckDueMs(target(), NOW_MS, PERIOD_MS);
    expect(fullCheckDueMs(target(), NOW_MS, PERIOD_MS)).toBe(due);
    expect(fullCheckDueMs(target(), NOW_MS + 1, PERIOD_MS) - 1).not.toBe(due);
  });

  it('is immediate if the period is zero', () => {
    expect(fullCheckDueMs(target(), NOW_MS, 0)).toBe(NOW_MS);
  });
});

describe('incomplete knowledge of the disk', () => {
  it('does not count as absence: a path with an unreadable manifest is left alone', () => {
    expect(planOf({ listing: LISTED, unreadable: new Set(['Accounting/main']) })).toEqual([
      'hold manifest-unreadable Accounting/main',
    ]);
  });

  it('can include two trees of one target: the one at its path counts, the other is retired', () => {
    const renamed = repository({ id: REPOSITORY.id, fullName: 'Ledger' });
    const rows = [row({ repository: 'Ledger' })];
    const old = { ...TREE, path: 'Accounting/main' };
    const right = publishedUnder(renamed, rows);
    const both = { listing: listing({ repositories: [renamed], workbooks: rows }) };
    expect(planOf({ ...both, published: [old, right] })).toEqual([
      'keep unchanged Ledger/main',
      'retire duplicate Accounting/main',
    ]);
    expect(planOf({ ...both, published: [old, { ...right, treePresent: false }] })).toEqual([
      'keep unchanged Ledger/main',
    ]);
  });
});
