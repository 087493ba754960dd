import { initialLive } from '../../src/daemon/status/live.ts';
import { readinessOf } from '../../src/daemon/status/readiness.ts';
import type { DaemonReport, Live, PassNote } from '../../src/daemon/status/status-schema.ts';
import type { TargetStatus } from '../../src/app/target-status.ts';
import { failure, HOUR_MS, MINUTE_MS, NOW_MS, passFinished } from './builders.ts';

const DAY_MS = 24 * HOUR_MS;

/** A target; by default fresh and verified a minute ago. */
export function targetStatus(fields: Partial<TargetStatus> = {}): TargetStatus {
  const { repository = 'Accounting', branch = 'main' } = fields;
  return {
    target: `${repository}/${encodeURIComponent(branch)}`,
    repository,
    repositoryId: repository,
    branch,
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

/** A report; by default, of a healthy daemon. */
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
    readiness: { isReady: true, isListed: true, selectsNothing: false, stateProblem: null, notReady: [] },
    liveness: { isAlive: true, state: 'idle', silentMs: 0 },
    live: initialLive(NOW_MS - HOUR_MS),
    pulls: [],
    scan: null,
    leases: [],
    disk: { sizeBytes: 2000, freeBytes: 500 },
    targets: [targetStatus()],
    changes: [],
    notices: [],
    ...fields,
  };
}

/** A report with every possible part. */
export function eventfulReport(): DaemonReport {
  const wrong = { code: 'service.unreachable', message: 'It does not answer.', hint: null } as const;
  const workbook = { workbookId: 'w', versionId: 'v', branch: 'main' };
  const drift = { added: 1, missing: 2, modified: 3, first: 'plan.xlsx', sinceMs: NOW_MS - MINUTE_MS };
  return daemonReport({
    readiness: {
      isReady: false,
      isListed: true,
      selectsNothing: false,
      stateProblem: null,
      notReady: [{ target: 'Failing/main', reason: 'stale', verifiedAtMs: NOW_MS - HOUR_MS }],
    },
    liveness: { isAlive: false, state: 'stuck', silentMs: 90_000 },
    live: {
      ...initialLive(NOW_MS - HOUR_MS),
      pass: {
        trigger: 'signal',
        startedAtMs: NOW_MS - 1000,
        planned: { pull: 2, keep: 1, hold: 0, retire: 0 },
        done: 1,
        pulling: ['Accounting/main'],
      },
      slow: [{ target: 'Huge/main', startedAtMs: NOW_MS - HOUR_MS }],
      passes: [
        passNote({ trigger: 'start', startedAtMs: NOW_MS - HOUR_MS, durationMs: 2000 }, 1),
        passNote({ durationMs: 500, result: 'failed', summary: null, failure: wrong }),
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
      targetStatus({ repository: 'Drifted', state: 'drifted', drift }),
      failingTarget({ repository: 'Failing', isStale: true }),
      heldTarget({ repository: "Ada's $(plan)" }),
      targetStatus({ repository: 'New', state: 'pending', isStale: true, verifiedAtMs: null }),
    ],
    notices: [{ atMs: NOW_MS, level: 'error', event: 'pass.failed', message: 'pass failed' }],
  });
}

/** A target that fails. */
export function failingTarget(fields: Partial<TargetStatus> = {}): TargetStatus {
  const nextAttemptAtMs = NOW_MS + 4 * MINUTE_MS;
  const broken = failure({
    code: 'contents.interrupted',
    message: 'The contents of the branch broke off after 12.3 MB.',
    hint: 'If it goes on, look at the proxies in between.',
    attempts: 7,
    nextAttemptAtMs,
  });
  return targetStatus({ state: 'failing', nextAttemptAtMs, failure: broken, ...fields });
}

/** A target with a deletion on hold. */
export function heldTarget(fields: Partial<TargetStatus> = {}): TargetStatus {
  const held = {
    subject: 'files',
    deletions: 31,
    of: 42,
    digest: 'd1',
    sinceMs: NOW_MS - 2 * HOUR_MS,
    nextLookAtMs: NOW_MS + HOUR_MS,
    fingerprint: null,
    first: [],
  } as const;
  return targetStatus({ state: 'held', held, ...fields });
}

/** A finished pass. */
export function passNote(fields: Partial<PassNote> = {}, changed = 0): PassNote {
  const { trigger, durationMs, ...summary } = passFinished({
    durationMs: 1400,
    targets: 40,
    pulled: changed,
    changed,
    downloadedBytes: changed * 800_000,
    changedFiles: changed * 3,
  });
  const startedAtMs = NOW_MS - MINUTE_MS;
  return { trigger, startedAtMs, durationMs, result: 'finished', summary, failure: null, ...fields };
}

/** Passes, one in twenty failed. */
function passHistory(count: number): PassNote[] {
  const failure = { code: 'service.timeout', message: 'The service did not answer.', hint: null } as const;
  return Array.from({ length: count }, (_, index) => {
    const startedAtMs = NOW_MS - (count - index) * 5 * MINUTE_MS;
    return index % 20 === 10
      ? passNote({ startedAtMs, durationMs: 9000, result: 'failed', summary: null, failure })
      : passNote({ startedAtMs }, index % 6 === 0 ? 1 : 0);
  });
}

/** A report of an ordinary day; its readiness follows from its targets. */
export function ordinaryReport(
  fields: Partial<Omit<DaemonReport, 'live'>> & { readonly live?: Partial<Live> } = {},
): DaemonReport {
  const { live, targets = ordinaryTargets(), ...others } = fields;
  const sinceMs = NOW_MS - DAY_MS;
  const accepted = { state: 'accepted', key: 1, sinceMs, nextAttemptAtMs: null } as const;
  const isListed = live?.hasFinishedPass ?? true;
  return daemonReport({
    readiness: readinessOf(targets, { isListed, selectsNothing: false }),
    disk: { sizeBytes: 512e9, freeBytes: 211e9 },
    targets,
    changes: targets.slice(-10).map(({ target }, at) => recentChange(target, NOW_MS - at * HOUR_MS)),
    ...others,
    live: {
      ...initialLive(NOW_MS - 3 * DAY_MS),
      passes: passHistory(96),
      hasFinishedPass: isListed,
      nextPassAtMs: NOW_MS + 3 * MINUTE_MS + 42_000,
      upstream: {
        readAtMs: NOW_MS - MINUTE_MS,
        repositories: 24,
        workbooks: 310,
        processing: { count: 0, first: [] },
        failed: { count: 0, first: [] },
      },
      credentials: { apiKey: accepted, apiToken: accepted },
      ...live,
    },
  });
}

const REPOSITORIES = [
  'github.com/acme/finance-models.git',
  'github.com/acme/plan.git',
  'gitlab.example.com/ops/capacity.git',
  'Accounting',
  'Payroll 2025',
  'dev.azure.com/acme/pricing/_git/tables',
  'Board pack',
  'bitbucket.org/acme/forecast.git',
];
const BRANCHES = ['main', 'release/2025-06', 'draft'];

/** A change with a long name. */
function recentChange(target: string, atMs: number): DaemonReport['changes'][number] {
  const path = `${'long'.repeat(30)}/${target}.xlsx`;
  const change = { change: 'changed', path, version: 'v2', author: 'anna', message: '<b>third</b>' } as const;
  return { target, atMs, kind: 'changed', files: 3, first: [change] };
}

/** Two dozen healthy targets. */
export function ordinaryTargets(): TargetStatus[] {
  return REPOSITORIES.flatMap((repository, row) =>
    BRANCHES.map((branch, column) => {
      const seed = row * 3 + column;
      return targetStatus({
        repository,
        branch,
        verifiedAtMs: NOW_MS - 70_000,
        changedAtMs: NOW_MS - ((seed * 7_919_000) % (9 * DAY_MS)) - MINUTE_MS,
        checkedAtMs: NOW_MS - ((seed * 3_571_000) % DAY_MS) - MINUTE_MS,
        files: 3 + ((seed * 37) % 400),
        sizeBytes: 20_000 * (1 + ((seed * 7919) % 9000)),
      });
    }),
  );
}

/** Many targets, one in a hundred with a problem. */
export function manyTargets(count: number): TargetStatus[] {
  const drift = { added: 1, missing: 0, modified: 2, first: 'plan.xlsx', sinceMs: NOW_MS - HOUR_MS };
  const troubles: readonly Partial<TargetStatus>[] = [
    { state: 'stale', isStale: true, verifiedAtMs: NOW_MS - HOUR_MS },
    { state: 'drifted', drift },
    { state: 'absent' },
    { state: 'held', held: heldTarget().held },
    { state: 'failing', failure: failingTarget().failure },
  ];
  return Array.from({ length: count }, (_, index) => {
    const fields = {
      repository: `github.com/acme/repository-${String(index).padStart(4, '0')}.git`,
      verifiedAtMs: NOW_MS - 30_000 - (index % 60) * 9000,
      changedAtMs: NOW_MS - ((index * 7_919_000) % (30 * DAY_MS)),
      files: (index * 37) % 900,
      sizeBytes: (index * 7_919_333) % 900_000_000,
    };
    const trouble = index % 100 === 50 ? troubles[((index - 50) / 100) % troubles.length] : {};
    return targetStatus({ ...fields, ...trouble });
  });
}

/** Malicious names of repositories. */
export const HOSTILE_NAMES = [
  '<img src=x onerror=alert(1)>',
  '"><script>alert(1)</script>',
  'gpj.\u202Exslx.evil',
  'two\nlines\tand\u0000more',
  'long-name-'.repeat(50),
  "'; alert(1); //",
  '</title><svg onload=alert(1)>',
  '__proto__',
  'عربي/قائمة',
  'Z\u0351\u036B\u0343\u036A\u0302a\u0334\u0335l\u0321g\u0322o',
] as const;

/** All problems at once, in malicious names and messages. */
export function troubledReport(): DaemonReport {
  const [image, script, turned, lines, long] = HOSTILE_NAMES;
  const times = { verifiedAtMs: null, changedAtMs: null, checkedAtMs: null, nextFullCheckAtMs: null };
  const [takenAtMs, untilMs] = [NOW_MS - 20 * MINUTE_MS, NOW_MS + 40 * MINUTE_MS];
  return ordinaryReport({
    canExchange: false,
    publishesWhole: false,
    disk: { sizeBytes: 512e9, freeBytes: 9e9 },
    liveness: { isAlive: false, state: 'stuck', silentMs: 17 * MINUTE_MS },
    targets: [
      ...ordinaryTargets().slice(0, 9),
      ...HOSTILE_NAMES.map((repository) =>
        failingTarget({ repository, isStale: true, verifiedAtMs: NOW_MS - DAY_MS }),
      ),
      heldTarget({ repository: 'Budget $(id) `id`' }),
      heldTarget({ repository: script, branch: 'gone' }),
      targetStatus({
        repository: lines,
        branch: 'x',
        state: 'drifted',
        drift: { added: 0, missing: 3, modified: 1, first: image, sinceMs: NOW_MS - HOUR_MS },
      }),
      targetStatus({
        repository: 'Quarter',
        state: 'quarantined',
        failure: failure({
          code: 'archive.refused',
          action: 'quarantine',
          message: `The archive has ${JSON.stringify(turned)}.`,
        }),
      }),
      targetStatus({
        repository: 'Secret plan',
        state: 'stalled',
        failure: failure({ code: 'contents.forbidden', action: 'stall', message: long }),
      }),
      targetStatus({ repository: 'Damaged', state: 'damaged', isStale: true }),
      targetStatus({ repository: 'Restored', restoredAtMs: NOW_MS - DAY_MS, isStale: true, state: 'stale' }),
      targetStatus({
        repository: 'Pending',
        state: 'pending',
        ...times,
        fingerprint: null,
        files: 0,
        sizeBytes: 0,
      }),
      targetStatus({ repository: 'Missing', state: 'missing' }),
      targetStatus({ repository: 'Left out', state: 'unselected' }),
    ],
    leases: [{ id: '7f3a9c12', holder: `backup ${image}`, takenAtMs, untilMs }],
    notices: Array.from({ length: 60 }, (_, index) => ({
      atMs: NOW_MS - (60 - index) * MINUTE_MS,
      level: index % 3 === 0 ? ('error' as const) : ('warn' as const),
      event: index % 3 === 0 ? ('target.failed' as const) : ('service.retry' as const),
      message:
        index % 5 === 0
          ? `${image}: The contents broke off. ${long}`
          : 'trying again in 2 s: The service did not answer.',
    })),
    live: {
      pass: {
        trigger: 'schedule',
        startedAtMs: takenAtMs,
        planned: { pull: 12, keep: 30, hold: 2, retire: 1 },
        done: 5,
        pulling: [image, long, 'Payroll/main', 'Accounting/main', 'Board pack/main', 'X/main'],
      },
      passes: [
        ...passHistory(200),
        passNote({
          startedAtMs: NOW_MS - 30 * MINUTE_MS,
          durationMs: 31_000,
          result: 'failed',
          summary: null,
          failure: {
            code: 'credentials.refused',
            message: 'The service refuses the API key (401).',
            hint: 'Make a new key and put it where service.apiKeyFile says.',
          },
        }),
      ],
      upstream: {
        readAtMs: NOW_MS - 30 * MINUTE_MS,
        repositories: 24,
        workbooks: null,
        processing: { count: 14, first: [{ workbookId: 'A/q2.xlsx', versionId: 'v9', branch: 'main' }] },
        failed: { count: 3, first: [{ workbookId: `${image}/plan.xlsx`, versionId: 'v1', branch: turned }] },
      },
      credentials: {
        apiKey: { state: 'refused', key: null, sinceMs: NOW_MS - 2 * HOUR_MS, nextAttemptAtMs: untilMs },
        apiToken: { state: 'unknown', key: null, sinceMs: null, nextAttemptAtMs: null },
      },
      settings: {
        takenAtMs: NOW_MS - DAY_MS,
        problem: {
          code: 'settings.invalid',
          message: `schedule: expected a cron expression\n${image}`,
          hint: 'Correct /etc/workbook-mirror/config.yaml; the daemon reads it again.',
        },
        restartNeeded: ['directory', 'http.listen'],
      },
    },
  });
}
