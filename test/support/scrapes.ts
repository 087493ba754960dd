import { createMetrics } from '../../src/daemon/metrics/metrics.ts';
import type { DaemonReport } from '../../src/daemon/status/status-schema.ts';
import { TARGET_STATES } from '../../src/app/target-status.ts';
import { daemonReport, eventfulReport, passNote, targetStatus } from './report.ts';
import { parseMetrics, type Scrape } from './text-format.ts';

/** The metrics of a report with every possible part. */
export async function fullScrape(): Promise<Scrape> {
  const targets = TARGET_STATES.map((state) => targetStatus({ target: `${state}/main`, state }));
  return scrapeOf({ ...eventfulReport(), shard: { index: 2, count: 5 }, targets });
}

/** The metrics of a healthy daemon just after a pass. */
export async function wellScrape(): Promise<Scrape> {
  const report = daemonReport();
  return scrapeOf({ ...report, live: { ...report.live, passes: [passNote()], hasFinishedPass: true } });
}

async function scrapeOf(report: DaemonReport): Promise<Scrape> {
  const metrics = createMetrics();
  const busy = { code: 'service.busy', message: 'busy', hint: null } as const;
  metrics.sink({ name: 'service.retry', ...busy, delayMs: 10, fromBytes: 0 });
  return parseMetrics((await metrics.render(report)).text);
}
