import { describe, expect, it } from 'vitest';
import type { Action, PlanInput } from '../../../../src/mirror/plan/actions.ts';
import { fullCheckDueMs } from '../../../../src/mirror/plan/next-record.ts';
import { makePlan } from '../../../../src/mirror/plan/plan.ts';
import type { Failure, TargetRecord } from '../../../../src/mirror/plan/record.ts';
import type { Selection } from '../../../../src/mirror/plan/selection.ts';
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

type Facts = Partial<PlanInput>;

const REPOSITORY = repository();
const ROWS = [row()];
const TREE = publishedUnder(REPOSITORY, ROWS);
/** A tree of `main` without workbooks. */
const EMPTY_TREE = publishedUnder(REPOSITORY, []);
const HEAD_TREE = publishedUnder(REPOSITORY, [], { branch: HEAD_BRANCH });
const ABSENT_TREE = { ...TREE, treePresent: false };
const LISTED = listing({ workbooks: ROWS });
const CHANGED = listing({ workbooks: [row({ versionId: 'v2' })] });
const BUSY = listing({ workbooks: [row({ processing: 1 })] });
const UNFINISHED = [row({ processing: 1 }), row({ path: 'other.xlsx', processing: 1 })];
/** A tree of two versions, neither of which the service had finished. */
const UNSETTLED = { published: [publishedUnder(REPOSITORY, UNFINISHED, { settled: false })] };
const HALF_FINISHED = listing({ workbooks: [row(), row({ path: 'other.xlsx', processing: 1 })] });
const FINISHED = listing({ workbooks: UNFINISHED.map(({ path }) => row({ path })) });
const UNVERSIONED = listing({ workbooks: null });
const OTHER = repository({ fullName: 'Other' });
/** A complete answer in which `Accounting` is missing. */
const GONE = listing({ repositories: [OTHER] });
/** `Accounting` under another name. */
const RENAMED = repository({ id: REPOSITORY.id, fullName: 'Finance' });
const RENAMED_ROWS = [row({ repository: 'Finance' })];
const AS_RENAMED = listing({ repositories: [RENAMED], workbooks: RENAMED_ROWS });

/** The actions as a text; in brackets is where a tree moves from. Paths are relative to `Accounting`. */
function planOf(facts: Facts): string {
  const briefs = makePlan(planInput(facts)).map(
    ({ kind, reason, path, moveFrom }) =>
      `${kind} ${reason} ${path}${moveFrom === null ? '' : ` (${moveFrom})`}`,
  );
  return briefs.join(', ').replaceAll('Accounting/', '');
}

function only(facts: Facts): Action {
  const [action, ...more] = makePlan(planInput(facts));
  expect(more).toEqual([]);
  if (action === undefined) throw new Error('the plan is empty');
  return action;
}

/** Mirrored and unchanged, with the policy's full check far away. */
function mirrored(facts: Facts = {}): Facts {
  return { listing: LISTED, published: [TREE], ...facts };
}

function recorded(fields: Partial<TargetRecord>): Facts {
  return { records: recordMap(record(fields)) };
}

function selecting(selects: Selection['selects']): Facts {
  return { policy: planPolicy({ selection: selection({ selects }) }) };
}

/** The settings name a branch: exactly, or by a glob. */
function configured(required: boolean, branch = 'main'): Facts {
  return { policy: planPolicy({ selection: selection({ configured: [{ branch, required }] }) }) };
}

const ASKED = { retries: 'all' } as const;
const NEW = 'pull never-mirrored main';
const DRIFT = { sinceMs: 1, needsRepair: false, added: 0, missing: 1, modified: 0, first: 'a.xlsx' };
/** A branch that a pass found absent a moment ago. */
const ABSENT = recorded({ absentSinceMs: NOW_MS - 1, checkedAtMs: NOW_MS - 1 });

describe('a plan for one target', () => {
  it.each<[string, Facts, string]>([
    ['nothing is listed or mirrored', { listing: listing({ repositories: [] }) }, ''],
    ['a version names a new branch', { listing: LISTED }, 'pull never-mirrored main'],
    ['a repository has no workbooks', {}, 'pull never-mirrored HEAD'],
    ['it is mirrored and unchanged', mirrored(), 'keep unchanged main'],
    ['its tree is gone from the disk', mirrored({ published: [ABSENT_TREE] }), 'pull tree-missing main'],
    ['a version changed', mirrored({ listing: CHANGED }), 'pull versions-changed main'],
    ['all its versions left the listing', mirrored({ listing: listing() }), 'pull versions-changed main'],
    ['it was published without a list', mirrored({ published: [published()] }), 'pull no-version-list main'],
    ['it was missing in the pass before', mirrored(recorded({ missingPasses: 1 })), 'pull confirm-gone main'],
    ['its tree differs, which is only reported', mirrored(recorded({ drift: DRIFT })), 'keep unchanged main'],
    ['a person asks to repair it', { ...mirrored(recorded({ drift: DRIFT })), ...ASKED }, 'pull drift main'],
    [
      'a branch pulled unfinished is finished',
      { listing: FINISHED, ...UNSETTLED },
      'pull processing-finished main',
    ],
    [
      'one of the versions pulled unfinished is finished',
      { listing: HALF_FINISHED, ...UNSETTLED },
      'pull versions-changed main',
    ],
    [
      'a branch pulled unfinished is still so',
      { listing: listing({ workbooks: UNFINISHED }), ...UNSETTLED },
      'keep unchanged main',
    ],
    ['the service works again on a finished branch', mirrored({ listing: BUSY }), 'keep unchanged main'],
    ['there is no list of workbooks', mirrored({ listing: UNVERSIONED }), 'pull no-version-list main'],
    ['the full check is due', mirrored({ nowMs: NOW_MS + 24 * HOUR_MS }), 'pull full-check main'],
    [
      'the manifest has a time in the future, and the record has not',
      mirrored({
        published: [{ ...TREE, verifiedAtMs: NOW_MS + HOUR_MS }],
        ...recorded({ verifiedAtMs: NOW_MS - MINUTE_MS, checkedAtMs: NOW_MS - MINUTE_MS }),
      }),
      'pull full-check main',
    ],
    [
      'the full check was done later than the tree was published',
      mirrored({
        published: [{ ...TREE, verifiedAtMs: NOW_MS - 48 * HOUR_MS }],
        ...recorded({ checkedAtMs: NOW_MS - HOUR_MS }),
      }),
      'keep unchanged main',
    ],
    ['the service has only just begun with a new branch', { listing: BUSY }, 'hold service-processing main'],
    [
      'the service has not finished with a new branch for longer than the patience',
      {
        listing: listing({ workbooks: [row({ versionStatus: 'pending' })] }),
        ...recorded({ processingSinceMs: NOW_MS - HOUR_MS }),
      },
      'pull never-mirrored main',
    ],
    ['a configured branch was absent just now', { ...ABSENT, ...configured(false) }, 'keep absent main'],
    [
      'a configured branch was absent long ago',
      { ...recorded({ absentSinceMs: 1, checkedAtMs: NOW_MS - 24 * HOUR_MS }), ...configured(false) },
      'pull never-mirrored main',
    ],
    ['a person asks for an absent branch', { ...ABSENT, ...configured(false), ...ASKED }, NEW],
    ['a version names a branch absent just now', { listing: LISTED, ...ABSENT }, 'pull never-mirrored main'],
    ['the filters exclude a mirrored target', mirrored(selecting(allBut('main'))), 'hold not-selected main'],
    ['the filters exclude a target not yet mirrored', { listing: LISTED, ...selecting(allBut('main')) }, ''],
    [
      'the filters exclude a mirrored target of a deleted repository',
      {
        listing: GONE,
        published: [TREE, published(OTHER, { branch: 'dev' })],
        ...recorded({ missingPasses: 9 }),
        ...selecting(allBut('main', 'dev')),
      },
      'hold not-selected Other/dev, hold not-selected main',
    ],
    ['workbooks of an unlisted repository are listed', { listing: { ...LISTED, repositories: [] } }, ''],
    [
      'its manifest cannot be read, which proves no absence',
      { listing: LISTED, unreadable: new Set(['Accounting/main']) },
      'hold manifest-unreadable main',
    ],
  ])('when %s', (_when, facts, plan) => {
    expect(planOf(facts)).toBe(plan);
  });

  it('delays a new branch until the service has had its time, counted from the first sight', () => {
    expect(only({ listing: BUSY })).toMatchObject({ untilMs: NOW_MS + HOUR_MS });
    const seen = recorded({ processingSinceMs: NOW_MS - 10 * MINUTE_MS });
    expect(only({ listing: BUSY, ...seen })).toMatchObject({ untilMs: NOW_MS + 50 * MINUTE_MS });
  });

  it('records for a pull whether the service had finished', () => {
    expect(only({ listing: LISTED })).toMatchObject({ settled: true });
    expect(only({ listing: BUSY, ...recorded({ processingSinceMs: 0 }) })).toMatchObject({ settled: false });
  });

  it('notices a new version on another branch of a workbook that its tree has and that is listed once', () => {
    const onDev = [row({ branch: 'dev' })];
    const tree = publishedUnder(REPOSITORY, onDev, { holds: ['plan.xlsx'] });
    expect(tree.borrowed).toEqual(['plan.xlsx']);
    const planFor = (workbooks: Listing['workbooks']): string =>
      planOf({ listing: listing({ workbooks }), published: [tree] });
    expect(planFor(onDev)).toContain('keep unchanged main');
    expect(planFor([row({ branch: 'dev', versionId: 'v2' })])).toContain('pull versions-changed main');
  });

  it('gives no fingerprint without a list of workbooks', () => {
    expect(only(mirrored({ listing: UNVERSIONED })).fingerprint).toBeNull();
    expect(only(mirrored()).fingerprint).toBe(TREE.fingerprint);
  });
});

describe('the meaning of an answer without contents', () => {
  const nowMs = NOW_MS + 25 * HOUR_MS;
  const due = { published: [EMPTY_TREE], nowMs };
  it.each<[string, Facts, string]>([
    ['a failure if a version names the branch', { listing: LISTED }, 'fail'],
    ['a failure if a version names the mirrored branch', mirrored({ nowMs }), 'fail'],
    ['a failure if the settings name exactly this target', configured(true), 'fail'],
    ['a failure if the settings name exactly this mirrored target', { ...due, ...configured(true) }, 'fail'],
    ['nothing if only a glob names the branch', configured(false), 'accept'],
    ['nothing for HEAD of a repository that has no branch yet', {}, 'accept'],
    ['a failure for HEAD that is mirrored', { published: [HEAD_TREE], nowMs }, 'fail'],
    ['a failure for HEAD that is configured', configured(true, HEAD_BRANCH), 'fail'],
    ['a miss if a complete list lacks the branch', due, 'count-as-missing'],
    ['a miss if there is no list', { published: [EMPTY_TREE], listing: UNVERSIONED }, 'count-as-missing'],
    ['a failure in an incomplete list', { ...due, listing: listing({ workbooksComplete: false }) }, 'fail'],
    ['a miss if a glob names a mirrored branch', { ...due, ...configured(false) }, 'count-as-missing'],
  ])('is %s', (_what, facts, whenAbsent) => {
    expect(only(facts)).toMatchObject({ kind: 'pull', whenAbsent });
  });
});

describe('a target that failed', () => {
  const failed = (fields: Partial<Failure> = {}, facts: Facts = {}): Facts => ({
    listing: CHANGED,
    published: [TREE],
    ...recorded({ failure: failure(fields) }),
    ...facts,
  });
  const { fingerprint } = only(mirrored({ listing: CHANGED }));
  const bad = { action: 'quarantine', fingerprint } as const;
  const unlisted = { ...bad, fingerprint: null };
  const later = NOW_MS + HOUR_MS / 2;
  const inAYearMs = NOW_MS + 365 * 24 * HOUR_MS;
  const future = { lastAtMs: inAYearMs, nextAttemptAtMs: inAYearMs + HOUR_MS };
  const PULLED = 'pull versions-changed';

  it.each<[string, Facts, string]>([
    ['waits for its time', failed(), 'hold backing-off'],
    ['is pulled when its time has come', failed({}, { nowMs: later }), PULLED],
    ['is pulled at once when a person asks', failed({}, ASKED), PULLED],
    ['waits if it stalls', failed({ action: 'stall' }), 'hold backing-off'],
    ['is pulled when a person asks though it stalls', failed({ action: 'stall' }, ASKED), PULLED],
    ['stays in quarantine', failed(bad), 'hold quarantined'],
    ['stays in quarantine without a list', failed(unlisted, { listing: UNVERSIONED }), 'hold quarantined'],
    ['leaves quarantine when a person asks', failed(bad, ASKED), PULLED],
    ['leaves quarantine with another version', failed({ ...bad, fingerprint: 'another' }), PULLED],
    ['leaves quarantine after the slow retry', failed(bad, { nowMs: later }), PULLED],
    ['recovers when nothing is left to do', failed({}, { listing: LISTED }), 'keep unchanged'],
    ['waits before it was ever mirrored', failed({}, { published: [] }), 'hold backing-off'],
    ['does not wait for years after the clock was ahead for a moment', failed(future), PULLED],
  ])('%s', (_what, facts, start) => {
    const action = only(facts);
    expect(`${action.kind} ${action.reason}`).toBe(start);
    if (action.kind === 'hold') expect(action).toMatchObject({ untilMs: later });
  });
});

describe('a repository missing from the list', () => {
  const missed = (missingPasses: number, fields: Partial<Listing> = {}, facts: Facts = {}): Facts => ({
    listing: { ...GONE, ...fields },
    published: [TREE, published(OTHER)],
    ...recorded({ missingPasses }),
    ...facts,
  });
  const NONE = { repositories: [] };
  const INCOMPLETE = { repositoriesComplete: false };
  const named = (name: string): Facts => missed(9, { workbooks: [row({ repository: name })] });
  const CONTRADICTED = 'hold listing-contradicts-itself';

  it.each<[string, Facts, string]>([
    ['is held in the first complete answer without it', missed(0), 'hold repository-missing'],
    ['is held in the second', missed(1), 'hold repository-missing'],
    ['is retired in the third', missed(2), 'retire repository-gone'],
    ['is retired in every later one', missed(7), 'retire repository-gone'],
    ['is retired without a list of workbooks too', missed(2, { workbooks: null }), 'retire repository-gone'],
    ['is not retired by an empty list', missed(9, NONE), 'hold no-repositories-listed'],
    ['is not retired by an incomplete list', missed(9, INCOMPLETE), 'hold listing-incomplete'],
    ['is kept while workbooks name it', named(REPOSITORY.fullName), CONTRADICTED],
    ['is kept while workbooks name its id', named(REPOSITORY.id), CONTRADICTED],
    ['is kept while workbooks name it in another case', named('ACCOUNTING'), CONTRADICTED],
    ['is pulled as a whole when it is back', missed(2, LISTED, { published: [TREE] }), 'pull confirm-gone'],
  ])('%s', (_what, facts, decision) => {
    expect(planOf(facts)).toContain(`${decision} main`);
  });
});

describe('a repository with another name', () => {
  const FAILED = recorded({ failure: failure() });

  it.each<[string, Facts, string]>([
    ['only moves its tree, without a pull', { published: [TREE] }, 'keep unchanged Finance/main (main)'],
    [
      'moves its tree and pulls what has changed',
      {
        listing: { ...AS_RENAMED, workbooks: [row({ repository: 'Finance', versionId: 'v2' })] },
        published: [TREE],
      },
      'pull versions-changed Finance/main (main)',
    ],
    [
      'moves its tree though it failed before',
      { published: [TREE], ...FAILED },
      'keep unchanged Finance/main (main)',
    ],
    [
      'moves every tree under its branch',
      { published: [TREE, published(REPOSITORY, { branch: 'feature/x', fingerprint: 'old' })] },
      'pull versions-changed Finance/feature%2Fx (feature%2Fx), keep unchanged Finance/main (main)',
    ],
    [
      'does not move trees that the filters exclude',
      { published: [TREE], ...selecting((fullName) => fullName !== 'Finance') },
      'hold not-selected Finance/main',
    ],
    [
      'gets a corrected manifest if only that differs',
      { published: [{ ...TREE, path: 'Finance/main' }] },
      'keep unchanged Finance/main (Finance/main)',
    ],
    [
      'has the HEAD of its former name retired where it is',
      { published: [HEAD_TREE, TREE] },
      'keep unchanged Finance/main (main), retire branch-known HEAD',
    ],
    [
      'keeps the tree at the path of its new name if it has two, and retires the other',
      { published: [TREE, publishedUnder(RENAMED, RENAMED_ROWS)] },
      'keep unchanged Finance/main, retire duplicate main',
    ],
    [
      'does not retire a second tree if the one at its path is missing from the disk',
      { published: [TREE, publishedUnder(RENAMED, RENAMED_ROWS, { treePresent: false })] },
      'keep unchanged Finance/main (main)',
    ],
  ])('%s', (_what, facts, plan) => {
    expect(planOf({ listing: AS_RENAMED, ...facts })).toBe(plan);
  });

  it('has its present name in the action', () => {
    const { repository: named } = only({ listing: AS_RENAMED, published: [TREE] });
    expect(named).toMatchObject({ fullName: 'Finance' });
  });
});

describe('a repository that was recreated with the same name', () => {
  const recreated = (missingPasses: number, fields: Partial<Listing> = {}): Facts => ({
    listing: listing({ repositories: [repository({ id: 'second' })], workbooks: ROWS, ...fields }),
    published: [TREE],
    ...recorded({ missingPasses }),
  });

  it.each<[string, Facts, string]>([
    [
      'waits while too few answers lacked the old one',
      recreated(1),
      'hold path-occupied main, hold repository-missing main',
    ],
    [
      'is pulled when the old one goes',
      recreated(2),
      'pull never-mirrored main, retire repository-gone main',
    ],
    [
      'leaves the old one in its place while it waits to be tried again',
      {
        ...recreated(2),
        records: recordMap(
          record({ missingPasses: 2 }),
          record({ target: { repositoryId: 'second', branch: 'main' }, failure: failure() }),
        ),
      },
      'hold backing-off main, hold repository-missing main',
    ],
    [
      'is pulled immediately to a path where the old one has no tree',
      recreated(0, { workbooks: [row({ branch: 'dev' })] }),
      'pull never-mirrored dev, hold repository-missing main',
    ],
    [
      'does not displace the old one because of an incomplete list',
      recreated(2, { repositoriesComplete: false }),
      'hold path-occupied main, hold listing-incomplete main',
    ],
  ])('%s', (_what, facts, plan) => {
    expect(planOf(facts)).toBe(plan);
  });
});

describe('HEAD', () => {
  const BESIDE_ROWS = publishedUnder(REPOSITORY, ROWS, { branch: HEAD_BRANCH });
  const HEAD_OF_BUSY = publishedUnder(REPOSITORY, [row({ processing: 1 })], {
    branch: HEAD_BRANCH,
    settled: false,
  });
  const HEAD = { published: [BESIDE_ROWS] };
  const BOTH = { listing: LISTED, published: [HEAD_TREE, TREE] };

  it.each<[string, Facts, string]>([
    ['is kept while no branch is known', { published: [HEAD_TREE] }, 'keep unchanged HEAD'],
    ['is always pulled without a list', { ...HEAD, listing: UNVERSIONED }, 'pull no-version-list HEAD'],
    [
      'is compared until a named branch is mirrored',
      { ...HEAD, listing: LISTED },
      `${NEW}, pull no-version-list HEAD`,
    ],
    [
      'is kept beside a branch with fewer files that the service processes',
      { listing: BUSY, published: [TREE, { ...HEAD_OF_BUSY, fileCount: 2 }] },
      'keep unchanged main, keep unchanged HEAD',
    ],
    ['is retired once a branch is published', BOTH, 'keep unchanged main, retire branch-known HEAD'],
    [
      'waits to be tried again after its retirement failed',
      {
        ...BOTH,
        records: recordMap(record({}), record({ target: target(HEAD_BRANCH), failure: failure() })),
      },
      'keep unchanged main, hold backing-off HEAD',
    ],
    [
      'is not retired for a tree that is missing from the disk',
      { listing: LISTED, published: [BESIDE_ROWS, ABSENT_TREE] },
      'pull tree-missing main, pull no-version-list HEAD',
    ],
    ['is not requested if a configured branch is known', configured(false), 'pull never-mirrored main'],
    ['is not requested if a mirrored branch is known', { published: [EMPTY_TREE] }, 'keep unchanged main'],
    ['may be configured', configured(true, HEAD_BRANCH), 'pull never-mirrored HEAD'],
    [
      'is never retired by an incomplete list of repositories',
      { ...BOTH, listing: { ...LISTED, repositoriesComplete: false } },
      'keep unchanged main, hold superseded HEAD',
    ],
  ])('%s', (_what, facts, plan) => {
    expect(planOf(facts)).toBe(plan);
  });
});

describe('branches of a repository', () => {
  it('come from versions, settings and the disk, each once', () => {
    const plan = planOf({
      listing: listing({ workbooks: [row(), row({ path: 'b' }), row({ branch: 'feature/x' })] }),
      published: [publishedUnder(REPOSITORY, [], { branch: 'old' })],
      ...configured(false, 'release'),
    });
    const pulls = ['feature%2Fx', 'main', 'release'].map((path) => `pull never-mirrored ${path}`);
    expect(plan.split(', ').toSorted()).toEqual(['keep unchanged old', ...pulls]);
  });

  it('are decided one by one', () => {
    const rows = [row(), row({ branch: 'dev', versionId: 'v2' })];
    const dev = publishedUnder(REPOSITORY, [row({ branch: 'dev' })], { branch: 'dev' });
    expect(planOf({ listing: listing({ workbooks: rows }), published: [TREE, dev] })).toBe(
      'pull versions-changed dev, keep unchanged main',
    );
  });

  it('do not take the versions of another repository', () => {
    const workbooks = [row(), row({ repository: 'Other', branch: 'dev' })];
    expect(planOf({ listing: listing({ repositories: [REPOSITORY, OTHER], workbooks }) })).toBe(
      'pull never-mirrored main, pull never-mirrored Other/dev',
    );
  });
});

describe('the next full check', () => {
  const PERIOD_MS = 24 * HOUR_MS;
  const due = (branch: string, nowMs = NOW_MS): number => fullCheckDueMs(target(branch), nowMs, PERIOD_MS);

  it('is spread over the second half of the period', () => {
    const dues = Array.from({ length: 500 }, (_, index) => due(`branch ${index}`));
    const tenths = dues.map((at) => Math.ceil((10 * (at - NOW_MS - PERIOD_MS / 2)) / (PERIOD_MS / 2)));
    expect(Math.min(...tenths)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...tenths)).toBeLessThanOrEqual(10);
    for (let tenth = 1; tenth <= 10; tenth += 1) {
      expect(tenths.filter((each) => each === tenth).length).toBeGreaterThan(20);
    }
  });

  it('has a constant time until it happens', () => {
    expect(due('main')).toBe(due('main'));
    expect(due('main', NOW_MS + 1) - 1).not.toBe(due('main'));
  });

  it('is immediate if the period is zero', () => {
    expect(fullCheckDueMs(target(), NOW_MS, 0)).toBe(NOW_MS);
  });
});
