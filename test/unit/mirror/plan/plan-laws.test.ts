import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
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
import { HEAD_BRANCH, type Listing, targetKey } from '../../../../src/mirror/upstream/listing.ts';
import {
  allBut,
  listing,
  MINUTE_MS,
  NOW_MS,
  planInput,
  planPolicy,
  published,
  repository,
  row,
  selection,
  pulledOutcome,
} from '../../../support/builders.ts';

const NAMES = ['a', 'A', 'b', 'a/main', 'host/org/plan.git'];
const BRANCHES = ['main', 'Main', 'dev', 'feature/x'];
const PATHS = ['x.xlsx', 'y.xlsx', 'folder/z.xlsx'];

const someRepositories = fc.uniqueArray(
  fc.record({ id: fc.constantFrom('1', '2', '3', '4'), fullName: fc.constantFrom(...NAMES) }),
  { selector: ({ id }) => id, maxLength: 4 },
);
const someRow = fc.record({
  repository: fc.constantFrom(...NAMES, 'unlisted'),
  path: fc.constantFrom(...PATHS),
  branch: fc.constantFrom(...BRANCHES),
  versionId: fc.constantFrom('v1', 'v2'),
  versionStatus: fc.constantFrom('success', 'success', null, 'running'),
  processing: fc.constantFrom(0, 0, 0, 1),
});
/** Listings of all kinds: empty, incomplete, without workbooks, with rows that contradict each other. */
const someListing = fc
  .record({
    repositories: someRepositories.map((fields) => fields.map(repository)),
    repositoriesComplete: fc.constantFrom(true, true, true, false),
    workbooks: fc.option(
      fc.array(someRow, { maxLength: 8 }).map((fields) => fields.map(row)),
      { freq: 6 },
    ),
    workbooksComplete: fc.constantFrom(true, true, true, false),
  })
  .map((fields) => listing(fields));
const somePolicy = fc
  .record({
    without: fc.subarray([...BRANCHES, HEAD_BRANCH]),
    configured: fc.subarray([
      { branch: 'main', required: true },
      { branch: 'release', required: false },
      { branch: HEAD_BRANCH, required: false },
    ]),
    all: fc.boolean(),
  })
  .map(({ without, configured, all }) =>
    planPolicy({
      selection: selection({ configured, ...(all ? {} : { selects: allBut(...without) }) }),
    }),
  );

/** A mirror in which actions are applied as passes apply them, but on values. */
interface World {
  readonly trees: readonly Published[];
  readonly records: ReadonlyMap<string, TargetRecord>;
  readonly nowMs: number;
}

const NOWHERE: World = { trees: [], records: new Map(), nowMs: NOW_MS };

/** What a branch holds beside the workbooks that are listed on it: always the same. */
function holds(branch: string, path: string): boolean {
  return (branch.length + path.length) % 2 === 0;
}

function inputOf(world: World, polled: Listing, policy: PlanInput['policy']): PlanInput {
  const { trees, records, nowMs } = world;
  return planInput({
    listing: { ...polled, takenAtMs: nowMs },
    published: trees,
    records,
    policy,
    nowMs,
  });
}

function pulledTree(action: Action, polled: Listing, nowMs: number): Published {
  const { target, repository: of, path, published: before } = action;
  const rows = polled.workbooks?.filter((each) => each.repository === of.fullName) ?? null;
  const own = new Set(rows?.filter((each) => each.branch === target.branch).map((each) => each.path));
  const fingerprint =
    rows === null
      ? null
      : fingerprintOfTree(rows, target.branch, (file) => own.has(file) || holds(target.branch, file));
  const facts = {
    path,
    repository: of,
    branch: target.branch,
    fingerprint: fingerprint?.digest ?? null,
    borrowed: fingerprint?.borrowed ?? [],
    settled: action.kind === 'pull' && action.settled,
    treePresent: true,
  };
  const isNew =
    before?.fingerprint !== facts.fingerprint || before.settled !== facts.settled || !before.treePresent;
  const sinceMs = isNew ? nowMs : before.verifiedAtMs;
  return published(repository(of), { ...facts, verifiedAtMs: sinceMs, publishedAtMs: sinceMs });
}

/** The world after all actions of a plan went well. */
function applied(world: World, plan: readonly Action[], polled: Listing): World {
  const trees = new Map(world.trees.map((tree) => [tree.path, tree]));
  const records = new Map<string, TargetRecord>();
  const remember = (action: Action, outcome: Outcome): void => {
    const key = targetKey(action.target);
    const step = {
      action,
      outcome,
      tree: null,
      listedAtMs: world.nowMs,
      nowMs: world.nowMs,
      random: 0.5,
    };
    records.set(key, nextRecord(world.records.get(key) ?? emptyRecord(action.target), step));
  };
  for (const { moveFrom, path, published: tree, repository: of } of plan) {
    if (moveFrom === null || tree === null) continue;
    trees.delete(moveFrom);
    trees.set(path, { ...tree, path, repository: of });
  }
  for (const action of plan) {
    if (action.kind === 'keep') remember(action, { kind: 'kept' });
    if (action.kind === 'hold')
      remember(action, { kind: action.reason === 'repository-missing' ? 'missing' : 'held' });
    if (action.kind !== 'pull') continue;
    trees.set(action.path, pulledTree(action, polled, world.nowMs));
    remember(action, pulledOutcome(1, world.nowMs));
  }
  for (const { kind, path, target } of plan) {
    if (kind === 'retire' && trees.get(path)?.repository.id === target.repositoryId) trees.delete(path);
  }
  return { trees: [...trees.values()], records, nowMs: world.nowMs + 5 * MINUTE_MS };
}

/** Runs a mirror through listings and lets a law look at every pass. */
function throughPasses(
  listings: readonly Listing[],
  policy: PlanInput['policy'],
  look: (plan: readonly Action[], input: PlanInput) => void,
): World {
  return listings.reduce((world, polled) => {
    const input = inputOf(world, polled, policy);
    const plan = makePlan(input);
    look(plan, input);
    return applied(world, plan, polled);
  }, NOWHERE);
}

function holdsAlways(law: (plan: readonly Action[], input: PlanInput) => void, seed?: number): void {
  const passes = fc.array(fc.oneof(someListing, someListing, fc.constant(null)), { maxLength: 12 });
  fc.assert(
    fc.property(passes, somePolicy, (steps, policy) => {
      // Nothing new at a step: the listing before it comes again, so that counts can grow.
      const listings: Listing[] = [];
      for (const step of steps) listings.push(step ?? listings.at(-1) ?? listing());
      throughPasses(listings, policy, law);
    }),
    { numRuns: 300, ...(seed === undefined ? {} : { seed }) },
  );
}

describe('whatever the service answers, a plan', () => {
  it('retires no repository, and counts none as missing, by an empty or incomplete list', () => {
    holdsAlways((plan, { listing: polled }) => {
      if (polled.repositories.length > 0 && polled.repositoriesComplete) return;
      const against = plan.filter((action) =>
        ['repository-gone', 'repository-missing'].includes(action.reason),
      );
      expect(against).toEqual([]);
    });
  });

  // The seed is one that shows the bug.
  it('retires nothing whose repository was listed in one of the last three passes', () => {
    const seen: ReadonlySet<string>[] = [];
    holdsAlways((plan, { listing: polled, records }) => {
      if (records.size === 0) seen.length = 0;
      seen.push(new Set(polled.repositories.map(({ id }) => id)));
      for (const { reason, target } of plan) {
        if (reason !== 'repository-gone') continue;
        expect(seen.slice(-3).some((ids) => ids.has(target.repositoryId))).toBe(false);
      }
    }, -1705018175);
  });

  it('has exactly one action for every selected branch that is listed', () => {
    holdsAlways((plan, { listing: polled, policy }) => {
      const keys = plan.map(({ target }) => targetKey(target));
      expect(new Set(keys).size).toBe(keys.length);
      for (const { repository: fullName, branch } of polled.workbooks ?? []) {
        for (const { id } of polled.repositories.filter((each) => each.fullName === fullName)) {
          const isPlanned = keys.includes(targetKey({ repositoryId: id, branch }));
          if (policy.selection.selects(fullName, branch)) expect(isPlanned).toBe(true);
        }
      }
    });
  });

  it('has an action for every tree', () => {
    holdsAlways((plan, { published: trees }) => {
      const keys = new Set(plan.map(({ target }) => targetKey(target)));
      for (const { repository: of, branch } of trees) {
        expect(keys).toContain(targetKey({ repositoryId: of.id, branch }));
      }
    });
  });

  it('is about nothing that is neither listed nor mirrored', () => {
    holdsAlways((plan, { listing: polled, published: trees }) => {
      const ids = new Set(
        [...polled.repositories, ...trees.map((tree) => tree.repository)].map(({ id }) => id),
      );
      for (const { target } of plan) expect(ids).toContain(target.repositoryId);
    });
  });

  it('gives no two targets one place, as long as no two repositories have one name', () => {
    holdsAlways((plan, { listing: { repositories } }) => {
      if (new Set(repositories.map(({ fullName }) => fullName)).size < repositories.length) return;
      const paths = plan.flatMap(({ kind, path }) => (kind === 'pull' || kind === 'keep' ? [path] : []));
      expect(new Set(paths).size).toBe(paths.length);
    });
  });

  it('keeps no tree whose versions are others, or that is not there', () => {
    holdsAlways((plan, { listing: polled }) => {
      for (const action of plan) {
        if (action.kind !== 'keep' || action.reason === 'absent') continue;
        expect(action.published?.treePresent).toBe(true);
        expect(polled.workbooks).not.toBeNull();
        expect(action.published?.fingerprint).toBe(action.fingerprint);
      }
    });
  });

  it('says that branches are missing only by a complete list', () => {
    holdsAlways((plan, { listing: polled }) => {
      for (const action of plan) {
        if (action.kind !== 'pull' || action.whenAbsent !== 'count-as-missing') continue;
        expect(polled.workbooks === null || polled.workbooksComplete).toBe(true);
        const named = (polled.workbooks ?? []).filter(
          (each) => each.repository === action.repository.fullName,
        );
        expect(named.map(({ branch }) => branch)).not.toContain(action.target.branch);
      }
    });
  });

  it('leaves alone what is not selected', () => {
    holdsAlways((plan, { policy }) => {
      for (const { kind, target, repository: of, moveFrom } of plan) {
        if (policy.selection.selects(of.fullName, target.branch)) continue;
        expect([kind, moveFrom]).toEqual(['hold', null]);
      }
    });
  });

  it('is the same for the same facts, in whatever order the service lists them', () => {
    const sorted = (plan: readonly Action[]): Action[] =>
      [...plan].sort((a, b) => (targetKey(a.target) < targetKey(b.target) ? -1 : 1));
    holdsAlways((plan, input) => {
      expect(makePlan(input)).toEqual(plan);
      const { repositories, workbooks, ...rest } = input.listing;
      const turned = {
        ...rest,
        repositories: [...repositories].reverse(),
        workbooks: workbooks === null ? null : [...workbooks].reverse(),
      };
      expect(sorted(makePlan({ ...input, listing: turned }))).toEqual(sorted(plan));
    });
  });
});

describe('when nothing changes', () => {
  const settledDown = (before: readonly Listing[], last: Listing, policy: PlanInput['policy']): void => {
    // Six passes are enough for whatever waits for answers in a row; the trees' full checks are hours away.
    const listings = [...before, ...Array.from({ length: 6 }, () => last)];
    const world = throughPasses(listings, policy, () => {});
    const input = inputOf(world, last, policy);
    const plan = makePlan(input);
    expect(plan.filter(({ kind }) => kind === 'pull' || kind === 'retire')).toEqual([]);
    expect(plan.filter(({ moveFrom }) => moveFrom !== null)).toEqual([]);
  };

  it('nothing is pulled, moved or retired any more', () => {
    fc.assert(
      fc.property(
        fc.array(someListing, { maxLength: 5 }),
        someListing,
        somePolicy,
        (before, last, policy) => {
          fc.pre(last.workbooks !== null);
          settledDown(before, last, policy);
        },
      ),
      { numRuns: 500 },
    );
  });

  it('nothing is pulled twice in a row', () => {
    fc.assert(
      fc.property(
        fc.array(someListing, { maxLength: 5 }),
        someListing,
        somePolicy,
        (before, last, policy) => {
          fc.pre(last.workbooks !== null);
          let pulled = new Set<string>();
          throughPasses([...before, last, last, last], policy, (plan, { listing: polled }) => {
            const now = plan.filter(({ kind }) => kind === 'pull').map(({ target }) => targetKey(target));
            if (polled.workbooks === last.workbooks) {
              expect(now.filter((key) => pulled.has(key))).toEqual([]);
            }
            pulled = new Set(polled.workbooks === last.workbooks ? now : []);
          });
        },
      ),
      { numRuns: 500 },
    );
  });
});
