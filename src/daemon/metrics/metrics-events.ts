import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

import { type Trigger, TRIGGERS } from '../../mirror/pass/events.ts';
import type { EventSink, EventFields, MirrorEvent } from '../../app/events.ts';
import type { PassNote } from '../status/live.ts';
import { inSeconds, PREFIX } from './metrics-gauges.ts';

/** From a pass that finds nothing to do to the first one of a large mirror, in seconds. */
const PASS_BUCKETS = [0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200];
/** From a small tree in the same house to an archive of many gigabytes, in seconds. */
const PULL_BUCKETS = [0.05, 0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800];

const PULL_RESULTS = ['published', 'unchanged', 'failed', 'held', 'absent'] as const;
type PullResult = (typeof PULL_RESULTS)[number];

const PASS_RESULTS: readonly PassNote['result'][] = ['finished', 'failed', 'abandoned'];

/** Registers what is counted as it happens. @returns what takes the events */
export function countEvents(registry: Registry): EventSink {
  const passes = createPassMetrics(registry);
  const pulls = createPullMetrics(registry);
  const others = createOtherCounters(registry);
  return (event) => {
    passes(event);
    pulls(event);
    others(event);
  };
}

function counter(registry: Registry, name: string, help: string, labels: readonly string[] = []): Counter {
  return new Counter({ name: PREFIX + name, help, labelNames: labels, registers: [registry] });
}

function createPassMetrics(registry: Registry): EventSink {
  const ended = counter(
    registry,
    'passes_total',
    'Passes that ended, by what started them and how they ended.',
    ['trigger', 'result'],
  );
  const durations = new Histogram({
    name: `${PREFIX}pass_duration_seconds`,
    help: 'How long passes took.',
    labelNames: ['result'],
    buckets: PASS_BUCKETS,
    registers: [registry],
  });
  // What starts at 0 shows its first increase; a series that begins at 1 shows none.
  for (const result of PASS_RESULTS) {
    durations.zero({ result });
    for (const trigger of TRIGGERS) ended.inc({ trigger, result }, 0);
  }
  const note = (result: PassNote['result'], event: { trigger: Trigger; durationMs: number }): void => {
    ended.inc({ trigger: event.trigger, result });
    durations.observe({ result }, inSeconds(event.durationMs));
  };
  return (event) => {
    if (event.name === 'pass.finished') note('finished', event);
    else if (event.name === 'pass.failed') note('failed', event);
    else if (event.name === 'pass.abandoned') note('abandoned', event);
  };
}

function createPullMetrics(registry: Registry): EventSink {
  const results = counter(registry, 'pulls_total', 'What became of targets that were to be pulled.', [
    'result',
  ]);
  const downloaded = counter(registry, 'downloaded_bytes_total', 'Bytes of contents that were downloaded.');
  const changedFiles = counter(
    registry,
    'changed_files_total',
    'Files of published trees that changed, by kind.',
    ['kind'],
  );
  const durations = new Histogram({
    name: `${PREFIX}pull_duration_seconds`,
    help: 'How long pulls took that came to their end.',
    buckets: PULL_BUCKETS,
    registers: [registry],
  });
  for (const result of PULL_RESULTS) results.inc({ result }, 0);
  for (const kind of ['added', 'changed', 'removed']) changedFiles.inc({ kind }, 0);
  return (event) => {
    const result = pullResult(event);
    if (result !== null) results.inc({ result });
    if (event.name !== 'target.pulled') return;
    downloaded.inc(event.downloadedBytes);
    durations.observe(inSeconds(event.durationMs));
    changedFiles.inc({ kind: 'added' }, event.added);
    changedFiles.inc({ kind: 'changed' }, event.changed);
    changedFiles.inc({ kind: 'removed' }, event.removed);
  };
}

function pullResult(event: MirrorEvent): PullResult | null {
  switch (event.name) {
    case 'target.pulled':
      return isPublish(event) ? 'published' : 'unchanged';
    case 'target.failed':
      return 'failed';
    case 'target.held':
    case 'deletion.held':
      return 'held';
    case 'target.absent':
      return 'absent';
    default:
      return null;
  }
}

/** Publishing methods that change no file are `none` and `manifest`. */
function isPublish({ method }: EventFields['target.pulled']): boolean {
  return method !== 'none' && method !== 'manifest';
}

function createOtherCounters(registry: Registry): EventSink {
  const retried = counter(
    registry,
    'requests_retried_total',
    'Requests to the service that were tried again, by error code.',
    ['code'],
  );
  const retired = counter(registry, 'retired_targets_total', 'Targets whose trees went to the history.');
  const hooks = counter(registry, 'hook_runs_total', 'Hooks that came to their end, by result.', ['result']);
  const notifications = counter(
    registry,
    'notification_failures_total',
    'Notifications that were not delivered, by receiver.',
    ['to'],
  );
  const stateFailures = counter(
    registry,
    'state_failures_total',
    'Times that the state cache began to fail.',
  );
  const stateFailing = new Gauge({
    name: `${PREFIX}state_failing`,
    help: 'Whether the state cache could not be read or written at the last try.',
    registers: [registry],
  });
  const droppedLines = counter(
    registry,
    'log_lines_dropped_total',
    'Lines of the log that could not be written, counted when it can be written again.',
  );
  const logFailing = new Gauge({
    name: `${PREFIX}log_failing`,
    help: 'Whether lines of the log are dropped.',
    registers: [registry],
  });
  for (const result of ['finished', 'failed']) hooks.inc({ result }, 0);
  for (const to of ['webhook', 'heartbeat']) notifications.inc({ to }, 0);
  return (event) => {
    if (event.name === 'service.retry') retried.inc({ code: event.code });
    else if (event.name === 'target.retired') retired.inc();
    else if (event.name === 'hook.finished') hooks.inc({ result: 'finished' });
    else if (event.name === 'hook.failed') hooks.inc({ result: 'failed' });
    else if (event.name === 'notification.failed') notifications.inc({ to: event.to });
    else if (event.name === 'state.failed') {
      stateFailures.inc();
      stateFailing.set(1);
    } else if (event.name === 'state.recovered') stateFailing.set(0);
    else if (event.name === 'log.failed') logFailing.set(1);
    else if (event.name === 'log.resumed') {
      logFailing.set(0);
      droppedLines.inc(event.droppedLines);
    }
  };
}
