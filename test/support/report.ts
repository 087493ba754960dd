import { initialLive } from '../../src/daemon/status/live.ts';
import type { DaemonReport } from '../../src/daemon/status/status-schema.ts';
import type { TargetStatus } from '../../src/app/target-status.ts';
import { HOUR_MS, MINUTE_MS, NOW_MS } from './builders.ts';

/** How a target stands: fresh, unless it is said otherwise. */
export function targetStatus(fields: Partial<TargetStatus> = {}): TargetStatus {
  return {
    target: 'Accounting/main',
    repository: 'Accounting',
    branch: 'main',
    state: 'fresh',
    isStale: false,
    verifiedAtMs: NOW_MS - MINUTE_MS,
    changedAtMs: NOW_MS - HOUR_MS,
    checkedAtMs: NOW_MS - 2 * MINUTE_MS,
    nextFullCheckAtMs: NOW_MS + HOUR_MS,
    nextAttemptAtMs: null,
    fingerprint: 'f',
    files: 3,
    sizeBytes: 1000,
    failure: null,
    held: null,
    drift: null,
    restoredAtMs: null,
    missingWorkbooks: [],
    ...fields,
  };
}

/** A report of a daemon that is well, unless it is said otherwise. */
export function daemonReport(fields: Partial<DaemonReport> = {}): DaemonReport {
  return {
    version: '1.2.3',
    service: 'https://workbooks.example.com/api',
    directory: '/var/lib/workbook-mirror',
    shard: null,
    schedule: '*/5 * * * *',
    timezone: 'UTC',
    nowMs: NOW_MS,
    maxStalenessMs: 15 * MINUTE_MS,
    canExchange: true,
    publishesWhole: true,
    readiness: { isReady: true, isListed: true, selectsNothing: false, notReady: [] },
    liveness: { isAlive: true, state: 'idle', silentMs: 0 },
    live: initialLive(NOW_MS - HOUR_MS),
    pulls: [],
    scan: null,
    leases: [],
    disk: { sizeBytes: 2000, freeBytes: 500 },
    targets: [targetStatus()],
    notices: [],
    ...fields,
  };
}

/** A report in which everything that can be there is there. */
export function eventfulReport(): DaemonReport {
  const failure = {
    code: 'archive.damaged',
    action: 'retry',
    message: 'It ends too early.',
    hint: 'Wait.',
    sinceMs: NOW_MS - HOUR_MS,
    lastAtMs: NOW_MS - MINUTE_MS,
    attempts: 3,
    nextAttemptAtMs: NOW_MS + MINUTE_MS,
    fingerprint: 'g',
  } as const;
  const held = {
    subject: 'files',
    deletions: 8,
    of: 10,
    digest: 'd',
    sinceMs: NOW_MS - HOUR_MS,
    nextLookAtMs: NOW_MS + HOUR_MS,
    fingerprint: 'h',
    first: [],
  } as const;
  const drift = { added: 1, missing: 2, modified: 3, first: 'plan.xlsx', sinceMs: NOW_MS - MINUTE_MS };
  const wrong = { code: 'service.unreachable', message: 'It does not answer.', hint: null } as const;
  const workbook = { workbookId: 'w', versionId: 'v', branch: 'main' };
  const live = initialLive(NOW_MS - HOUR_MS);
  return daemonReport({
    readiness: {
      isReady: false,
      isListed: true,
      selectsNothing: false,
      notReady: [{ target: 'Failing/main', reason: 'stale', verifiedAtMs: NOW_MS - HOUR_MS }],
    },
    liveness: { isAlive: false, state: 'stuck', silentMs: 90_000 },
    live: {
      ...live,
      pass: {
        trigger: 'signal',
        startedAtMs: NOW_MS - 1000,
        planned: { pull: 2, keep: 1, hold: 0, retire: 0 },
        done: 1,
        pulling: ['Accounting/main'],
      },
      slow: [{ target: 'Huge/main', startedAtMs: NOW_MS - HOUR_MS }],
      passes: [
        {
          trigger: 'start',
          startedAtMs: NOW_MS - HOUR_MS,
          durationMs: 2000,
          result: 'finished',
          summary: {
            targets: 3,
            pulled: 1,
            changed: 1,
            tried: 0,
            failed: 1,
            held: 1,
            missing: 0,
            downloadedBytes: 10,
            changedFiles: 2,
            pulling: 0,
            waiting: 0,
            processing: 0,
          },
          failure: null,
        },
        {
          trigger: 'schedule',
          startedAtMs: NOW_MS - MINUTE_MS,
          durationMs: 500,
          result: 'failed',
          summary: null,
          failure: wrong,
        },
      ],
      hasFinishedPass: true,
      nextPassAtMs: NOW_MS + MINUTE_MS,
      upstream: {
        readAtMs: NOW_MS - HOUR_MS,
        repositories: 3,
        workbooks: 7,
        processing: { count: 1, first: [workbook] },
        failed: { count: 2, first: [workbook, workbook] },
      },
      credentials: {
        apiKey: { state: 'refused', key: null, sinceMs: NOW_MS, nextAttemptAtMs: NOW_MS + MINUTE_MS },
        apiToken: { state: 'accepted', key: 2, sinceMs: NOW_MS, nextAttemptAtMs: null },
      },
      settings: { takenAtMs: NOW_MS, problem: wrong, restartNeeded: ['directory'] },
      selection: {
        repositories: 3,
        selected: 5,
        unmatched: [{ setting: 'repositories.include', pattern: 'Acounting', nearest: 'Accounting' }],
      },
      http: { problem: wrong },
    },
    leases: [{ id: 'l', holder: 'restic', takenAtMs: NOW_MS, untilMs: NOW_MS + HOUR_MS }],
    targets: [
      targetStatus(),
      targetStatus({ target: 'Drifted/main', repository: 'Drifted', state: 'drifted', drift }),
      targetStatus({
        target: 'Failing/main',
        repository: 'Failing',
        state: 'failing',
        isStale: true,
        failure,
      }),
      targetStatus({ target: "Ada's $(plan)/main", repository: "Ada's $(plan)", state: 'held', held }),
      targetStatus({
        target: 'New/main',
        repository: 'New',
        state: 'pending',
        isStale: true,
        verifiedAtMs: null,
      }),
    ],
    notices: [{ atMs: NOW_MS, level: 'error', event: 'pass.failed', message: 'pass failed' }],
  });
}
