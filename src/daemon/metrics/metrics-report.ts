import type { CredentialState, PassNote, SlowPull } from '../status/live.ts';
import type { DaemonReport } from '../status/report.ts';
import {
  isLeftAlone,
  type NotWellReason,
  type TargetState,
  type TargetStatus,
} from '../../app/target-status.ts';
import { flag, type GaugeFamily, inSeconds, type Sample, sole } from './metrics-gauges.ts';

/** All of these appear with every scrape, so that a state that no target is in reads 0. */
const NO_TARGETS: Readonly<Record<TargetState, number>> = {
  fresh: 0,
  stale: 0,
  failing: 0,
  quarantined: 0,
  stalled: 0,
  damaged: 0,
  drifted: 0,
  held: 0,
  missing: 0,
  absent: 0,
  pending: 0,
  unselected: 0,
};
const NOT_READY_REASONS: Readonly<Record<NotWellReason, number>> = {
  'never-verified': 0,
  stale: 0,
  damaged: 0,
  drifted: 0,
  restored: 0,
  failing: 0,
  quarantined: 0,
  stalled: 0,
  held: 0,
};
const CREDENTIAL_STATES: readonly CredentialState['state'][] = ['accepted', 'refused', 'unknown'];
const PASS_RESULTS: readonly PassNote['result'][] = ['finished', 'failed', 'abandoned'];

function plain(name: string, help: string, value: (report: DaemonReport) => number | null): GaugeFamily {
  return { name, help, labels: [], samples: (report) => sole(value(report)) };
}

/** Health and what the daemon is doing. */
const DAEMON: readonly GaugeFamily[] = [
  {
    name: 'build_info',
    help: 'Always 1; the labels say which version runs, on which Node.',
    labels: ['version', 'node_version'],
    samples: ({ version }) => [{ labels: { version, node_version: process.versions.node }, value: 1 }],
  },
  plain('standby', '1 while this instance waits for another one to be gone, else 0.', () => 0),
  plain('ready', '1 if the mirror may be read for what the service has, else 0.', ({ readiness }) =>
    flag(readiness.isReady),
  ),
  plain(
    'unmatched_patterns',
    'Patterns of the settings that match nothing of what the service lists.',
    ({ live }) => live.selection?.unmatched.length ?? null,
  ),
  plain('listed', '1 once a pass of this process came to its end, else 0.', ({ readiness }) =>
    flag(readiness.isListed),
  ),
  {
    name: 'not_ready_targets',
    help: 'Targets that keep the mirror from being ready, by reason.',
    labels: ['reason'],
    samples: ({ readiness }) =>
      countBy(
        'reason',
        NOT_READY_REASONS,
        readiness.notReady.map(({ reason }) => reason),
      ),
  },
  plain('alive', '1 if the loop moves, 0 if the pass in hand is stuck.', ({ liveness }) =>
    flag(liveness.isAlive),
  ),
  plain(
    'loop_silent_seconds',
    'How long the pass in hand has made no progress; 0 between passes.',
    (report) => inSeconds(report.liveness.silentMs),
  ),
  plain('pass_in_progress', '1 while a pass is going on, else 0.', ({ live }) => flag(live.pass !== null)),
  plain(
    'slow_pulls',
    'Pulls that take longer than a minute; passes end without them.',
    ({ live }) => live.slow.length,
  ),
  plain(
    'oldest_slow_pull_start_timestamp_seconds',
    'When the first one of them was begun; no value while there is none.',
    ({ live }) => inSeconds(earliestStartMs(live.slow)),
  ),
  plain('next_pass_timestamp_seconds', 'When the next pass starts.', ({ live }) =>
    inSeconds(live.nextPassAtMs),
  ),
  {
    name: 'last_pass_end_timestamp_seconds',
    help: 'When a pass last ended in this way, of the latest 300 passes of this process.',
    labels: ['result'],
    samples: ({ live }) => PASS_RESULTS.flatMap((result) => lastEnd(live.passes, result)),
  },
  plain(
    'settings_ok',
    '1 if the settings as they stand now are in force, 0 if they were refused.',
    ({ live }) => flag(live.settings.problem === null),
  ),
  plain(
    'settings_restart_needed',
    'Settings that changed and need a restart.',
    ({ live }) => live.settings.restartNeeded.length,
  ),
  plain('leases', 'Leases that publishing waits for.', ({ leases }) => leases.length),
  plain(
    'disk_size_bytes',
    'Size of the file system of the directory.',
    ({ disk }) => disk?.sizeBytes ?? null,
  ),
  plain(
    'disk_free_bytes',
    'Room that the daemon may still use on the file system of the directory.',
    ({ disk }) => disk?.freeBytes ?? null,
  ),
];

/** Gauges of the lists that the service last gave. */
const UPSTREAM: readonly GaugeFamily[] = [
  plain('upstream_read_timestamp_seconds', 'When the lists of the service were last read.', ({ live }) =>
    inSeconds(live.upstream?.readAtMs ?? null),
  ),
  plain(
    'upstream_repositories',
    'Repositories that the service lists.',
    ({ live }) => live.upstream?.repositories ?? null,
  ),
  plain(
    'upstream_workbooks',
    'Workbooks that the service lists.',
    ({ live }) => live.upstream?.workbooks ?? null,
  ),
  plain(
    'upstream_workbooks_processing',
    'Workbooks that the service is not done with.',
    ({ live }) => live.upstream?.processing.count ?? null,
  ),
  plain(
    'upstream_workbooks_failed',
    'Workbooks that the service failed to process.',
    ({ live }) => live.upstream?.failed.count ?? null,
  ),
  {
    name: 'credential_state',
    help: '1 for the state that a credential is in, else 0; unknown until it is first used.',
    labels: ['credential', 'state'],
    samples: ({ live }) =>
      Object.entries(live.credentials).flatMap(([credential, { state }]) =>
        CREDENTIAL_STATES.map((each) => ({
          labels: { credential, state: each },
          value: flag(each === state),
        })),
      ),
  },
];

/** All targets together, however many there are. */
const MIRROR: readonly GaugeFamily[] = [
  {
    name: 'targets',
    help: 'Targets by state.',
    labels: ['state'],
    samples: ({ targets }) =>
      countBy(
        'state',
        NO_TARGETS,
        targets.map(({ state }) => state),
      ),
  },
  plain(
    'stale_targets',
    'Selected targets that were not verified within maxStaleness, whatever their state.',
    (report) => count(report, (target) => !isLeftAlone(target.state) && target.isStale),
  ),
  plain('held_deletions', 'Targets of which a deletion waits for approve.', (report) =>
    count(report, ({ held }) => held !== null),
  ),
  plain('drifted_trees', 'Published trees that someone changed.', (report) =>
    count(report, ({ drift }) => drift !== null),
  ),
  plain(
    'oldest_verified_timestamp_seconds',
    'The earliest of the times at which the selected targets were last verified.',
    (report) => inSeconds(oldestVerifiedMs(report.targets)),
  ),
  plain('max_staleness_seconds', 'The setting maxStaleness.', ({ maxStalenessMs }) =>
    inSeconds(maxStalenessMs),
  ),
  plain('files', 'Files in all published trees.', ({ targets }) => sum(targets, ({ files }) => files)),
  plain('size_bytes', 'Size of the files in all published trees.', ({ targets }) =>
    sum(targets, ({ sizeBytes }) => sizeBytes),
  ),
];

const SHARD: readonly GaugeFamily[] = [
  {
    name: 'shard_info',
    help: 'The share of this instance, where several mirror one service: always 1.',
    labels: ['index', 'count'],
    samples: ({ shard }) =>
      shard === null
        ? []
        : [{ labels: { index: String(shard.index), count: String(shard.count) }, value: 1 }],
  },
  plain(
    'shards',
    'How many instances share the work, where several mirror one service.',
    ({ shard }) => shard?.count ?? null,
  ),
];

/** The gauges of the daemon as a whole: as many series, however many targets there are. */
export const REPORT_FAMILIES: readonly GaugeFamily[] = [...DAEMON, ...SHARD, ...UPSTREAM, ...MIRROR];

function countBy<Key extends string>(
  label: string,
  none: Readonly<Record<Key, number>>,
  found: readonly Key[],
): readonly Sample[] {
  const counts: Record<Key, number> = { ...none };
  for (const key of found) counts[key] += 1;
  return Object.entries<number>(counts).map(([key, value]) => ({ labels: { [label]: key }, value }));
}

function count({ targets }: DaemonReport, matches: (target: TargetStatus) => boolean): number {
  return targets.filter(matches).length;
}

function sum(targets: readonly TargetStatus[], of: (target: TargetStatus) => number): number {
  return targets.reduce((total, target) => total + of(target), 0);
}

function earliestStartMs(slow: readonly SlowPull[]): number | null {
  return slow.length === 0 ? null : Math.min(...slow.map(({ startedAtMs }) => startedAtMs));
}

function oldestVerifiedMs(targets: readonly TargetStatus[]): number | null {
  return targets.reduce<number | null>((oldestMs, { state, verifiedAtMs }) => {
    if (isLeftAlone(state) || verifiedAtMs === null) return oldestMs;
    return oldestMs === null ? verifiedAtMs : Math.min(oldestMs, verifiedAtMs);
  }, null);
}

function lastEnd(passes: readonly PassNote[], result: PassNote['result']): readonly Sample[] {
  const last = passes.findLast((pass) => pass.result === result);
  if (last === undefined) return [];
  return [{ labels: { result }, value: inSeconds(last.startedAtMs + last.durationMs) }];
}
