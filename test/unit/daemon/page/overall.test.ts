import { describe, expect, it } from 'vitest';

import type { DaemonReport } from '../../../../src/daemon/status/report.ts';
import { problemsOf } from '../../../../src/daemon/page/attention.js';
import { overallOf, unknownState } from '../../../../src/daemon/page/overall.js';
import { MINUTE_MS, NOW_MS } from '../../../support/builders.ts';
import {
  daemonReport,
  failingTarget,
  heldTarget,
  manyTargets,
  passNote,
  targetStatus,
  troubledReport,
} from '../../../support/page-reports.ts';

const FAILED_PASS = passNote({
  result: 'failed',
  summary: null,
  failure: { code: 'service.timeout', message: 'The service did not answer.', hint: null },
});
const ACCEPTED = { state: 'accepted', key: 1, sinceMs: NOW_MS, nextAttemptAtMs: null } as const;
const REFUSED = { ...ACCEPTED, state: 'refused', key: null } as const;
const PROBLEM = {
  code: 'settings.invalid',
  message: 'schedule: no cron expression',
  hint: 'Mend it.',
} as const;
const SETTINGS = { takenAtMs: NOW_MS, problem: PROBLEM, restartNeeded: [] };
const STUCK = { isAlive: false, state: 'stuck', silentMs: 20 * MINUTE_MS } as const;
const STOPPING = { isAlive: true, state: 'stopping', silentMs: 0 } as const;

describe('the state of the whole', () => {
  it.each<[string, DaemonReport, string, string]>([
    [
      'ready',
      daemonReport(),
      'Ready',
      'All 24 targets were verified against the service within the last 15 min.',
    ],
    ['ready', daemonReport({ targets: [targetStatus()] }), 'Ready', 'The one target was verified'],
    ['ready', daemonReport({ targets: [] }), 'Ready', 'there is nothing to mirror'],
    ['not-ready', daemonReport({ targets: [heldTarget()] }), 'Held', '1 deletion waits for approval'],
    ['stuck', daemonReport({ liveness: STUCK }), 'Stuck', 'no progress for 20 min'],
    ['stopping', daemonReport({ liveness: STOPPING }), 'Stopping', 'is shutting down'],
    [
      'starting',
      daemonReport({ live: { hasFinishedPass: false, passes: [] } }),
      'Starting',
      '24 targets known from before',
    ],
    [
      'ready',
      daemonReport({ live: { passes: [FAILED_PASS] } }),
      'Ready',
      'within the last 15 min. The last pass failed.',
    ],
    [
      'starting',
      daemonReport({
        live: { hasFinishedPass: false, passes: [] },
        targets: [targetStatus(), targetStatus({ repository: 'b', state: 'pending', verifiedAtMs: null })],
      }),
      'Starting',
      '1 of 2 targets mirrored.',
    ],
    [
      'failing',
      daemonReport({ live: { hasFinishedPass: false, passes: [FAILED_PASS] } }),
      'Failing',
      'The last pass failed',
    ],
    [
      'failing',
      daemonReport({ targets: [failingTarget(), targetStatus({ repository: 'b' })] }),
      'Failing',
      '1 of 2 targets fails. All were still verified in time.',
    ],
    [
      'stale',
      daemonReport({ targets: [targetStatus({ state: 'stale', isStale: true })] }),
      'Stale',
      '1 of 1 target not verified within the last 15 min',
    ],
    [
      'not-ready',
      daemonReport({ targets: [targetStatus({ state: 'damaged' })] }),
      'Not ready',
      '1 of 1 target cannot be relied on',
    ],
    [
      'settings-refused',
      daemonReport({ live: { settings: SETTINGS } }),
      'Settings refused',
      'the old ones stay',
    ],
    [
      'key-refused',
      daemonReport({ live: { credentials: { apiKey: REFUSED, apiToken: ACCEPTED } } }),
      'Key refused',
      'The service refuses the API key.',
    ],
    [
      'key-refused',
      daemonReport({ live: { credentials: { apiKey: REFUSED, apiToken: REFUSED } } }),
      'Key refused',
      'the API key and the API token',
    ],
  ])('is %s', (state, report, word, sentence) => {
    const overall = overallOf(report);
    expect(overall).toMatchObject({ state, word });
    expect(overall.sentence).toContain(sentence);
  });

  it('is told by what is gravest', () => {
    const report = troubledReport();
    expect(overallOf(report).state).toBe('stuck');
    const alive = { ...report, liveness: { isAlive: true, state: 'idle', silentMs: 0 } as const };
    expect(overallOf(alive).state).toBe('key-refused');
  });

  it('leaves out what the settings leave out', () => {
    const report = daemonReport({
      targets: [targetStatus(), targetStatus({ repository: 'b', state: 'unselected' })],
    });
    expect(overallOf(report).sentence).toContain('The one target');
  });

  it('is unknown when the daemon does not answer, with what it said last', () => {
    const last = overallOf(daemonReport());
    expect(unknownState(last)).toMatchObject({ state: 'unknown', tone: 'off', word: 'Unknown' });
    expect(unknownState(last).sentence).toMatch(/^When it last answered: Ready\. All 24/);
  });
});

describe('what wants attention', () => {
  it('is nothing where all is well', () => {
    expect(problemsOf(daemonReport())).toEqual([]);
  });

  it('is everything that is wrong, each once', () => {
    const keys = problemsOf(troubledReport()).map(({ key }) => key);
    expect(keys).toEqual([
      'stuck',
      'credential-apiKey',
      'pass',
      'failure-contents.interrupted',
      'failure-archive.refused',
      'failure-contents.forbidden',
      'state-damaged',
      'state-drifted',
      'state-stale',
      'held-Budget $(id) `id`/main',
      'held-"><script>alert(1)</script>/gone',
      'settings',
      'restart',
      'workbooks',
      'disk',
    ]);
  });

  it('is one problem for targets that fail of one cause, and shows them', () => {
    const targets = ['a', 'b', 'c'].map((repository) => failingTarget({ repository }));
    const [problem] = problemsOf(daemonReport({ targets }));
    expect(problem).toMatchObject({
      title: '3 targets fail',
      selection: { search: 'contents.interrupted', state: null },
    });
  });

  it('names a hold with the command that the daemon gives, and no other', () => {
    const report = daemonReport({ targets: [heldTarget()] });
    expect(problemsOf(report)).toMatchObject([{ command: null }]);
    const [target = heldTarget()] = report.targets;
    const answered = { ...report, targets: [{ ...target, approveCommand: "workbook-mirror approve 'a'" }] };
    expect(problemsOf(answered)).toMatchObject([{ command: "workbook-mirror approve 'a'" }]);
  });

  it('stays short with many holds', () => {
    const targets = Array.from({ length: 30 }, (_, index) => heldTarget({ repository: `r${index}` }));
    const problems = problemsOf(daemonReport({ targets }));
    expect(problems).toHaveLength(6);
    expect(problems.at(-1)).toMatchObject({
      title: '25 more deletions are held',
      selection: { state: 'held' },
    });
  });

  it('stays short with thousands of targets', () => {
    expect(problemsOf(daemonReport({ targets: manyTargets(5000) })).length).toBeLessThan(12);
  });
});
