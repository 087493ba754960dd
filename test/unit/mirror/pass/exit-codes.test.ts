import { describe, expect, it } from 'vitest';
import { type ErrorCode, MirrorError } from '../../../../src/lib/errors/errors.ts';
import type { Action, HoldReason } from '../../../../src/mirror/plan/actions.ts';
import { makePlan } from '../../../../src/mirror/plan/plan.ts';
import { exitCodeOfPass } from '../../../../src/mirror/pass/reports.ts';
import { listing, planInput, row } from '../../../support/builders.ts';

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

const GOOD = [
  result({ kind: 'kept' }),
  result({ kind: 'pulled', changedFiles: 1, publishedAtMs: 1, isExamined: true, tree: null, isWhole: true }),
  result({ kind: 'absent' }),
  result({ kind: 'retired' }),
];

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
    [
      'that held a deletion',
      [...GOOD, result({ kind: 'guarded', held: { subject: 'files', deletions: 8, of: 10, digest: 'd' } })],
      1,
    ],
    ['with a defect', [failed('service.failed'), failed('internal.defect'), ...GOOD], 70],
    ...(
      [
        'backing-off',
        'quarantined',
        'service-processing',
        'path-occupied',
        'repository-missing',
        'no-repositories-listed',
        'listing-incomplete',
        'listing-contradicts-itself',
      ] as const
    ).map((reason): [string, Result[], number] => [
      `that held a target: ${reason}`,
      [...GOOD, held(reason)],
      1,
    ]),
  ])('%s', (_what, results, exitCode) => {
    expect(
      exitCodeOfPass(
        results,
        { repositories: 1, selected: 1, unmatched: [] },
        { repositoriesComplete: true },
      ),
    ).toBe(exitCode);
  });

  it('that selected nothing, although there are targets', () => {
    expect(
      exitCodeOfPass([], { repositories: 1, selected: 0, unmatched: [] }, { repositoriesComplete: true }),
    ).toBe(1);
    expect(
      exitCodeOfPass([], { repositories: 0, selected: 0, unmatched: [] }, { repositoriesComplete: true }),
    ).toBe(0);
  });
});
