import { createMetrics } from '../../src/daemon/metrics/metrics.ts';
import type { DaemonReport } from '../../src/daemon/status/status-schema.ts';
import { TARGET_STATES } from '../../src/app/target-status.ts';
import { MINUTE_MS, NOW_MS } from './builders.ts';
import { daemonReport, eventfulReport, targetStatus } from './report.ts';
import { parseMetrics, type Scrape } from './text-format.ts';

/** The metrics of a report with every possible part. */
export async function fullScrape(): Promise<Scrape> {
  const targets = TARGET_STATES.map((state) => targetStatus({ target: `${state}/main`, state }));
  return scrapeOf({ ...eventfulReport(), shard: { index: 2, count: 5 }, targets });
}

/** The metrics of a healthy daemon just after a pass. */
export async function wellScrape(): Promise<Scrape> {
  const report = daemonReport();
  const pass = {
    trigger: 'schedule',
    startedAtMs: NOW_MS - MINUTE_MS,
    durationMs: 2000,
    result: 'finished',
    summary: null,
    failure: null,
  } as const;
  return scrapeOf({ ...report, live: { ...report.live, passes: [pass], hasFinishedPass: true } });
}

async function scrapeOf(report: DaemonReport): Promise<Scrape> {
  const metrics = createMetrics();
  const busy = { code: 'service.busy', message: 'busy', hint: null } as const;
  metrics.sink({ name: 'service.retry', ...busy, delayMs: 10, fromBytes: 0 });
  return parseMetrics((await metrics.render(report)).text);
}
