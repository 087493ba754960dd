import { collectDefaultMetrics, Registry } from 'prom-client';

import type { EventSink } from '../../app/events.ts';
import type { DaemonReport } from '../status/status-schema.ts';
import { countEvents } from './metrics-events.ts';
import { registerGauges } from './metrics-report.ts';

/** The metrics of a daemon. */
export interface Metrics {
  /** Counts events. */
  readonly sink: EventSink;
  /** Gives all current metrics in the text format of Prometheus, version 0.0.4: gauges come from the report. */
  readonly render: (report: DaemonReport) => Promise<{ readonly contentType: string; readonly text: string }>;
}

/**
 * Makes the metrics of a daemon. Names follow "Metric and label naming" of the Prometheus documentation: one prefix, base
 * units, `_total` for counters. Metrics of the process have the names that all Prometheus clients use.
 */
export function createMetrics(): Metrics {
  const counted = new Registry();
  collectDefaultMetrics({ register: counted });
  const sink = countEvents(counted);
  return {
    sink,
    render: async (report) => {
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
