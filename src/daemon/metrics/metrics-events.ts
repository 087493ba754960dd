import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

import { type EventFields, type EventSink, type EventTable, forEvent } from '../../app/events.ts';
import { type Trigger, TRIGGERS } from '../../mirror/pass/events.ts';
import { PASS_RESULTS, type PassNote } from '../status/status-schema.ts';
import { inSeconds, PREFIX } from './metrics-report.ts';

/** From a pass that finds nothing to do to the first one of a large mirror, in seconds. */
const PASS_BUCKETS = [0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200];
/** From a small tree in the same house to an archive of many gigabytes, in seconds. */
const PULL_BUCKETS = [0.05, 0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800];

const PULL_RESULTS = ['published', 'unchanged', 'failed', 'held', 'absent'] as const;

/** The listeners for some events, by name. */
type Listeners = EventTable<[], void>;

/** Registers the metrics derived from events. @returns the receiver of events */
export function countEvents(registry: Registry): EventSink {
  const listeners = { ...passMetrics(registry), ...pullMetrics(registry), ...otherMetrics(registry) };
  return (event) => forEvent(listeners, event);
}

/** @param zero labels that begin at 0: a series that begins at 1 shows no first increase */
function counter(
  registry: Registry,
  name: string,
  help: string,
  zero: readonly Readonly<Record<string, string>>[] = [],
): Counter {
  const labelNames = Object.keys(zero[0] ?? {});
  const made = new Counter({ name: PREFIX + name, help, labelNames, registers: [registry] });
  for (const labels of zero) made.inc(labels, 0);
  return made;
}

function passMetrics(registry: Registry): Listeners {
  const ended = counter(
    registry,
    'passes_total',
    'Passes that ended, by trigger and result.',
    TRIGGERS.flatMap((trigger) => PASS_RESULTS.map((result) => ({ trigger, result }))),
  );
  const durations = new Histogram({
    name: `${PREFIX}pass_duration_seconds`,
    help: 'Duration of passes.',
    labelNames: ['result'],
    buckets: PASS_BUCKETS,
    registers: [registry],
  });
  for (const result of PASS_RESULTS) durations.zero({ result });
  const note = (result: PassNote['result']) => (event: { trigger: Trigger; durationMs: number }) => {
    ended.inc({ trigger: event.trigger, result });
    durations.observe({ result }, inSeconds(event.durationMs));
  };
  return {
    'pass.finished': note('finished'),
    'pass.failed': note('failed'),
    'pass.abandoned': note('abandoned'),
  };
}

function pullMetrics(registry: Registry): Listeners {
  const results = counter(
    registry,
    'pulls_total',
    'Results of targets that had to be pulled.',
    PULL_RESULTS.map((result) => ({ result })),
  );
  const downloaded = counter(registry, 'downloaded_bytes_total', 'Downloaded bytes of contents.');
  const changedFiles = counter(
    registry,
    'changed_files_total',
    'Changed files of published trees, by kind.',
    [{ kind: 'added' }, { kind: 'changed' }, { kind: 'removed' }],
  );
  const durations = new Histogram({
    name: `${PREFIX}pull_duration_seconds`,
    help: 'Duration of completed pulls.',
    buckets: PULL_BUCKETS,
    registers: [registry],
  });
  const end = (result: (typeof PULL_RESULTS)[number]) => (): void => results.inc({ result });
  return {
    'target.pulled': (event) => {
      results.inc({ result: isPublish(event) ? 'published' : 'unchanged' });
      downloaded.inc(event.downloadedBytes);
      durations.observe(inSeconds(event.durationMs));
      for (const kind of ['added', 'changed', 'removed'] as const) changedFiles.inc({ kind }, event[kind]);
    },
    'target.failed': end('failed'),
    'target.held': end('held'),
    'deletion.held': end('held'),
    'target.absent': end('absent'),
  };
}

/** Publishing methods that change no file are `none` and `manifest`. */
function isPublish({ method }: EventFields['target.pulled']): boolean {
  return method !== 'none' && method !== 'manifest';
}

function otherMetrics(registry: Registry): Listeners {
  const gauge = (name: string, help: string): Gauge =>
    new Gauge({ name: PREFIX + name, help, registers: [registry] });
  const count = (name: string, help: string): Counter => counter(registry, name, help);
  const retried = new Counter({
    name: `${PREFIX}requests_retried_total`,
    help: 'Repeated requests to the service, by error code.',
    labelNames: ['code'],
    registers: [registry],
  });
  const retired = count('retired_targets_total', 'Targets whose trees were moved to the history.');
  const hooks = counter(registry, 'hook_runs_total', 'Completed hook runs, by result.', [
    { result: 'finished' },
    { result: 'failed' },
  ]);
  const undelivered = counter(
    registry,
    'notification_failures_total',
    'Notifications that were not delivered, by receiver.',
    [{ to: 'webhook' }, { to: 'heartbeat' }],
  );
  const stateFailures = count('state_failures_total', 'Times that the state cache began to fail.');
  const stateFailing = gauge('state_failing', 'Whether the state cache failed at the last try.');
  const droppedLines = count('log_lines_dropped_total', 'Lines of the log that could not be written.');
  const logFailing = gauge('log_failing', 'Whether lines of the log are dropped.');
  return {
    'service.retry': ({ code }) => retried.inc({ code }),
    'target.retired': () => retired.inc(),
    'hook.finished': () => hooks.inc({ result: 'finished' }),
    'hook.failed': () => hooks.inc({ result: 'failed' }),
    'notification.failed': ({ to }) => undelivered.inc({ to }),
    'state.failed': () => {
      stateFailures.inc();
      stateFailing.set(1);
    },
    'state.recovered': () => stateFailing.set(0),
    'log.failed': () => logFailing.set(1),
    'log.resumed': (event) => {
      logFailing.set(0);
      droppedLines.inc(event.droppedLines);
    },
  };
}
