import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { createMetrics } from '../../../../src/daemon/metrics/metrics.ts';
import { CASES_FILE, readRules, RULES_FILE } from '../../../support/alerts.ts';
import { NOW_MS } from '../../../support/builders.ts';
import { eventfulReport, targetStatus } from '../../../support/report.ts';
import { wellScrape } from '../../../support/scrapes.ts';
import { temporaryFolder } from '../../../support/temporary.ts';
import type { ScrapedSample } from '../../../support/text-format.ts';

const PROMTOOL = 'promtool';
const isMissing = spawnSync(PROMTOOL, ['--version']).error !== undefined;

/** Runs a check of Prometheus. @param input standard input */
function promtool(args: readonly string[], input = '') {
  const { status, stdout, stderr } = spawnSync(PROMTOOL, args, { input, encoding: 'utf8' });
  const complaints = stderr.split('\n').filter((line) => line !== '');
  return { isPassed: status === 0, complaints, output: stdout };
}

/** A sample as a series that is scraped every 4 minutes for two days; times advance with the clock. */
function asSeries({ name, labels, value }: ScrapedSample): { series: string; values: string } {
  const own = { job: 'workbook-mirror', instance: 'm:1', ...labels };
  const pairs = Object.entries(own).map((pair) => `${pair[0]}=${JSON.stringify(pair[1])}`);
  const isTime = name.startsWith('workbook_mirror_') && name.endsWith('_timestamp_seconds');
  const values = isTime ? `${value - NOW_MS / 1000}+240x720` : `${value}x720`;
  return { series: `${name}{${pairs.join(',')}}`, values };
}

/** A verdict on tests of rules; one that differs says why. */
const SUCCESS = { isPassed: true, complaints: [], output: expect.stringContaining('SUCCESS') as string };

describe.skipIf(isMissing)('Prometheus (skipped without promtool)', () => {
  it('accepts our metrics, with names of any kind, without complaints', async () => {
    const names = ['quo"te/main', 'back\\slash/main', '} 1\nup 0/main', 'a\rb/main', '\ud800/main'];
    const report = eventfulReport();
    const targets = [...report.targets, ...names.map((target) => targetStatus({ target }))];
    const { text } = await createMetrics().render({ ...report, targets });
    // The library's own gauges of handles, requests and resources end in _total.
    const { complaints } = promtool(['check', 'metrics'], text);
    expect(complaints.filter((line) => !line.startsWith('nodejs_active_'))).toEqual([]);
  });

  it('accepts the rules for alerts', async () => {
    const { complaints, output } = promtool(['check', 'rules', RULES_FILE]);
    expect(complaints).toEqual([]);
    expect(output).toContain(`SUCCESS: ${(await readRules()).length} rules found`);
  });

  it('finds that every rule fires when it should, and not otherwise', { timeout: 300_000 }, () => {
    expect(promtool(['test', 'rules', CASES_FILE])).toMatchObject(SUCCESS);
  });

  it('finds that no rule fires for a mirror that is well', { timeout: 300_000 }, async () => {
    const { samples } = await wellScrape();
    const up = { name: 'up', labels: {}, value: 1 };
    const series = [up, ...samples].filter(({ value }) => !Number.isNaN(value)).map(asSeries);
    const times = ['1h', '12h', '30h', '47h'];
    const none = times.map((at) => ({ expr: 'ALERTS', eval_time: at, exp_samples: [] }));
    const tests = [{ interval: '4m', input_series: series, promql_expr_test: none }];
    const file = join(await temporaryFolder(), 'well.json');
    await writeFile(file, JSON.stringify({ rule_files: [RULES_FILE], evaluation_interval: '4m', tests }));
    expect(promtool(['test', 'rules', file])).toMatchObject(SUCCESS);
  });
});
