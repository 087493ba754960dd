import { Gauge, type Registry } from 'prom-client';

import {
  isLeftAlone,
  isWell,
  NOT_WELL_REASONS,
  TARGET_STATES,
  type TargetStatus,
} from '../../app/target-status.ts';
import { byCodeUnits } from '../../mirror/store/manifest.ts';
import { CREDENTIAL_STATES, type ReportWithoutChanges, PASS_RESULTS } from '../status/status-schema.ts';

/** The prefix of the names of all metrics of this program, except those of the process. */
export const PREFIX = 'workbook_mirror_';

/** Most targets with their own series: each costs the scraper memory. */
const MOST_TARGETS = 1000;

/** One value with its labels. */
interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number | boolean;
}

/** A value of a gauge: 1 for true, 0 for false. If it is unknown, there is no series. */
type Value = number | boolean | null | undefined;

/**
 * A help text and a value, by the name of a gauge. Times are in milliseconds in the report, and in seconds, the base unit of Prometheus,
 * in a gauge whose name says so.
 */
type Gauges<Subject, Result> = Readonly<
  Record<string, readonly [help: string, value: (subject: Subject) => Result]>
>;

/** Gauges of the whole: with one value, or with one for each set of labels. */
const GAUGES: Gauges<ReportWithoutChanges, Value | readonly Sample[]> = {
  standby: ['1 while this instance waits for another one to end, else 0.', () => 0],
  ready: ['1 if the mirror is up to date with the service, else 0.', ({ readiness }) => readiness.isReady],
  listed: [
    '1 if the last pass under the present settings read a complete list and was recorded, else 0.',
    ({ readiness }) => readiness.isListed,
  ],
  alive: [
    '1 if the daemon makes progress, 0 if the current pass is stuck.',
    ({ liveness }) => liveness.isAlive,
  ],
  unmatched_patterns: [
    'Patterns of the settings that match nothing that the service lists.',
    ({ live }) => live.selection?.unmatched.length,
  ],
  loop_silent_seconds: [
    'Time without progress in the current pass; 0 between passes.',
    ({ liveness }) => liveness.silentMs,
  ],
  pass_in_progress: ['1 while a pass is running, else 0.', ({ live }) => live.pass !== null],
  slow_pulls: [
    'Pulls that take longer than a minute; passes end without them.',
    ({ live }) => live.slow.length,
  ],
  oldest_slow_pull_start_timestamp_seconds: [
    'Start of the oldest slow pull; no value without one.',
    ({ live }) => earliest(live.slow.map(({ startedAtMs }) => startedAtMs)),
  ],
  next_pass_timestamp_seconds: ['When the next pass starts.', ({ live }) => live.nextPassAtMs],
  settings_ok: [
    '1 if the latest settings are in force, 0 if they were refused.',
    ({ live }) => live.settings.problem === null,
  ],
  settings_restart_needed: [
    'Settings that changed and need a restart.',
    ({ live }) => live.settings.restartNeeded.length,
  ],
  leases: ['Leases that publishing waits for.', ({ leases }) => leases.length],
  disk_size_bytes: ['Size of the file system of the directory.', ({ disk }) => disk?.sizeBytes],
  disk_free_bytes: [
    'Free space for the daemon on the file system of the directory.',
    ({ disk }) => disk?.freeBytes,
  ],
  shards: [
    'Number of instances that share the work, if several mirror one service.',
    ({ shard }) => shard?.count,
  ],
  upstream_read_timestamp_seconds: [
    'When the lists of the service were last read.',
    ({ live }) => live.upstream?.readAtMs,
  ],
  upstream_repositories: ['Repositories that the service lists.', ({ live }) => live.upstream?.repositories],
  upstream_workbooks: ['Workbooks that the service lists.', ({ live }) => live.upstream?.workbooks],
  upstream_workbooks_processing: [
    'Workbooks that the service is still processing.',
    ({ live }) => live.upstream?.processing.count,
  ],
  upstream_workbooks_failed: [
    'Workbooks that the service failed to process.',
    ({ live }) => live.upstream?.failed.count,
  ],
  stale_targets: [
    'Selected targets not verified within maxStaleness, in any state.',
    ({ targets }) => targets.filter(({ state, isStale }) => !isLeftAlone(state) && isStale).length,
  ],
  held_deletions: [
    'Targets with a deletion that waits for approval.',
    ({ targets }) => targets.filter(({ held }) => held !== null).length,
  ],
  drifted_trees: [
    'Published trees that someone changed.',
    ({ targets }) => targets.filter(({ drift }) => drift !== null).length,
  ],
  oldest_verified_timestamp_seconds: [
    'Verification time of the selected target verified longest ago.',
    ({ targets }) => {
      const selected = targets.filter(({ state }) => !isLeftAlone(state));
      return earliest(selected.map(({ verifiedAtMs }) => verifiedAtMs));
    },
  ],
  max_staleness_seconds: ['The setting maxStaleness.', ({ maxStalenessMs }) => maxStalenessMs],
  files: ['Files in all published trees.', ({ targets }) => sum(targets.map(({ files }) => files))],
  size_bytes: [
    'Size of the files in all published trees.',
    ({ targets }) => sum(targets.map(({ sizeBytes }) => sizeBytes)),
  ],
  targets_left_out: [
    'Targets without their own series, as there are too many; they count in all other metrics.',
    ({ targets }) => Math.max(0, targets.length - MOST_TARGETS),
  ],
  build_info: [
    'Always 1; the labels give the version of the program and of Node.',
    ({ version }) => sample({ version, node_version: process.versions.node }, 1),
  ],
  shard_info: [
    'Always 1; the labels give the shard, if several mirror one service.',
    ({ shard }) => shard && sample({ index: String(shard.index), count: String(shard.count) }, 1),
  ],
  targets: ['Targets by state.', ({ targets }) => countBy('state', TARGET_STATES, targets)],
  not_ready_targets: [
    'Targets that keep the mirror from being ready, by reason.',
    ({ readiness }) => countBy('reason', NOT_WELL_REASONS, readiness.notReady),
  ],
  target_state: [
    'Always 1; the label gives the state of a target.',
    ({ targets }) =>
      chosenTargets(targets).flatMap((target) => sample({ ...labelsOf(target), state: target.state }, 1)),
  ],
  last_pass_end_timestamp_seconds: [
    'When a pass last ended with this result, among the latest 300 passes of this process.',
    ({ live }) =>
      PASS_RESULTS.flatMap((result) => {
        const last = live.passes.findLast((pass) => pass.result === result);
        return last === undefined ? [] : sample({ result }, last.startedAtMs + last.durationMs);
      }),
  ],
  credential_state: [
    '1 for the current state of a credential, else 0; unknown until first used.',
    ({ live }) =>
      Object.entries(live.credentials).flatMap(([credential, { state }]) =>
        CREDENTIAL_STATES.flatMap((each) => sample({ credential, state: each }, each === state)),
      ),
  ],
};

/** Gauges of single targets, with the labels `repository` and `branch`. */
const OF_TARGETS: Gauges<TargetStatus, Value> = {
  target_last_verified_timestamp_seconds: [
    'When a target was last verified against the service.',
    ({ verifiedAtMs }) => verifiedAtMs,
  ],
  target_last_changed_timestamp_seconds: [
    'When a target was last published.',
    ({ changedAtMs }) => changedAtMs,
  ],
  target_last_compared_timestamp_seconds: [
    'When the contents of a target were last compared completely.',
    ({ checkedAtMs }) => checkedAtMs,
  ],
  target_stale: ['1 if a target was not verified within maxStaleness, else 0.', ({ isStale }) => isStale],
  target_failures: ['Failures of a target in a row.', ({ failure }) => failure?.attempts ?? 0],
};

/** Registers all gauges, with values from a report. At most {@link MOST_TARGETS} targets get series. */
export function registerGauges(registry: Registry, report: ReportWithoutChanges): void {
  const add = (name: string, help: string, samples: readonly Sample[]): void => {
    const [first] = samples;
    if (first === undefined) return;
    const labelNames = Object.keys(first.labels);
    const gauge = new Gauge({ name: PREFIX + name, help, labelNames, registers: [registry] });
    const unit = name.endsWith('_seconds') ? 1000 : 1;
    for (const { labels, value } of samples) gauge.set({ ...labels }, Number(value) / unit);
  };
  for (const [name, [help, valueOf]] of Object.entries(GAUGES)) {
    const value = valueOf(report);
    add(name, help, typeof value === 'object' && value !== null ? value : sample({}, value));
  }
  const shown = chosenTargets(report.targets);
  for (const [name, [help, valueOf]] of Object.entries(OF_TARGETS)) {
    const samples = shown.flatMap((target) => sample(labelsOf(target), valueOf(target)));
    add(name, help, samples);
  }
}

function sample(labels: Sample['labels'], value: Value): readonly Sample[] {
  return value === null || value === undefined ? [] : [{ labels, value }];
}

/** Counts for each value of a field; 0 for a value that does not occur. */
function countBy<Field extends string, Key extends string>(
  field: Field,
  keys: readonly Key[],
  found: readonly Readonly<Record<Field, Key>>[],
): readonly Sample[] {
  const counts = new Map(keys.map((key) => [key, 0]));
  for (const { [field]: key } of found) counts.set(key, (counts.get(key) ?? 0) + 1);
  return [...counts].map(([key, value]) => ({ labels: { [field]: key }, value }));
}

/** Names of targets as below `mirror/`: unlike the service's names, these are unique. */
function labelsOf({ target }: TargetStatus): { repository: string; branch: string } {
  const name = target.toWellFormed();
  const slash = name.lastIndexOf('/');
  return { repository: name.slice(0, Math.max(slash, 0)), branch: name.slice(slash + 1) };
}

/** Targets with problems first, then by name. */
function chosenTargets(targets: readonly TargetStatus[]): readonly TargetStatus[] {
  if (targets.length <= MOST_TARGETS) return targets;
  const rank = (target: TargetStatus): number => Number(isWell(target));
  return targets
    .toSorted((a, b) => rank(a) - rank(b) || byCodeUnits(a.target, b.target))
    .slice(0, MOST_TARGETS);
}

function earliest(timesMs: readonly (number | null)[]): number | null {
  return timesMs.reduce(
    (first, timeMs) => (first === null || (timeMs !== null && timeMs < first) ? timeMs : first),
    null,
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
