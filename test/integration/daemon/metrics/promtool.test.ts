import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { createMetrics } from '../../../../src/daemon/metrics/metrics.ts';
import { CASES_FILE, readRules, RULES_FILE } from '../../../support/alerts.ts';
import { NOW_MS } from '../../../support/builders.ts';
import { dashboardQueries } from '../../../support/dashboard.ts';
import { isPromtoolMissing, promtool } from '../../../support/promtool.ts';
import { eventfulReport, targetStatus } from '../../../support/report.ts';
import { fullScrape, wellScrape } from '../../../support/scrapes.ts';
import { temporaryFolder } from '../../../support/temporary.ts';
import type { ScrapedSample } from '../../../support/text-format.ts';

/** A sample as a series that is scraped every 4 minutes for two days; times go with the clock. @param perScrape how a value grows */
function asSeries({ name, labels, value }: ScrapedSample, perScrape = 0): { series: string; values: string } {
  const own = { job: 'workbook-mirror', instance: 'm:1', ...labels };
  const pairs = Object.entries(own).map((pair) => `${pair[0]}=${JSON.stringify(pair[1])}`);
  const isTime = name.startsWith('workbook_mirror_') && name.endsWith('_timestamp_seconds');
  const values = isTime ? `${value - NOW_MS / 1000}+240x720` : `${value}+${perScrape}x720`;
  return { series: `${name}{${pairs.join(',')}}`, values };
}

/** A verdict on tests of rules; one that is not like it tells why. */
const SUCCESS = { isPassed: true, complaints: [], output: expect.stringContaining('SUCCESS') as string };

describe.skipIf(isPromtoolMissing)('Prometheus (skipped where promtool is missing)', () => {
  it('takes our metrics, with names of any kind, and finds nothing wrong with them', async () => {
    const names = ['quo"te/main', 'back\\slash/main', '} 1\nup 0/main', 'a\rb/main', '\ud800/main'];
    const report = eventfulReport();
    const targets = [...report.targets, ...names.map((target) => targetStatus({ target }))];
    const { text } = await createMetrics().render({ ...report, targets });
    // The library's own gauges of handles, requests and resources end in _total since ever.
    const { complaints } = promtool(['check', 'metrics'], text);
    expect(complaints.filter((line) => !line.startsWith('nodejs_active_'))).toEqual([]);
  });

  it('takes the rules for alerts', async () => {
    const { complaints, output } = promtool(['check', 'rules', RULES_FILE]);
    expect(complaints).toEqual([]);
    expect(output).toContain(`SUCCESS: ${(await readRules()).length} rules found`);
  });

  it('finds that every rule fires when it should, and not otherwise', { timeout: 300_000 }, () => {
    expect(promtool(['test', 'rules', CASES_FILE])).toMatchObject(SUCCESS);
  });

  it('finds that none fires for a mirror that is well', { timeout: 300_000 }, async () => {
    const { samples } = await wellScrape();
    const sized = samples.filter(({ value }) => !Number.isNaN(value));
    const up = { name: 'up', labels: {}, value: 1 };
    const file = join(await temporaryFolder(), 'well.json');
    const tests = [
      {
        interval: '4m',
        input_series: [up, ...sized].map((sample) => asSeries(sample)),
        promql_expr_test: ['1h', '12h', '30h', '47h'].map((at) => ({
          expr: 'ALERTS',
          eval_time: at,
          exp_samples: [],
        })),
      },
    ];
    await writeFile(file, JSON.stringify({ rule_files: [RULES_FILE], evaluation_interval: '4m', tests }));
    expect(promtool(['test', 'rules', file])).toMatchObject(SUCCESS);
  });

  it('finds that every query of the dashboard gives something', { timeout: 300_000 }, async () => {
    const { samples, families } = await fullScrape();
    const isGauge = ({ name }: ScrapedSample): boolean => families.get(name)?.type === 'gauge';
    const file = join(await temporaryFolder(), 'dashboard.json');
    const tests = [
      {
        interval: '4m',
        input_series: samples
          .filter(({ value }) => !Number.isNaN(value))
          .map((sample) => asSeries(sample, isGauge(sample) ? 0 : 1)),
        promql_expr_test: (await dashboardQueries()).map((query) => ({
          expr: `count(${filledIn(query)}) > bool 0`,
          eval_time: '12h',
          exp_samples: [{ labels: '{}', value: 1 }],
        })),
      },
    ];
    await writeFile(file, JSON.stringify({ tests }));
    expect(promtool(['test', 'rules', file])).toMatchObject(SUCCESS);
  });
});

/** A query of the dashboard as Grafana would send it. */
function filledIn(query: string): string {
  return query
    .replaceAll('$job', 'workbook-mirror')
    .replaceAll('$instance', 'm:1|m:2')
    .replaceAll('$__rate_interval', '15m');
}
