import { expect, it } from 'vitest';

import { describeStatus } from '../../../../src/cli/read/status.ts';
import { failure } from '../../../support/builders.ts';
import { targetStatus } from '../../../support/report.ts';

const TARGET = targetStatus({
  state: 'quarantined',
  failure: failure({ code: 'publish.refused', action: 'quarantine', message: 'refused' }),
  drift: { added: 0, missing: 0, modified: 1, first: 'b.xlsx', sinceMs: 2 },
});

it('a tree that someone changed is told of beside the failure that keeps it from being put right', () => {
  const text = describeStatus({
    nowMs: 10,
    maxStalenessMs: 1000,
    shard: null,
    hasOthers: false,
    lastPass: null,
    holder: null,
    isLockHidden: false,
    leases: [],
    hooksDue: null,
    live: null,
    targets: [TARGET],
  });
  expect(String(text)).toMatch(/^ {2}publish\.refused: refused.*someone changed it: .*b\.xlsx/m);
});

it('fits a terminal, says who works there, how many are how, and what selects nothing', () => {
  const target = 'github.com/org/plan.git/main';
  const text = String(
    describeStatus({
      nowMs: 1_000_000,
      maxStalenessMs: 1000,
      shard: null,
      hasOthers: false,
      lastPass: {
        trigger: 'schedule',
        startedAtMs: 0,
        finishedAtMs: 1,
        listedAtMs: 1,
        summary: null,
        failure: null,
        selection: {
          repositories: 1,
          selected: 1,
          unmatched: [{ setting: 'repositories.include', pattern: 'acounting', nearest: 'Accounting' }],
        },
        publishesWhole: false,
        isWhole: true,
        problems: [],
      },
      isLockHidden: false,
      holder: { pid: 7, sinceMs: 0, isAlive: true },
      leases: [],
      hooksDue: null,
      live: null,
      targets: [
        targetStatus({ target, verifiedAtMs: 0, changedAtMs: 0 }),
        targetStatus({
          target: 'B/main',
          state: 'quarantined',
          isStale: true,
          verifiedAtMs: 0,
          changedAtMs: 0,
        }),
      ],
    }),
  );
  expect(text).toContain('At work: process 7 since 1970-01-01T00:00:00Z (17 min ago)');
  expect(text).toContain('2 targets: 1 fresh, 1 quarantined');
  expect(text).toContain('! repositories.include: "acounting" matches nothing');
  expect(text).toContain('! Publishing goes file by file');
  expect(text.split('\n').filter((line) => line.includes('/main') && line.length > 80)).toEqual([]);
});
