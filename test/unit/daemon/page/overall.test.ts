import { describe, expect, it } from 'vitest';

import type { TargetStatus } from '../../../../src/app/target-status.ts';
import type { DaemonReport, Live } from '../../../../src/daemon/status/status-schema.ts';
import { problemsOf } from '../../../../src/daemon/page/attention.js';
import { overallOf, unknownState } from '../../../../src/daemon/page/overall.js';
import { MINUTE_MS, NOW_MS } from '../../../support/builders.ts';
import {
  ordinaryReport,
  failingTarget,
  heldTarget,
  manyTargets,
  passNote,
  targetStatus,
  troubledReport,
} from '../../../support/report.ts';

const FAILED_PASS = passNote({
  result: 'failed',
  summary: null,
  failure: { code: 'service.timeout', message: 'The service did not answer.', hint: null },
});
const ACCEPTED = { state: 'accepted', key: 1, sinceMs: NOW_MS, nextAttemptAtMs: null } as const;
const REFUSED = { ...ACCEPTED, state: 'refused', key: null } as const;
const PROBLEM = { code: 'settings.invalid', message: 'schedule: no cron expression', hint: null } as const;
const SETTINGS = { takenAtMs: NOW_MS, problem: PROBLEM, restartNeeded: [] };
const STUCK = { isAlive: false, state: 'stuck', silentMs: 20 * MINUTE_MS } as const;
const STOPPING = { isAlive: true, state: 'stopping', silentMs: 0 } as const;

const STARTING = { hasFinishedPass: false, passes: [] };
const PENDING = targetStatus({ repository: 'b', state: 'pending', verifiedAtMs: null });

const withTargets = (...targets: readonly TargetStatus[]) => ordinaryReport({ targets: [...targets] });

const live = (fields: Partial<Live>): DaemonReport => ordinaryReport({ live: fields });

const withKeys = (apiKey: Live['credentials']['apiKey'], apiToken: typeof apiKey): DaemonReport =>
  live({ credentials: { apiKey, apiToken } });

function withoutState(report: DaemonReport): DaemonReport {
  return { ...report, readiness: { ...report.readiness, stateProblem: 'The disk is full.' } };
}

describe('the state of the whole', () => {
  it.each<[DaemonReport, string, string]>([
    [ordinaryReport(), 'Ready', 'All 24 targets were verified against the service within the last 15 min.'],
    [withTargets(targetStatus()), 'Ready', 'The one target was verified'],
    [withTargets(), 'Ready', 'there is nothing to mirror'],
    [withTargets(heldTarget()), 'Held', '1 deletion waits for approval'],
    [withoutState(ordinaryReport()), 'Not ready', 'The disk is full.'],
    [ordinaryReport({ liveness: STUCK }), 'Stuck', 'no progress for 20 min'],
    [ordinaryReport({ liveness: STOPPING }), 'Stopping', 'is shutting down'],
    [ordinaryReport({ live: STARTING }), 'Starting', '24 of 24 targets mirrored'],
    [live({ passes: [FAILED_PASS] }), 'Ready', 'within the last 15 min. The last pass failed.'],
    [
      ordinaryReport({ live: STARTING, targets: [targetStatus(), PENDING] }),
      'Starting',
      '1 of 2 targets mirrored.',
    ],
    [live({ hasFinishedPass: false, passes: [FAILED_PASS] }), 'Failing', 'The last pass failed'],
    [withTargets(failingTarget(), targetStatus({ repository: 'b' })), 'Failing', '1 of 2 targets fails.'],
    [
      withTargets(targetStatus({ state: 'stale', isStale: true })),
      'Stale',
      '1 of 1 target not verified within the last 15 min',
    ],
    [withTargets(targetStatus({ state: 'damaged' })), 'Not ready', '1 of 1 target cannot be relied on'],
    [live({ settings: SETTINGS }), 'Settings refused', 'the old ones stay'],
    [withKeys(REFUSED, ACCEPTED), 'Key refused', 'The service refuses the API key.'],
    [withKeys(REFUSED, REFUSED), 'Key refused', 'the API key and the API token'],
  ])('has a word and a sentence: $1', (report, word, sentence) => {
    const overall = overallOf(report);
    expect(overall).toMatchObject({ word });
    expect(overall.sentence).toContain(sentence);
  });

  it('is the gravest problem', () => {
    const report = troubledReport();
    expect(overallOf(report).word).toBe('Stuck');
    const alive = { ...report, liveness: { isAlive: true, state: 'idle', silentMs: 0 } as const };
    expect(overallOf(alive).word).toBe('Key refused');
  });

  it('ignores unselected targets', () => {
    const report = withTargets(targetStatus(), targetStatus({ repository: 'b', state: 'unselected' }));
    expect(overallOf(report).sentence).toContain('The one target');
  });

  it('is unknown, with the last answer, when the daemon does not answer', () => {
    const last = overallOf(ordinaryReport());
    expect(unknownState(last)).toMatchObject({ tone: 'off', word: 'Unknown' });
    expect(unknownState(last).sentence).toMatch(/^When it last answered: Ready\. All 24/);
  });
});

describe('the list of problems', () => {
  it('is empty if all is well', () => {
    expect(problemsOf(ordinaryReport())).toEqual([]);
  });

  it('has every problem once', () => {
    expect(problemsOf(troubledReport()).map(({ title }) => title)).toEqual([
      'The daemon is stuck',
      'The service refuses the API key',
      'The last pass failed',
      '10 targets fail',
      'Quarter/main fails',
      'Secret plan/main fails',
      'two\nlines\tand\u0000more/x is changed by someone',
      'Damaged/main is damaged',
      'Restored/main is late',
      'A deletion is held: Budget $(id) `id`/main',
      'A deletion is held: "><script>alert(1)</script>/gone',
      'The new settings are refused, the old ones stay',
      'A restart is needed',
      'The service failed to process 3 workbooks',
      'The disk is nearly full',
    ]);
  });

  it('says when a new key needs a restart', () => {
    const [problem] = problemsOf(withKeys(REFUSED, ACCEPTED));
    expect(problem?.hint).toContain('After a new systemd credential, restart');
  });

  it('has one problem for targets with the same cause, and shows them', () => {
    const targets = ['a', 'b', 'c'].map((repository) => failingTarget({ repository }));
    const [problem] = problemsOf(ordinaryReport({ targets }));
    expect(problem).toMatchObject({ title: '3 targets fail', selection: { search: 'contents.interrupted' } });
  });

  it('names a hold with just the command that the daemon gives', () => {
    const report = ordinaryReport({ targets: [heldTarget()] });
    expect(problemsOf(report)).toMatchObject([{ command: null }]);
    const [target = heldTarget()] = report.targets;
    const answered = { ...report, targets: [{ ...target, approveCommand: "workbook-mirror approve 'a'" }] };
    expect(problemsOf(answered)).toMatchObject([{ command: "workbook-mirror approve 'a'" }]);
  });

  it('stays short with many holds', () => {
    const targets = Array.from({ length: 30 }, (_, index) => heldTarget({ repository: `r${index}` }));
    const problems = problemsOf(ordinaryReport({ targets }));
    expect(problems).toHaveLength(6);
    expect(problems.at(-1)).toMatchObject({ title: '25 more deletions held', selection: { state: 'held' } });
  });

  it('stays short with thousands of targets', () => {
    expect(problemsOf(ordinaryReport({ targets: manyTargets(5000) })).length).toBeLessThan(12);
  });
});
