import { describe, expect, it } from 'vitest';
import { type ErrorCode, MirrorError } from '../../../../src/lib/errors/errors.ts';
import type { Action, HoldReason } from '../../../../src/mirror/plan/actions.ts';
import { makePlan } from '../../../../src/mirror/plan/plan.ts';
import { exitCodeOfPass } from '../../../../src/mirror/pass/reports.ts';
import { listing, planInput, pulledOutcome, row } from '../../../support/builders.ts';

const [PULL] = makePlan(planInput({ listing: listing({ workbooks: [row()] }) }));

type Result = Parameters<typeof exitCodeOfPass>[0][number];

function result(outcome: Result['outcome'], action: Action | undefined = PULL): Result {
  if (action === undefined) throw new Error('no action');
  return { action, outcome };
}

function held(reason: HoldReason): Result {
  const { action } = result({ kind: 'held' });
  return result({ kind: 'held' }, { ...action, kind: 'hold', reason, untilMs: null, guarded: null });
}

function failed(code: ErrorCode): Result {
  return result({ kind: 'failed', error: new MirrorError(code, '') });
}

const HELD = { subject: 'files', deletions: 8, of: 10, digest: 'd' } as const;
const FINE = (['kept', 'absent', 'retired'] as const).map((kind) => result({ kind }));
const GOOD = [...FINE, result(pulledOutcome(1))];

function codeOf(
  results: readonly Result[],
  counts: { repositories?: number; selected?: number } = {},
): number {
  const selection = { repositories: 1, selected: 1, unmatched: [], ...counts };
  return exitCodeOfPass(results, selection, { repositoriesComplete: true });
}

describe('the exit code of a pass', () => {
  it.each<[string, Result[], number]>([
    ['that had nothing to do', [], 0],
    ['in which all went well', GOOD, 0],
    ['that skipped unselected targets', [...GOOD, held('not-selected')], 0],
    ['that skipped HEAD, as its branch is known', [...GOOD, held('superseded')], 0],
    ['that left a pull behind', [...GOOD, result({ kind: 'unfinished', hasBegun: true })], 0],
    ['in which a target failed', [...GOOD, failed('service.failed')], 1],
    ['in which the service refused a repository', [...GOOD, failed('contents.forbidden')], 1],
    ['in which a target was missing', [...GOOD, result({ kind: 'missing' })], 0],
    ['that held a deletion', [...GOOD, result({ kind: 'guarded', held: HELD })], 1],
    ['with a defect', [failed('service.failed'), failed('internal.defect'), ...GOOD], 70],
    ['that held a target that failed before', [...GOOD, held('backing-off')], 1],
    ['that held a target in quarantine', [...GOOD, held('quarantined')], 1],
    ['that waited for the service', [...GOOD, held('service-processing')], 1],
    ['that waited for a path', [...GOOD, held('path-occupied')], 1],
    ['that missed a repository', [...GOOD, held('repository-missing')], 1],
    ['whose list was empty', [...GOOD, held('no-repositories-listed')], 1],
    ['whose list was incomplete', [...GOOD, held('listing-incomplete')], 1],
    ['whose lists contradicted each other', [...GOOD, held('listing-contradicts-itself')], 1],
  ])('%s', (_what, results, exitCode) => {
    expect(codeOf(results)).toBe(exitCode);
  });

  it('that selected nothing, although there are targets', () => {
    expect(codeOf([], { selected: 0 })).toBe(1);
    expect(codeOf([], { repositories: 0, selected: 0 })).toBe(0);
  });
});
