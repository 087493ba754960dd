import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { fingerprintOfTree } from '../../../../src/mirror/plan/workbooks.ts';
import type { Action, PlanInput } from '../../../../src/mirror/plan/actions.ts';
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
  type Repository,
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
 * is simulated as src/sync does it. The laws hold for any answers of the service.
 */

const NAMES = ['a', 'b', 'host/org/plan.git'];
const IDS = ['1', '2', '3'];
const BRANCHES = ['main', 'dev'];
const PATHS = ['x.xlsx', 'folder/y.xlsx'];
const RETIRE_AFTER = 3;
const POLICY = planPolicy({ retireAfterPasses: RETIRE_AFTER });

/** The true contents of the service: by repository id, its name and, by branch and path, versions. */
type Truth = ReadonlyMap<string, { readonly name: string; readonly branches: Branches }>;
type Branches = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** A change on the service. */
type Change =
  | { readonly kind: 'repository'; readonly id: string; readonly name: string }
  | { readonly kind: 'remove-repository'; readonly id: string }
  | {
      readonly kind: 'version';
      readonly id: string;
      readonly branch: string;
      readonly path: string;
      readonly version: string;
    }
  | { readonly kind: 'remove-branch'; readonly id: string; readonly branch: string };

/** The fault of an answer. */
type Lie =
  | 'none'
  | 'no-repositories'
  | 'repository-lost'
  | 'all-rows-malformed'
  | 'workbooks-lost'
  | 'workbooks-incomplete'
  | 'no-workbooks'
  | 'no-v1'
  | 'contradiction'
  | 'rows-twice'
  | 'rows-turned';

/** A pass: earlier changes, the answers of the service, the clock and failing contents. */
interface Step {
  readonly changes: readonly Change[];
  readonly lie: Lie;
  readonly clockMs: number;
  /** Repositories whose contents seem absent, clearly or not, or fail. */
  readonly contents: 'honest' | 'absent' | 'vague' | 'failing';
  readonly urgent: boolean;
}

const someChange: fc.Arbitrary<Change> = fc.oneof(
  fc.record({
    kind: fc.constant('repository' as const),
    id: fc.constantFrom(...IDS),
    name: fc.constantFrom(...NAMES),
  }),
  fc.record({ kind: fc.constant('remove-repository' as const), id: fc.constantFrom(...IDS) }),
  fc.record({
    kind: fc.constant('version' as const),
    id: fc.constantFrom(...IDS),
    branch: fc.constantFrom(...BRANCHES),
    path: fc.constantFrom(...PATHS),
    version: fc.constantFrom('v1', 'v2', 'v3'),
  }),
  fc.record({
    kind: fc.constant('remove-branch' as const),
    id: fc.constantFrom(...IDS),
    branch: fc.constantFrom(...BRANCHES),
  }),
);

const LIES: readonly Lie[] = [
  'no-repositories',
  'repository-lost',
  'all-rows-malformed',
  'workbooks-lost',
  'workbooks-incomplete',
  'no-workbooks',
  'no-v1',
  'contradiction',
  'rows-twice',
  'rows-turned',
];

const someStep: fc.Arbitrary<Step> = fc.record({
  changes: fc.array(someChange, { maxLength: 3 }),
  lie: fc.oneof({ weight: 2, arbitrary: fc.constant('none' as const) }, fc.constantFrom(...LIES)),
  clockMs: fc.constantFrom(5 * MINUTE_MS, 5 * MINUTE_MS, 5 * MINUTE_MS, -3 * HOUR_MS, 30 * HOUR_MS, 0),
  contents: fc.constantFrom('honest', 'honest', 'honest', 'absent', 'vague', 'failing'),
  urgent: fc.boolean(),
});

function changed(truth: Truth, change: Change): Truth {
  const next = new Map(truth);
  const known = next.get(change.id);
  if (change.kind === 'repository') {
    const isTaken = [...next].some(([id, { name }]) => id !== change.id && name === change.name);
    if (!isTaken) next.set(change.id, { name: change.name, branches: known?.branches ?? new Map() });
    return next;
  }
  if (known === undefined) return next;
  const branches = new Map(known.branches);
  if (change.kind === 'remove-repository') next.delete(change.id);
  if (change.kind === 'remove-branch') branches.delete(change.branch);
  if (change.kind === 'version') {
    branches.set(change.branch, new Map(branches.get(change.branch)).set(change.path, change.version));
  }
  if (change.kind !== 'remove-repository') next.set(change.id, { ...known, branches });
  return next;
}

function repositoriesOf(truth: Truth): Repository[] {
  return [...truth].map(([id, { name }]) => repository({ id, fullName: name }));
}

function rowsOf(truth: Truth): WorkbookRow[] {
  return [...truth.values()].flatMap(({ name, branches }) =>
    [...branches].flatMap(([branch, versions]) =>
      [...versions].map(([path, versionId]) => row({ repository: name, branch, path, versionId })),
    ),
  );
}

/** The service's answer as the client understands it. */
function answered(truth: Truth, lie: Lie, takenAtMs: number): Listing {
  const repositories = repositoriesOf(truth);
  const workbooks = rowsOf(truth);
  const honest = listing({ takenAtMs, serviceTimeMs: takenAtMs, repositories, workbooks });
  switch (lie) {
    case 'none':
      return honest;
    case 'no-repositories':
      return { ...honest, repositories: [] };
    case 'repository-lost':
      return { ...honest, repositories: repositories.slice(1), repositoriesComplete: false };
    case 'all-rows-malformed':
      return {
        ...honest,
        repositories: [],
        repositoriesComplete: false,
        workbooks: [],
        workbooksComplete: false,
      };
    case 'workbooks-lost':
      return { ...honest, workbooks: workbooks.slice(1), workbooksComplete: false };
    case 'workbooks-incomplete':
      return { ...honest, workbooksComplete: false };
    case 'no-workbooks':
      return { ...honest, workbooks: [] };
    case 'no-v1':
      return { ...honest, workbooks: null, workbooksComplete: false };
    case 'contradiction':
      return { ...honest, repositories: repositories.slice(1) };
    case 'rows-twice':
      return { ...honest, workbooks: [...workbooks, ...workbooks] };
    case 'rows-turned':
      return { ...honest, repositories: repositories.toReversed(), workbooks: workbooks.toReversed() };
  }
}

/** The disk, the records and the time. */
interface World {
  readonly truth: Truth;
  readonly trees: ReadonlyMap<string, Tree>;
  readonly records: ReadonlyMap<string, TargetRecord>;
  readonly nowMs: number;
}

/** A published tree with its true contents. */
interface Tree {
  readonly facts: Published;
  readonly contents: ReadonlyMap<string, string>;
}

const NOWHERE: World = { truth: new Map(), trees: new Map(), records: new Map(), nowMs: NOW_MS };

/** The contents of a branch; without a branch name, of `main`. Null if there are none. */
function contentsOf(truth: Truth, repositoryId: string, branch: string): ReadonlyMap<string, string> | null {
  const branches = truth.get(repositoryId)?.branches;
  return branches?.get(branch === HEAD_BRANCH ? 'main' : branch) ?? null;
}

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
  readonly trees: Map<string, Tree>;
  readonly records: Map<string, TargetRecord>;
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
    const tree = moveFrom === null ? undefined : this.trees.get(moveFrom);
    if (moveFrom === null || tree === undefined) return;
    this.trees.delete(moveFrom);
    this.trees.set(path, { ...tree, facts: { ...tree.facts, path, repository: of } });
  }

  private pull(action: Extract<Action, { kind: 'pull' }>): Outcome {
    const { target, path } = action;
    const contents = contentsOf(this.world.truth, target.repositoryId, target.branch);
    if (this.step.contents === 'failing') return failedWith('service.failed');
    if (contents === null || this.step.contents !== 'honest') return this.absent(action);
    const before = this.trees.get(path);
    const facts = this.facts(action, contents, before?.facts);
    this.trees.set(path, { facts, contents });
    return pulledOutcome(1, facts.publishedAtMs);
  }

  /** As src/mirror/pass/receive.ts judges it; other contents of the repository are found if any branch is there. */
  private absent(action: Extract<Action, { kind: 'pull' }>): Outcome {
    const { target, whenAbsent } = action;
    if (whenAbsent === 'accept') return { kind: 'absent' };
    if (whenAbsent === 'fail' || this.step.contents === 'vague' || !this.isReachable(target.repositoryId)) {
      return failedWith('contents.not_found');
    }
    return { kind: 'missing' };
  }

  private isReachable(repositoryId: string): boolean {
    return (this.world.truth.get(repositoryId)?.branches.size ?? 0) > 0;
  }

  /** The service's second answer for a branch before it is retired; null if it still has nothing. */
  private askedAgain({ target }: Action): Outcome | null {
    if (this.step.contents === 'failing') return failedWith('service.failed');
    if (!this.isReachable(target.repositoryId)) return failedWith('contents.not_found');
    const contents = contentsOf(this.world.truth, target.repositoryId, target.branch);
    return contents !== null && this.step.contents === 'honest' ? { kind: 'held' } : null;
  }

  private facts(
    action: Action,
    contents: ReadonlyMap<string, string>,
    before: Published | undefined,
  ): Published {
    const { target, repository: of, path } = action;
    const rows = this.polled.workbooks?.filter((each) => each.repository === of.fullName) ?? null;
    const fingerprint =
      rows === null ? null : fingerprintOfTree(rows, target.branch, (file) => contents.has(file));
    const { nowMs } = this.world;
    return published(repository(of), {
      path,
      branch: target.branch,
      fingerprint: fingerprint?.digest ?? null,
      borrowed: fingerprint?.borrowed ?? [],
      settled: action.kind === 'pull' && action.settled,
      treePresent: true,
      verifiedAtMs: nowMs,
      publishedAtMs: before?.publishedAtMs ?? nowMs,
    });
  }

  private retire(action: Action): void {
    const { path, target } = action;
    const tree = this.trees.get(path);
    const isStillThere =
      tree?.facts.repository.id === target.repositoryId && tree.facts.branch === target.branch;
    const objection = isStillThere && action.reason === 'branch-gone' ? this.askedAgain(action) : null;
    if (objection !== null) {
      this.remember(action, objection);
      return;
    }
    if (isStillThere) this.trees.delete(path);
    this.outcomes.set(targetKey(target), { kind: 'retired' });
  }

  private remember(action: Action, outcome: Outcome): void {
    const key = targetKey(action.target);
    const { nowMs } = this.world;
    const step = {
      action,
      outcome,
      tree: null,
      listedAtMs: nowMs,
      nowMs,
      random: 0.5,
    };
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

const someLife = fc.array(someStep, { minLength: 1, maxLength: 25 });

function holdsAlways(law: (passes: readonly Pass[]) => void): void {
  fc.assert(
    fc.property(someLife, (steps) => law(life(steps))),
    { numRuns: 400 },
  );
}

/** The trees that a pass removed, by key; a move keeps a tree. */
function lostIn({ before, after }: Pass): Published[] {
  const left = new Set([...after.trees.values()].map(({ facts }) => keyOf(facts)));
  return [...before.trees.values()].flatMap(({ facts }) => (left.has(keyOf(facts)) ? [] : [facts]));
}

/** Its repository was listed and gave other contents, but none of the branch: that counts like a list that lacks it. */
function isBranchMissing(outcomes: Pass['outcomes'], tree: Published): boolean {
  return outcomes.get(keyOf(tree))?.kind === 'missing';
}

function keyOf({ repository: of, branch }: Published): string {
  return targetKey({ repositoryId: of.id, branch });
}

const HEALTHY: Step = { changes: [], lie: 'none', clockMs: 5 * MINUTE_MS, contents: 'honest', urgent: true };

describe('in any history of a service', () => {
  it('each listed branch and each tree has exactly one action, and nothing else has any', () => {
    holdsAlways((passes) => {
      for (const { plan, input } of passes) {
        const keys = plan.map(({ target }) => targetKey(target));
        expect(new Set(keys).size).toBe(keys.length);
        const { repositories, workbooks } = input.listing;
        const listed = repositories.flatMap(({ id, fullName }) =>
          (workbooks ?? []).flatMap((each) =>
            each.repository === fullName ? [targetKey({ repositoryId: id, branch: each.branch })] : [],
          ),
        );
        expect(keys).toEqual(expect.arrayContaining([...listed, ...input.published.map(keyOf)]));
        const known = [...repositories, ...input.published.map((tree) => tree.repository)].map(
          ({ id }) => id,
        );
        for (const { target } of plan) expect(known).toContain(target.repositoryId);
      }
    });
  });

  it('no two targets have the same path', () => {
    holdsAlways((passes) => {
      for (const { plan } of passes) {
        const paths = plan.flatMap(({ kind, path }) => (kind === 'pull' || kind === 'keep' ? [path] : []));
        expect(new Set(paths).size).toBe(paths.length);
      }
    });
  });

  it('a plan is the same for the same facts, in any order of the lists', () => {
    const sorted = (plan: readonly Action[]): Action[] =>
      plan.toSorted((a, b) => (targetKey(a.target) < targetKey(b.target) ? -1 : 1));
    holdsAlways((passes) => {
      for (const { plan, input } of passes) {
        const { repositories, workbooks, ...rest } = input.listing;
        const turned = {
          ...rest,
          repositories: repositories.toReversed(),
          workbooks: workbooks?.toReversed() ?? null,
        };
        expect(sorted(makePlan({ ...input, listing: turned }))).toEqual(sorted(plan));
      }
    });
  });

  it('a repository’s tree is retired only after consecutive complete lists without it and without contrary evidence', () => {
    holdsAlways((passes) => {
      passes.forEach((pass, at) => {
        for (const lost of lostIn(pass)) {
          const action = pass.plan.find(({ target }) => targetKey(target) === keyOf(lost));
          if (action?.reason !== 'repository-gone') continue;
          let lacking = 0;
          for (const { input, outcomes } of passes.slice(0, at + 1).toReversed()) {
            const { repositories, repositoriesComplete } = input.listing;
            if (isBranchMissing(outcomes, lost)) lacking += 1;
            else if (repositories.some(({ id }) => id === lost.repository.id)) break;
            else if (repositoriesComplete && repositories.length > 0) lacking += 1;
          }
          expect(lacking).toBeGreaterThanOrEqual(RETIRE_AFTER);
        }
      });
    });
  });

  it('no tree is retired because of an empty or incomplete list of repositories', () => {
    holdsAlways((passes) => {
      for (const pass of passes) {
        const { repositories, repositoriesComplete } = pass.input.listing;
        if (repositories.length > 0 && repositoriesComplete) continue;
        const gone = lostIn(pass).filter(
          ({ repository: of }) => !repositories.some(({ id }) => id === of.id),
        );
        expect(gone).toEqual([]);
      }
    });
  });

  it('a branch’s tree is retired only after its contents were clearly absent often enough', () => {
    holdsAlways((passes) => {
      passes.forEach((pass, at) => {
        for (const lost of lostIn(pass)) {
          const key = keyOf(lost);
          const action = pass.plan.find(({ target }) => targetKey(target) === key);
          if (action?.reason === 'repository-gone' || action?.reason === 'branch-known') continue;
          expect(action).toMatchObject({ kind: 'retire', reason: 'branch-gone' });
          const absences = passes
            .slice(0, at + 1)
            .filter(({ outcomes }) => ['missing', 'retired'].includes(outcomes.get(key)?.kind ?? ''));
          expect(absences.length).toBeGreaterThanOrEqual(RETIRE_AFTER);
          expect(pass.step.contents).not.toBe('failing');
        }
      });
    });
  });

  it('the tree without a branch is retired only when a tree with a branch exists', () => {
    holdsAlways((passes) => {
      for (const pass of passes) {
        for (const { reason, target } of pass.plan) {
          if (reason !== 'branch-known') continue;
          expect(target.branch).toBe(HEAD_BRANCH);
          const others = [...pass.before.trees.values()].filter(
            ({ facts }) => facts.repository.id === target.repositoryId && facts.branch !== HEAD_BRANCH,
          );
          expect(others.length).toBeGreaterThan(0);
        }
      }
    });
  });

  it('a tree is kept as verified only if its listing is the same as when it was published', () => {
    holdsAlways((passes) => {
      for (const { plan, input, before } of passes) {
        for (const action of plan) {
          if (action.kind !== 'keep' || action.reason === 'absent') continue;
          expect(input.listing.workbooks).not.toBeNull();
          const tree = [...before.trees.values()].find(
            ({ facts }) => keyOf(facts) === targetKey(action.target),
          );
          expect(tree?.facts.fingerprint).toBe(action.fingerprint);
        }
      }
    });
  });

  it('one bad row does not affect the targets of other repositories', () => {
    const badRow = fc.constantFrom<Partial<Listing>>(
      { workbooksComplete: false },
      { repositoriesComplete: false },
    );
    fc.assert(
      fc.property(someLife, fc.constantFrom(...IDS), badRow, (steps, id, incomplete) => {
        const pass = life(steps).at(-1);
        if (pass === undefined) return;
        const { input } = pass;
        const { listing: polled } = input;
        const concerned = polled.repositories.find((each) => each.id === id);
        if (concerned === undefined || polled.workbooks === null) return;
        const lostAt = polled.workbooks.findIndex((each) => each.repository === concerned.fullName);
        const bad: Listing = {
          ...polled,
          ...incomplete,
          workbooks: polled.workbooks.filter((_each, at) => at !== lostAt),
        };
        const withBad = makePlan({ ...input, listing: bad });
        // An incomplete list retires nothing: a target that the complete list retires may only wait or be requested.
        const retiring = new Set(
          pass.plan.flatMap(({ kind, target }) => (kind === 'retire' ? [targetKey(target)] : [])),
        );
        const ofOthers = (plan: readonly Action[]): Action[] =>
          plan.filter(
            ({ target }) =>
              target.repositoryId !== id &&
              polled.repositories.some((each) => each.id === target.repositoryId),
          );
        const essence = (plan: readonly Action[]): unknown[] =>
          ofOthers(plan)
            .filter(({ target }) => !retiring.has(targetKey(target)))
            .map(({ kind, reason, path, fingerprint, target }) => ({
              kind,
              reason,
              path,
              fingerprint,
              target,
            }));
        expect(essence(withBad)).toEqual(essence(pass.plan));
        for (const { kind, target } of ofOthers(withBad)) {
          if (retiring.has(targetKey(target))) expect(['retire', 'hold', 'pull']).toContain(kind);
        }
        const retired = withBad.filter(({ reason }) => reason === 'repository-gone');
        if (!bad.repositoriesComplete) expect(retired).toEqual([]);
      }),
      { numRuns: 400 },
    );
  });

  it('once the service is well, the mirror equals it, and then nothing changes', () => {
    fc.assert(
      fc.property(someLife, (steps) => {
        const sick = life(steps).at(-1);
        if (sick === undefined) return;
        fc.pre(sick.after.truth.size > 0);
        // One pass more than retiring takes, so that retired trees make room; a cycle of names takes two.
        // The first pass is a full check: a list may have lied while a tree was published, so that later lists show no change.
        const well = life(
          [
            { ...HEALTHY, clockMs: 3 * POLICY.fullCheckMs },
            ...Array.from({ length: RETIRE_AFTER + 2 }, () => HEALTHY),
          ],
          sick.after,
        );
        const last = well.at(-1);
        if (last === undefined) return;
        const { trees, truth } = last.after;
        // If a repository no longer gives any contents, nothing proves that its branches are gone: they stay.
        const isEmptied = (id: string): boolean => truth.get(id)?.branches.size === 0;
        const found = [...trees.values()].flatMap(({ facts, contents }) =>
          facts.branch === HEAD_BRANCH || isEmptied(facts.repository.id) ? [] : [[keyOf(facts), contents]],
        );
        const wanted = [...truth].flatMap(([id, { branches }]) =>
          [...branches].map(([branch, contents]) => [targetKey({ repositoryId: id, branch }), contents]),
        );
        expect(Object.fromEntries(found)).toEqual(Object.fromEntries(wanted));
        const rest = passed(last.after, { ...HEALTHY, urgent: false });
        const busy = rest.plan.filter(({ kind }) => kind === 'retire' || kind === 'pull');
        expect(
          busy.filter(({ reason, target }) => reason !== 'full-check' && !isEmptied(target.repositoryId)),
        ).toEqual([]);
      }),
      { numRuns: 400 },
    );
  });
});
