import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

import { type EventFields, type EventTable, forEvent, type MirrorEvent } from '../../app/events.ts';
import { TRIGGERS } from '../../mirror/pass/events.ts';
import { type ReportWithoutChanges, PASS_RESULTS } from '../status/status-schema.ts';
import { PREFIX, registerGauges } from './metrics-report.ts';

/** The metrics of a daemon. */
export type Metrics = ReturnType<typeof createMetrics>;

/**
 * Makes the metrics of a daemon. Names follow "Metric and label naming" of the Prometheus documentation: one prefix, base
 * units, `_total` for counters. Metrics of the process have the names that all Prometheus clients use.
 */
export function createMetrics() {
  const counted = new Registry();
  collectDefaultMetrics({ register: counted });
  const makers = makersOf(counted);
  const listeners = { ...passMetrics(makers), ...pullMetrics(makers), ...otherMetrics(makers) };
  return {
    /** Counts events. */
    sink: (event: MirrorEvent): void => forEvent(listeners, event),
    /** Gives all current metrics in the text format of Prometheus, version 0.0.4: gauges come from the report. */
    render: async (report: ReportWithoutChanges): Promise<{ contentType: string; text: string }> => {
      // A new registry for each scrape: old series disappear with the report, and simultaneous scrapes
      // do not mix.
      const judged = new Registry();
      registerGauges(judged, report);
      const text = `${await judged.metrics()}\n${await counted.metrics()}`;
      // Not every scraper can read the library's own spelling.
      return { contentType: counted.contentType, text: text.replaceAll(' Nan\n', ' NaN\n') };
    },
  };
}

/** From a pass that finds nothing to do to the first one of a large mirror, in seconds. */
const PASS_BUCKETS = [0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200];
/** From a small tree in the same house to an archive of many gigabytes, in seconds. */
const PULL_BUCKETS = [0.05, 0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800];

const PULL_RESULTS = ['published', 'unchanged', 'failed', 'held', 'absent'] as const;
const FILE_CHANGES = ['added', 'changed', 'removed'] as const;

/** The listeners for some events, by name. */
type Listeners = EventTable<[], void>;

type Labels = Readonly<Record<string, string>>;
type Makers = ReturnType<typeof makersOf>;

/** Makes functions that make metrics of a registry. */
function makersOf(registry: Registry) {
  const named = (name: string, help: string) => ({ name: PREFIX + name, help, registers: [registry] });
  return {
    /** @param zero labels that begin at 0: a series that begins at 1 shows no first increase */
    counter: (name: string, help: string, zero: Labels[] = [], labelNames = Object.keys(zero[0] ?? {})) => {
      const made = new Counter({ ...named(name, help), labelNames });
      for (const labels of zero) made.inc(labels, 0);
      return made;
    },
    gauge: (name: string, help: string): Gauge => new Gauge(named(name, help)),
    histogram: (name: string, help: string, buckets: number[], labelNames: string[] = []): Histogram =>
      new Histogram({ ...named(name, help), labelNames, buckets }),
  };
}

function passMetrics({ counter, histogram }: Makers): Listeners {
  const series = TRIGGERS.flatMap((trigger) => PASS_RESULTS.map((result) => ({ trigger, result })));
  const ended = counter('passes_total', 'Passes that ended, by trigger and result.', series);
  const durations = histogram('pass_duration_seconds', 'Duration of passes.', PASS_BUCKETS, ['result']);
  for (const result of PASS_RESULTS) durations.zero({ result });
  const end =
    (result: (typeof PASS_RESULTS)[number]) =>
    ({ trigger, durationMs }: EventFields['pass.abandoned']): void => {
      ended.inc({ trigger, result });
      durations.observe({ result }, durationMs / 1000);
    };
  return {
    'pass.finished': end('finished'),
    'pass.failed': end('failed'),
    'pass.abandoned': end('abandoned'),
  };
}

function pullMetrics({ counter, histogram }: Makers): Listeners {
  const pulls = PULL_RESULTS.map((result) => ({ result }));
  const results = counter('pulls_total', 'Results of targets that had to be pulled.', pulls);
  const downloaded = counter('downloaded_bytes_total', 'Downloaded bytes of contents.');
  const kinds = FILE_CHANGES.map((kind) => ({ kind }));
  const changedFiles = counter('changed_files_total', 'Changed files of published trees, by kind.', kinds);
  const durations = histogram('pull_duration_seconds', 'Duration of completed pulls.', PULL_BUCKETS);
  const end = (result: (typeof PULL_RESULTS)[number]) => (): void => results.inc({ result });
  return {
    'target.pulled': (event) => {
      // These methods change no file.
      const isPublish = event.method !== 'none' && event.method !== 'manifest';
      results.inc({ result: isPublish ? 'published' : 'unchanged' });
      downloaded.inc(event.downloadedBytes);
      durations.observe(event.durationMs / 1000);
      for (const kind of FILE_CHANGES) changedFiles.inc({ kind }, event[kind]);
    },
    'target.failed': end('failed'),
    'target.held': end('held'),
    'deletion.held': end('held'),
    'target.absent': end('absent'),
  };
}

function otherMetrics({ counter, gauge }: Makers): Listeners {
  const retriedHelp = 'Repeated requests to the service, by error code.';
  const retried = counter('requests_retried_total', retriedHelp, [], ['code']);
  const retired = counter('retired_targets_total', 'Targets whose trees were moved to the history.');
  const hookResults = [{ result: 'finished' }, { result: 'failed' }];
  const hooks = counter('hook_runs_total', 'Completed hook runs, by result.', hookResults);
  const receivers = [{ to: 'webhook' }, { to: 'heartbeat' }];
  const undeliveredHelp = 'Failed attempts to deliver a notification or heartbeat, by receiver.';
  const undelivered = counter('notification_failures_total', undeliveredHelp, receivers);
  const stateFailures = counter('state_failures_total', 'Times that the state cache began to fail.');
  const stateFailing = gauge('state_failing', 'Whether the state cache failed at the last try.');
  const droppedLines = counter('log_lines_dropped_total', 'Lines of the log that could not be written.');
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
