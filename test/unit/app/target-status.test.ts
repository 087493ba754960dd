import { describe, expect, it } from 'vitest';
import { fullCheckDueMs } from '../../../src/mirror/plan/next-record.ts';
import type { TargetRecord, Published } from '../../../src/mirror/plan/record.ts';
import {
  type StatusPolicy,
  statusOfTargets,
  type TargetState,
  type TargetStatus,
  whyNotWell,
} from '../../../src/app/target-status.ts';
import {
  allBut,
  failure,
  HOUR_MS,
  MINUTE_MS,
  NOW_MS,
  published,
  record,
  recordMap,
  repository,
  selection,
  target,
} from '../../support/builders.ts';
import { heldTarget } from '../../support/report.ts';

const LIMIT_MS = 15 * MINUTE_MS;
const POLICY: StatusPolicy = { selection: selection(), maxStalenessMs: LIMIT_MS, fullCheckMs: 24 * HOUR_MS };
const OLD_MS = NOW_MS - HOUR_MS;
const OLD = { verifiedAtMs: OLD_MS };
const LATELY = { verifiedAtMs: NOW_MS };
const ABSENT = { absentSinceMs: OLD_MS };

function statusOf(tree: Partial<Published> | null, remembered: Partial<TargetRecord> | null): TargetStatus {
  const trees = tree === null ? [] : [published(repository(), tree)];
  const records = remembered === null ? recordMap() : recordMap(record(remembered));
  const [status, ...more] = statusOfTargets(trees, records, POLICY, NOW_MS);
  expect(more).toEqual([]);
  if (status === undefined) throw new Error('no target');
  return status;
}

describe('the state of a target', () => {
  it.each<[string, Partial<Published> | null, Partial<TargetRecord> | null, TargetState, boolean]>([
    ['published a moment ago', {}, null, 'fresh', false],
    [
      'recorded as verified for another tree, for example before a restored backup',
      { ...OLD, publishedAtMs: OLD_MS },
      { ...LATELY, publishedAtMs: NOW_MS - MINUTE_MS },
      'stale',
      true,
    ],
    ['with a deletion on hold', {}, { held: heldTarget().held }, 'held', false],
    ['published at the limit of freshness', { verifiedAtMs: NOW_MS - LIMIT_MS }, null, 'fresh', false],
    ['published longer ago', { verifiedAtMs: NOW_MS - LIMIT_MS - 1 }, null, 'stale', true],
    ['published long ago and verified since', OLD, LATELY, 'fresh', false],
    ['published since it was verified', {}, OLD, 'fresh', false],
    ['failing', {}, { failure: failure() }, 'failing', false],
    ['failing for long', OLD, { failure: failure() }, 'failing', true],
    ['held on purpose at its last attempt', {}, { failure: failure({ action: 'hold' }) }, 'failing', false],
    ['in quarantine', {}, { failure: failure({ action: 'quarantine' }) }, 'quarantined', false],
    ['waiting for a person', {}, { failure: failure({ action: 'stall' }) }, 'stalled', false],
    ['missing in a recent list', OLD, { missingPasses: 1, missingAtMs: NOW_MS }, 'missing', false],
    ['missing in a list of long ago', OLD, { missingPasses: 1, missingAtMs: OLD_MS }, 'stale', true],
    ['missing once, and found again', OLD, { missingAtMs: NOW_MS }, 'stale', true],
    ['failing and missing', {}, { missingPasses: 1, failure: failure() }, 'failing', false],
    ['never mirrored', null, {}, 'pending', true],
    ['never mirrored, as the service is not done', null, { processingSinceMs: OLD_MS }, 'pending', true],
    ['never mirrored, as it fails', null, { failure: failure() }, 'failing', true],
    ['absent', null, { ...ABSENT, ...LATELY }, 'absent', false],
    ['absent at the last check, long ago', null, { ...ABSENT, ...OLD }, 'stale', true],
  ])('%s', (_what, tree, remembered, state, isStale) => {
    expect(statusOf(tree, remembered)).toMatchObject({ state, isStale });
  });

  it('whose tree is gone from the disk is damaged, and not well, unless a failure or a hold explains it', () => {
    const drift = { added: 0, missing: 1, modified: 0, first: '.', sinceMs: NOW_MS, needsRepair: false };
    const tree = { treePresent: false, verifiedAtMs: NOW_MS };
    for (const remembered of [{}, { drift }, { absentSinceMs: NOW_MS }, { missingPasses: 1 }]) {
      const status = statusOf(tree, remembered);
      expect(status).toMatchObject({ state: 'damaged', isStale: true });
      expect(whyNotWell(status)).toBe('damaged');
    }
    const failing = statusOf(tree, { drift, failure: failure() });
    expect(failing).toMatchObject({ state: 'failing', drift: { first: '.' } });
  });

  it('that seems to have been verified in the future is not fresh', () => {
    expect(statusOf({ verifiedAtMs: NOW_MS + 24 * HOUR_MS }, { verifiedAtMs: OLD_MS }).isStale).toBe(true);
  });

  it('left out by the settings is neither fresh nor stale', () => {
    const policy = { ...POLICY, selection: selection({ selects: allBut('main') }) };
    const records = recordMap(record({ failure: failure() }));
    const [status] = statusOfTargets([published()], records, policy, NOW_MS);
    expect(status?.state).toBe('unselected');
  });

  it('renamed to an excluded name is left out, too, although its tree has the former name', () => {
    const decision = { kind: 'hold', reason: 'not-selected', result: 'held', firstAtMs: OLD_MS };
    expect(statusOf(OLD, { decisions: [decision] }).state).toBe('unselected');
  });
});

it('a target with two trees has the state of its record at both', () => {
  const trees = ['A copy/main', 'Accounting/main'].map((path) => published(repository(), { path }));
  const statuses = statusOfTargets(trees, recordMap(record({ failure: failure() })), POLICY, NOW_MS);
  expect(statuses.map(({ state }) => state)).toEqual(['failing', 'failing']);
});

it('a target whose tree someone changed is drifted until the next full comparison', () => {
  const note = { added: 0, missing: 0, modified: 1, first: 'plan.xlsx' };
  const drift = { ...note, sinceMs: NOW_MS - MINUTE_MS, needsRepair: false };
  expect(statusOf({}, { ...LATELY, checkedAtMs: OLD_MS, drift }).state).toBe('drifted');
  expect(statusOf({}, { ...LATELY, checkedAtMs: NOW_MS, drift }).state).toBe('fresh');
});

describe('the report of a target', () => {
  it('has every field for a published target', () => {
    const wrong = failure();
    const known = { fingerprint: 'digest', fileCount: 3, sizeBytes: 12, publishedAtMs: 7 };
    const tree = { ...known, ...OLD, branch: 'feature/x' };
    const remembered = { publishedAtMs: 7, ...LATELY, checkedAtMs: NOW_MS - 1, failure: wrong };
    expect(statusOf(tree, { ...remembered, target: target('feature/x') })).toEqual({
      target: 'Accounting/feature%2Fx',
      repository: 'Accounting',
      repositoryId: 'id-of-Accounting',
      branch: 'feature/x',
      state: 'failing',
      held: null,
      drift: null,
      restoredAtMs: null,
      missingWorkbooks: [],
      isStale: false,
      verifiedAtMs: NOW_MS,
      changedAtMs: 7,
      checkedAtMs: NOW_MS - 1,
      nextFullCheckAtMs: fullCheckDueMs(target('feature/x'), NOW_MS - 1, POLICY.fullCheckMs),
      nextAttemptAtMs: wrong.nextAttemptAtMs,
      fingerprint: 'digest',
      files: 3,
      sizeBytes: 12,
      failure: wrong,
    });
  });

  it('has the known fields for an unpublished target', () => {
    expect(statusOf(null, { target: target('feature/x'), failure: failure() })).toMatchObject({
      target: 'Accounting/feature%2Fx',
      repository: 'Accounting',
      branch: 'feature/x',
      verifiedAtMs: null,
      changedAtMs: null,
      nextFullCheckAtMs: null,
      nextAttemptAtMs: failure().nextAttemptAtMs,
      fingerprint: null,
      files: 0,
      sizeBytes: 0,
    });
  });

  it('exists once for every target, sorted', () => {
    const trees = ['main', 'dev'].map((branch) => published(repository(), { branch }));
    const records = recordMap(
      record(),
      record({ target: target('old'), repository: 'Accounting' }),
      record({ target: target('main', repository({ fullName: 'A' })), repository: 'A' }),
    );
    const names = statusOfTargets(trees, records, POLICY, NOW_MS).map((status) => status.target);
    expect(names).toEqual(['A/main', 'Accounting/dev', 'Accounting/main', 'Accounting/old']);
  });
});
