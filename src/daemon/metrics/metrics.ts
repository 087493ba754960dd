import { collectDefaultMetrics, Registry } from 'prom-client';

import type { EventSink } from '../../app/events.ts';
import type { DaemonReport } from '../status/status-schema.ts';
import { countEvents } from './metrics-events.ts';
import { registerGauges } from './metrics-report.ts';

/** The metrics of a daemon. */
export interface Metrics {
  /** Counts what happens. */
  readonly sink: EventSink;
  /** Gives all metrics as they are now, in the text format of Prometheus, version 0.0.4: gauges follow from the report. */
  readonly render: (report: DaemonReport) => Promise<{ readonly contentType: string; readonly text: string }>;
}

/**
 * Makes the metrics of a daemon. Names follow "Metric and label naming" of the Prometheus documentation: one prefix, base
 * units, `_total` for what only grows. Those of the process itself have the names that all clients for Prometheus give them.
 */
export function createMetrics(): Metrics {
  const counted = new Registry();
  collectDefaultMetrics({ register: counted });
  const sink = countEvents(counted);
  return {
    sink,
    render: async (report) => {
      // A registry of its own for each scrape: what is gone from the report is gone from the answer, and scrapes that meet
      // do not mix.
      const judged = new Registry();
      registerGauges(judged, report);
      const text = `${await judged.metrics()}\n${await counted.metrics()}`;
      // The library spells it in a way of its own, which not every scraper reads.
      return { contentType: counted.contentType, text: text.replaceAll(' Nan\n', ' NaN\n') };
    },
  };
}
