import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { fingerprintOfTree, groupRows } from '../../../../src/mirror/plan/workbooks.ts';
import type { Action, PlanInput, PullAction } from '../../../../src/mirror/plan/actions.ts';
import { makePlan } from '../../../../src/mirror/plan/plan.ts';
import {
  type Published,
  emptyRecord,
  type Outcome,
  type TargetRecord,
} from '../../../../src/mirror/plan/record.ts';
import { nextRecord } from '../../../../src/mirror/plan/next-record.ts';
import {
  HEAD_BRANCH,
  type Listing,
  type TargetId,
  targetKey,
  type WorkbookRow,
} from '../../../../src/mirror/upstream/listing.ts';
import {
  HOUR_MS,
  listing,
  MINUTE_MS,
  NOW_MS,
  planInput,
  planPolicy,
  published,
  pulledOutcome,
  repository,
  row,
} from '../../../support/builders.ts';

/**
 * A service that changes and lies, and a mirror that follows it: the plan is computed by the program, and its execution
 * is simulated as src/mirror/pass does it. The laws hold for any answers of the service.
 */

const IDS = ['1', '2', '3'];
const RETIRE_AFTER = 3;
const POLICY = planPolicy({ retireAfterPasses: RETIRE_AFTER });

/** The versions of a branch, by path. */
type Contents = ReadonlyMap<string, string>;

/** The true contents of the service: by repository id, its name and its branches. */
type Truth = ReadonlyMap<string, { readonly name: string; readonly branches: ReadonlyMap<string, Contents> }>;

const someChange = fc.record({
  kind: fc.constantFrom('repository', 'remove-repository', 'version', 'remove-branch'),
  id: fc.constantFrom(...IDS),
  name: fc.constantFrom('a', 'b', 'host/org/plan.git'),
  branch: fc.constantFrom('main', 'dev'),
  path: fc.constantFrom('x.xlsx', 'folder/y.xlsx'),
  version: fc.constantFrom('v1', 'v2', 'v3'),
});

const NO_REPOSITORIES = { repositories: [], repositoriesComplete: false };

/** The faults of answers, as fields of the listing that differ from the honest one. */
const LIES: Readonly<Record<string, (of: Listing, rows: readonly WorkbookRow[]) => Partial<Listing>>> = {
  none: () => ({}),
  'no repositories': () => ({ repositories: [] }),
  'a repository lost': ({ repositories }) => ({ ...NO_REPOSITORIES, repositories: repositories.slice(1) }),
  'all rows malformed': () => ({ ...NO_REPOSITORIES, workbooks: [], workbooksComplete: false }),
  'a workbook lost': (_, rows) => ({ workbooks: rows.slice(1), workbooksComplete: false }),
  'workbooks incomplete': () => ({ workbooksComplete: false }),
  'no workbooks': () => ({ workbooks: [] }),
  'no v1': () => ({ workbooks: null, workbooksComplete: false }),
  contradiction: ({ repositories }) => ({ repositories: repositories.slice(1) }),
  'rows twice': (_, rows) => ({ workbooks: [...rows, ...rows] }),
  'rows turned': (of) => inOtherOrder(of),
};

function inOtherOrder({ repositories, workbooks }: Listing): Pick<Listing, 'repositories' | 'workbooks'> {
  return { repositories: repositories.toReversed(), workbooks: workbooks?.toReversed() ?? null };
}

/** A pass: earlier changes, the answers of the service, the clock and failing contents. */
const someStep = fc.record({
  changes: fc.array(someChange, { maxLength: 3 }),
  lie: fc.oneof({ weight: 2, arbitrary: fc.constant('none') }, fc.constantFrom(...Object.keys(LIES))),
  clockMs: fc.constantFrom(5 * MINUTE_MS, 5 * MINUTE_MS, 5 * MINUTE_MS, -3 * HOUR_MS, 30 * HOUR_MS, 0),
  /** Contents seem absent, clearly or not, or fail. */
  contents: fc.constantFrom('honest', 'honest', 'honest', 'absent', 'vague', 'failing'),
  urgent: fc.boolean(),
});
type Step = typeof someStep extends fc.Arbitrary<infer Value> ? Value : never;

function changed(truth: Truth, change: Step['changes'][number]): Truth {
  const { kind, id, name, branch, path, version } = change;
  const next = new Map(truth);
  const known = next.get(id);
  if (kind === 'repository') {
    const isTaken = [...next].some(([other, named]) => other !== id && named.name === name);
    if (!isTaken) next.set(id, { name, branches: known?.branches ?? new Map() });
    return next;
  }
  if (known === undefined) return next;
  const branches = new Map(known.branches);
  if (kind === 'version') branches.set(branch, new Map(branches.get(branch)).set(path, version));
  if (kind === 'remove-branch') branches.delete(branch);
  if (kind === 'remove-repository') next.delete(id);
  else next.set(id, { ...known, branches });
  return next;
}

/** The service's answer as the client understands it. */
function answered(truth: Truth, lie: string, takenAtMs: number): Listing {
  const workbooks = [...truth.values()].flatMap(({ name, branches }) =>
    [...branches].flatMap(([branch, versions]) =>
      [...versions].map(([path, versionId]) => row({ repository: name, branch, path, versionId })),
    ),
  );
  const repositories = [...truth].map(([id, { name }]) => repository({ id, fullName: name }));
  const honest = listing({ takenAtMs, serviceTimeMs: takenAtMs, repositories, workbooks });
  return { ...honest, ...LIES[lie]?.(honest, workbooks) };
}

/** The disk, the records and the time. */
interface World {
  readonly truth: Truth;
  /** The published trees by path, with their true contents. */
  readonly trees: ReadonlyMap<string, { readonly facts: Published; readonly contents: Contents }>;
  readonly records: ReadonlyMap<string, TargetRecord>;
  readonly nowMs: number;
}

const NOWHERE: World = { truth: new Map(), trees: new Map(), records: new Map(), nowMs: NOW_MS };

/** The effects of a pass, for the laws to check. */
interface Pass {
  readonly input: PlanInput;
  readonly plan: readonly Action[];
  readonly outcomes: ReadonlyMap<string, Outcome>;
  readonly step: Step;
  readonly before: World;
  readonly after: World;
}

class Execution {
  readonly trees;
  readonly records;
  readonly outcomes = new Map<string, Outcome>();
  private readonly world: World;
  private readonly step: Step;
  private readonly polled: Listing;

  constructor(world: World, step: Step, polled: Listing) {
    this.world = world;
    this.step = step;
    this.polled = polled;
    this.trees = new Map(world.trees);
    this.records = new Map(world.records);
  }

  run(plan: readonly Action[]): void {
    for (const action of plan) this.move(action);
    for (const action of plan) {
      if (action.kind === 'keep') this.remember(action, { kind: 'kept' });
      if (action.kind === 'hold')
        this.remember(action, { kind: action.reason === 'repository-missing' ? 'missing' : 'held' });
    }
    for (const action of plan) if (action.kind === 'pull') this.remember(action, this.pull(action));
    for (const action of plan) if (action.kind === 'retire') this.retire(action);
    this.forget(plan);
  }

  private move({ moveFrom, path, repository: of }: Action): void {
    const tree = this.trees.get(moveFrom ?? '');
    if (moveFrom === null || tree === undefined) return;
    this.trees.delete(moveFrom);
    this.trees.set(path, { ...tree, facts: { ...tree.facts, path, repository: of } });
  }

  /** As src/mirror/pass/receive.ts judges an answer without contents. */
  private pull(action: PullAction): Outcome {
    const { target, path, whenAbsent, settled } = action;
    if (this.step.contents === 'failing') return failedWith('service.failed');
    const contents = this.given(target);
    if (contents === null) {
      if (whenAbsent === 'accept') return { kind: 'absent' };
      const isProven = whenAbsent !== 'fail' && this.step.contents !== 'vague' && this.isReachable(target);
      return isProven ? { kind: 'missing' } : failedWith('contents.not_found');
    }
    const { nowMs } = this.world;
    const publishedAtMs = this.trees.get(path)?.facts.publishedAtMs ?? nowMs;
    const verified = { path, branch: target.branch, settled, verifiedAtMs: nowMs, publishedAtMs };
    const listed = this.fingerprint(action, contents);
    this.trees.set(path, { facts: published(action.repository, { ...verified, ...listed }), contents });
    return pulledOutcome(1, publishedAtMs);
  }

  /** The contents that the service gives of a branch; without a branch name, of `main`. Null if there are none. */
  private given({ repositoryId, branch }: TargetId): Contents | null {
    if (this.step.contents !== 'honest') return null;
    const branches = this.world.truth.get(repositoryId)?.branches;
    return branches?.get(branch === HEAD_BRANCH ? 'main' : branch) ?? null;
  }

  /** Other contents of the repository are found if any branch is there. */
  private isReachable({ repositoryId }: TargetId): boolean {
    return (this.world.truth.get(repositoryId)?.branches.size ?? 0) > 0;
  }

  private fingerprint({ target, repository: of }: Action, contents: Contents): Partial<Published> {
    if (this.polled.workbooks === null) return {};
    const rows = this.polled.workbooks.filter((each) => each.repository === of.fullName);
    const files = [...contents.keys()].map((path) => ({ path }));
    const { digest, borrowed } = fingerprintOfTree(groupRows(rows), target.branch, files);
    return { fingerprint: digest, borrowed };
  }

  private retire(action: Action): void {
    const key = targetKey(action.target);
    const tree = this.trees.get(action.path);
    const isStillThere = tree !== undefined && keyOf(tree.facts) === key;
    const objection = isStillThere && action.reason === 'branch-gone' ? this.objection(action.target) : null;
    if (objection !== null) return this.remember(action, objection);
    if (isStillThere) this.trees.delete(action.path);
    this.outcomes.set(key, { kind: 'retired' });
  }

  /** The service's second answer for a branch before it is retired; null if it still has nothing. */
  private objection(target: TargetId): Outcome | null {
    if (this.step.contents === 'failing') return failedWith('service.failed');
    if (!this.isReachable(target)) return failedWith('contents.not_found');
    return this.given(target) === null ? null : { kind: 'held' };
  }

  private remember(action: Action, outcome: Outcome): void {
    const key = targetKey(action.target);
    const { nowMs } = this.world;
    const step = { action, outcome, tree: null, listedAtMs: nowMs, nowMs, random: 0.5 };
    this.outcomes.set(key, outcome);
    this.records.set(key, nextRecord(this.records.get(key) ?? emptyRecord(action.target), step));
  }

  /** As src/mirror/pass/record.ts does it. */
  private forget(plan: readonly Action[]): void {
    if (!this.polled.repositoriesComplete || this.polled.repositories.length === 0) return;
    const alive = new Set(plan.map(({ target }) => targetKey(target)));
    for (const [key, outcome] of this.outcomes) if (outcome.kind === 'retired') alive.delete(key);
    for (const key of this.records.keys()) if (!alive.has(key)) this.records.delete(key);
  }
}

function failedWith(code: 'service.failed' | 'contents.not_found'): Outcome {
  return { kind: 'failed', error: new MirrorError(code, '') };
}

function passed(world: World, step: Step): Pass {
  const truth = step.changes.reduce(changed, world.truth);
  const before = { ...world, truth, nowMs: world.nowMs + step.clockMs };
  const polled = answered(truth, step.lie, before.nowMs);
  const input = planInput({
    listing: polled,
    published: [...before.trees.values()].map(({ facts }) => facts),
    records: before.records,
    policy: POLICY,
    nowMs: before.nowMs,
    retries: step.urgent ? 'all' : new Set(),
  });
  const plan = makePlan(input);
  const execution = new Execution(before, step, polled);
  execution.run(plan);
  const { trees, records, outcomes } = execution;
  return { input, plan, outcomes, step, before, after: { ...before, trees, records } };
}

/** Runs a mirror through steps; gives every pass. */
function life(steps: readonly Step[], from = NOWHERE): Pass[] {
  const passes: Pass[] = [];
  for (const step of steps) passes.push(passed(passes.at(-1)?.after ?? from, step));
  return passes;
}

const someLife = fc.array(someStep, { minLength: 1, maxLength: 25, size: 'max' });
const RUNS = { numRuns: 400 };

/** Checks a law for every pass; `until` has the passes from the first to this one. */
function holdsAlways(law: (pass: Pass, until: readonly Pass[]) => void): void {
  const check = (steps: readonly Step[]): void =>
    life(steps).forEach((pass, at, passes) => law(pass, passes.slice(0, at + 1)));
  fc.assert(fc.property(someLife, check), RUNS);
}

/** The trees that a pass removed, with their actions; a move keeps a tree. */
function lostIn({ before, after, plan }: Pass): { tree: Published; action: Action | undefined }[] {
  const left = new Set([...after.trees.values()].map(({ facts }) => keyOf(facts)));
  const actionOn = (tree: Published) => plan.find(({ target }) => targetKey(target) === keyOf(tree));
  const lost = [...before.trees.values()].filter(({ facts }) => !left.has(keyOf(facts)));
  return lost.map(({ facts: tree }) => ({ tree, action: actionOn(tree) }));
}

/** Whether the retirement of a tree failed for another reason than that nothing of its repository was found. */
function isWaitingRetirement({ plan, outcomes }: Pass, tree: Published): boolean {
  const outcome = outcomes.get(keyOf(tree));
  const isRetirement = plan.some(
    ({ kind, target }) => kind === 'retire' && targetKey(target) === keyOf(tree),
  );
  return isRetirement && outcome?.kind === 'failed' && outcome.error.code !== 'contents.not_found';
}

function keyOf({ repository: of, branch }: Published): string {
  return targetKey({ repositoryId: of.id, branch });
}

const HEALTHY: Step = { changes: [], lie: 'none', clockMs: 5 * MINUTE_MS, contents: 'honest', urgent: true };

describe('in any history of a service', () => {
  it('each listed branch and each tree has exactly one action, and nothing else has any', () => {
    holdsAlways(({ plan, input }) => {
      const keys = plan.map(({ target }) => targetKey(target));
      expect(new Set(keys).size).toBe(keys.length);
      const { repositories, workbooks } = input.listing;
      const listed = repositories.flatMap(({ id, fullName }) =>
        (workbooks ?? []).flatMap((each) =>
          each.repository === fullName ? [targetKey({ repositoryId: id, branch: each.branch })] : [],
        ),
      );
      expect(keys).toEqual(expect.arrayContaining([...listed, ...input.published.map(keyOf)]));
      const known = [...repositories, ...input.published.map((tree) => tree.repository)].map(({ id }) => id);
      for (const { target } of plan) expect(known).toContain(target.repositoryId);
    });
  });

  it('no two targets have the same path', () => {
    holdsAlways(({ plan }) => {
      const paths = plan.flatMap(({ kind, path }) => (kind === 'pull' || kind === 'keep' ? [path] : []));
      expect(new Set(paths).size).toBe(paths.length);
    });
  });

  it('a plan is the same for the same facts, in any order of the lists', () => {
    const sorted = (plan: readonly Action[]): Action[] =>
      plan.toSorted((a, b) => (targetKey(a.target) < targetKey(b.target) ? -1 : 1));
    holdsAlways(({ plan, input }) => {
      const turned = { ...input.listing, ...inOtherOrder(input.listing) };
      expect(sorted(makePlan({ ...input, listing: turned }))).toEqual(sorted(plan));
    });
  });

  it('a repository’s tree is retired only after consecutive complete lists without it and without contrary evidence', () => {
    holdsAlways((pass, until) => {
      for (const { tree, action } of lostIn(pass)) {
        if (action?.reason !== 'repository-gone') continue;
        let lacking = 0;
        for (const earlier of until.toReversed()) {
          const { input, outcomes } = earlier;
          const { repositories, repositoriesComplete } = input.listing;
          // It was listed and gave other contents, but none of the branch: that counts like a list that lacks it.
          if (outcomes.get(keyOf(tree))?.kind === 'missing') lacking += 1;
          // A retirement that failed waits: the answers before it still count.
          else if (isWaitingRetirement(earlier, tree)) continue;
          else if (repositories.some(({ id }) => id === tree.repository.id)) break;
          else if (repositoriesComplete && repositories.length > 0) lacking += 1;
        }
        expect(lacking).toBeGreaterThanOrEqual(RETIRE_AFTER);
      }
    });
  });

  it('a branch’s tree is retired only after its contents were clearly absent often enough', () => {
    holdsAlways((pass, until) => {
      for (const { tree, action } of lostIn(pass)) {
        if (action?.reason === 'repository-gone' || action?.reason === 'branch-known') continue;
        expect(action).toMatchObject({ kind: 'retire', reason: 'branch-gone' });
        const absences = until.filter(({ outcomes }) =>
          ['missing', 'retired'].includes(outcomes.get(keyOf(tree))?.kind ?? ''),
        );
        expect(absences.length).toBeGreaterThanOrEqual(RETIRE_AFTER);
        expect(pass.step.contents).not.toBe('failing');
      }
    });
  });

  it('one bad row does not affect the targets of other repositories', () => {
    const badRow = fc.constantFrom('workbooksComplete', 'repositoriesComplete');
    const law = (steps: readonly Step[], id: string, incomplete: string): void => {
      const { input, plan } = life(steps).at(-1) as Pass;
      const { repositories, workbooks } = input.listing;
      const concerned = repositories.find((each) => each.id === id);
      if (concerned === undefined || workbooks === null) return;
      const lostAt = workbooks.findIndex((each) => each.repository === concerned.fullName);
      const rest = workbooks.toSpliced(lostAt, lostAt < 0 ? 0 : 1);
      const bad: Listing = { ...input.listing, [incomplete]: false, workbooks: rest };
      const others = new Set(repositories.map((each) => each.id).filter((each) => each !== id));
      const ofOthers = (actions: readonly Action[]): Map<string, string> => {
        const theirs = actions.filter(({ target }) => others.has(target.repositoryId));
        const shown = ({ kind, reason, path, fingerprint }: Action): string =>
          [kind, reason, path, fingerprint].join(' ');
        return new Map(theirs.map((action) => [targetKey(action.target), shown(action)]));
      };
      const withBad = makePlan({ ...input, listing: bad });
      const [found, expected] = [ofOthers(withBad), ofOthers(plan)];
      // An incomplete list retires nothing: a target that the complete list retires may only wait or be requested.
      // A new target at the path of such a target may wait for it.
      const leaving = new Set(plan.flatMap(({ kind, path }) => (kind === 'retire' ? [path] : [])));
      for (const { kind, path, target } of plan) {
        const key = targetKey(target);
        if ((kind !== 'retire' && !leaving.has(path)) || !expected.delete(key)) continue;
        const allowed = kind === 'retire' ? /^(?:retire|hold|pull)/ : /^(?:pull|hold path-occupied) /;
        expect(found.get(key) ?? 'hold').toMatch(allowed);
        found.delete(key);
      }
      expect(found).toEqual(expected);
      const retired = withBad.filter(({ reason }) => reason === 'repository-gone');
      if (!bad.repositoriesComplete) expect(retired).toEqual([]);
    };
    fc.assert(fc.property(someLife, fc.constantFrom(...IDS), badRow, law), RUNS);
  });

  it('once the service is well, the mirror equals it, and then nothing changes', () => {
    const law = (steps: readonly Step[]): void => {
      const sick = life(steps).at(-1) as Pass;
      fc.pre(sick.after.truth.size > 0);
      // One pass more than retiring takes, so that retired trees make room; a cycle of names takes two.
      // The first pass is a full check: a list may have lied while a tree was published, so that later lists show no change.
      const recovery = Array.from({ length: RETIRE_AFTER + 2 }, () => HEALTHY);
      const first = { ...HEALTHY, clockMs: 3 * POLICY.fullCheckMs };
      const { after } = life([first, ...recovery], sick.after).at(-1) as Pass;
      // If a repository no longer gives any contents, nothing proves that its branches are gone: they stay.
      const isEmptied = (id: string): boolean => after.truth.get(id)?.branches.size === 0;
      const found = [...after.trees.values()].flatMap(({ facts, contents }) =>
        facts.branch === HEAD_BRANCH || isEmptied(facts.repository.id) ? [] : [[keyOf(facts), contents]],
      );
      const wanted = [...after.truth].flatMap(([repositoryId, { branches }]) =>
        [...branches].map(([branch, contents]) => [targetKey({ repositoryId, branch }), contents]),
      );
      expect(Object.fromEntries(found)).toEqual(Object.fromEntries(wanted));
      const busy = passed(after, { ...HEALTHY, urgent: false }).plan.filter(
        ({ kind, reason, target }) =>
          (kind === 'retire' || kind === 'pull') &&
          reason !== 'full-check' &&
          !isEmptied(target.repositoryId),
      );
      expect(busy).toEqual([]);
    };
    fc.assert(fc.property(someLife, law), RUNS);
  });
});
