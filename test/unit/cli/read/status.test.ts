import { describe, expect, it } from 'vitest';

import { describeStatus } from '../../../../src/cli/read/status.ts';
import { failure } from '../../../support/builders.ts';
import { targetStatus } from '../../../support/report.ts';

const TARGET = targetStatus({
  state: 'quarantined',
  nextAttemptAtMs: 0,
  failure: failure({ code: 'publish.refused', action: 'quarantine', message: 'refused.' }),
  drift: { added: 0, missing: 0, modified: 1, first: 'b.xlsx', sinceMs: 2 },
});

type Report = Parameters<typeof describeStatus>[0];

const REPORT: Report = {
  nowMs: 10_000,
  maxStalenessMs: 1000,
  shard: null,
  hasOthers: false,
  lastPass: null,
  holder: null,
  isLockHidden: false,
  leases: [],
  hooksDue: null,
  live: null,
  targets: [targetStatus()],
};

const IDLE = { pass: null, pulls: [], scan: null, nextPassAtMs: null };
const LIVE: Report['live'] = { isReady: true, isListed: true, stateProblem: null, ...IDLE };

describe('the head of a status', () => {
  const pass = { trigger: 'schedule', startedAtMs: 9000, planned: 3, done: 1 } as const;

  it.each<[string, Partial<Report>, readonly RegExp[]]>([
    ['of a mirror without a daemon', {}, [/^No pass is on record/]],
    ['next to instances with shares', { hasOthers: true }, [/^! Several shards share/]],
    [
      'of a daemon in its first pass',
      { holder: { pid: 7, sinceMs: 0, isAlive: true } },
      [/^No pass is on record yet\.$/, /^Running: process 7 since/],
    ],
    ['of a daemon that waits', { live: LIVE }, [/^No pass is on record yet\.$/]],
    [
      'of a daemon that cannot read its state',
      { live: { ...LIVE, stateProblem: 'The disk is full. Free some space.' } },
      [/^No pass is on record yet\.$/, /^! Nothing counts as fresh: The disk is full\. Free some space\.$/],
    ],
    [
      'of a daemon that knows when it goes on',
      { live: { ...LIVE, nextPassAtMs: 20_000 } },
      [/^No pass is on record yet\.$/, /^Next pass: 1970-01-01T00:00:20Z$/],
    ],
    [
      'of a daemon that compares trees',
      { live: { ...LIVE, isListed: false, pass, scan: { doneTargets: 1, targets: 2 } } },
      [
        /^No pass is on record yet\.$/,
        /^Current pass: began .*, 1 of 3 targets pulled$/,
        /^Compared with their manifests: 1 of 2 trees$/,
        /^! No pass of the daemon under its present settings is on record yet/,
      ],
    ],
  ])('%s', (_what, fields, head) => {
    const lines = String(describeStatus({ ...REPORT, ...fields })).split('\n');
    const blank = lines.indexOf('');
    expect(lines.slice(0, blank)).toEqual(
      [...head, /^1 target: 1 fresh$/].map((line): unknown => expect.stringMatching(line)),
    );
    // A target without problems has no line below it.
    expect(lines.slice(blank + 1)).toEqual([
      expect.stringMatching(/^STATE/),
      expect.stringMatching(/^fresh .* Accounting\/main$/),
    ]);
  });
});

it('a changed tree is shown together with the failure that prevents its repair', () => {
  const text = describeStatus({ ...REPORT, targets: [TARGET] });
  expect(String(text)).toMatch(
    /^ {2}quarantined; publish\.refused: refused; tried again after \d.*someone changed it: .*b\.xlsx/m,
  );
});

it('fits a terminal, and shows the running process, counts by state and filters without a match', () => {
  const target = 'github.com/org/plan.git/main';
  const unmatched = [{ setting: 'repositories.include', pattern: 'acounting', nearest: 'Accounting' }];
  const lastPass = {
    trigger: 'schedule',
    startedAtMs: 0,
    finishedAtMs: 1,
    listedAtMs: 1,
    summary: null,
    failure: null,
    selection: { repositories: 1, selected: 1, unmatched },
    publishesWhole: false,
    isWhole: true,
    problems: [],
  } as const;
  const old = { target, verifiedAtMs: 0, changedAtMs: 0 };
  const bad = { target: 'B/main', state: 'quarantined', isStale: true } as const;
  const targets = [targetStatus(old), targetStatus({ ...old, ...bad })];
  const holder = { pid: 7, sinceMs: 0, isAlive: true };
  const text = String(describeStatus({ ...REPORT, nowMs: 1_000_000, lastPass, holder, targets }));
  expect(text).toContain('Running: process 7 since 1970-01-01T00:00:00Z (17 min ago)');
  expect(text).toContain('2 targets: 1 fresh, 1 failing');
  expect(text).toContain('! repositories.include: "acounting" matches nothing');
  expect(text).toContain('! Publishing goes file by file');
  expect(text.split('\n').filter((line) => line.includes('/main') && line.length > 80)).toEqual([]);
});
