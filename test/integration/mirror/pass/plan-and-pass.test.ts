import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { planPass } from '../../../../src/mirror/pass/pass.ts';
import type { Action, ActionResult } from '../../../../src/mirror/plan/actions.ts';
import type { FakeService } from '../../../support/fake-service.ts';
import { type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';

const NAMES = ['A', 'B', 'C', 'git.example.com/org/d.git'];
const BRANCHES = ['main', 'one', 'two'];

/** The changes at the service between two passes. Names and branches are numbers of those above. */
const change = fc.record({
  kind: fc.constantFrom('write', 'remove', 'delete-branch', 'delete-repository', 'rename', 'processing'),
  name: fc.nat(NAMES.length - 1),
  branch: fc.nat(BRANCHES.length - 1),
  path: fc.constantFrom('a.xlsx', 'b.xlsx', 'notes.txt'),
});
type Change = typeof change extends fc.Arbitrary<infer Value> ? Value : never;

function carryOut(service: FakeService, { kind, name, branch, path }: Change, at: number): void {
  const fullName = NAMES[name] ?? '';
  const branchName = BRANCHES[branch] ?? '';
  const repository = service.repositories.find((each) => each.fullName === fullName);
  if (repository === undefined) {
    service.write(service.addRepository(fullName), branchName, path, `${at}`);
    return;
  }
  switch (kind) {
    case 'write':
      return service.write(repository, branchName, path, `${at}`);
    case 'remove':
      return service.remove(repository, branchName, path);
    case 'delete-branch':
      repository.branches.delete(branchName);
      return;
    case 'delete-repository':
      return service.removeRepository(repository);
    case 'rename':
      return service.renameRepository(repository, `Renamed ${at}`);
    case 'processing': {
      const version = repository.branches.get(branchName)?.versions.get(path);
      if (version !== undefined) version.processing = 1 - version.processing;
    }
  }
}

/** The outcomes that a pass may have for each kind of action. */
const OUTCOMES: Readonly<Record<Action['kind'], readonly ActionResult['outcome']['kind'][]>> = {
  keep: ['kept'],
  hold: ['held', 'guarded', 'missing'],
  pull: ['pulled', 'missing', 'absent', 'failed', 'guarded'],
  // A service that has no contents of a repository any more does not prove that one of its branches is gone: that retirement fails.
  retire: ['retired', 'failed'],
};

function described({ kind, reason, path, moveFrom }: Action): string {
  return `${kind} ${reason} ${path}${moveFrom === null ? '' : ` from ${moveFrom}`}`;
}

/** The plan as lines, or the code of the error that keeps one from being made. */
async function planned(mirror: MirrorHarness): Promise<readonly string[]> {
  return orCode(plan(mirror));
}

async function plan({ context, policy }: MirrorHarness): Promise<readonly string[]> {
  const listing = await context.service.poll(AbortSignal.timeout(250_000), true);
  const { plan: actions } = await planPass(context, policy, listing, new Map(), 'all');
  return actions.map(described).sort();
}

async function passed(mirror: MirrorHarness): Promise<readonly string[]> {
  const { results } = await mirror.pass();
  for (const { action, outcome } of results) expect(OUTCOMES[action.kind]).toContain(outcome.kind);
  return results.map(({ action }) => described(action)).sort();
}

async function orCode(lines: Promise<readonly string[]>): Promise<readonly string[]> {
  try {
    return await lines;
  } catch (error) {
    if (error instanceof MirrorError) return [error.code];
    throw error;
  }
}

it.each([
  ['with the list of workbooks', {}],
  ['without the list of workbooks', { v1: '404' }],
  ['with one row a workbook', { rows: 'latest-only' }],
] as const)('a plan shows what the next pass does, %s', async (_what, knobs) => {
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 4, maxLength: 14 }), async (changes) => {
      const { service, mirror } = await startPair(knobs, { GUARD_TARGETS: '50%' });
      for (const [at, each] of changes.entries()) {
        carryOut(service, each, at);
        const foreseen = await planned(mirror);
        expect(await orCode(passed(mirror))).toStrictEqual(foreseen);
      }
    }),
    { numRuns: 6 },
  );
});
