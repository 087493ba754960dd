import { spawnSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { createMetrics } from '../../../../src/daemon/metrics/metrics.ts';
import { eventfulReport, targetStatus } from '../../../support/report.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const PROMTOOL = 'promtool';
const isMissing = spawnSync(PROMTOOL, ['--version']).error !== undefined;

/** Prometheus' own checks; their complaints, line by line. */
function promtool(what: string, input: string, ...files: string[]): { complaints: string[]; output: string } {
  const { stdout, stderr } = spawnSync(PROMTOOL, ['check', what, ...files], { input, encoding: 'utf8' });
  return { complaints: stderr.split('\n').filter((line) => line !== ''), output: stdout };
}

describe.skipIf(isMissing)('Prometheus (skipped where promtool is missing)', () => {
  it('takes our metrics, with names of any kind, and finds nothing wrong with them', async () => {
    const names = ['quo"te/main', 'back\\slash/main', '} 1\nup 0/main', 'a\rb/main', '\ud800/main'];
    const report = eventfulReport();
    const targets = [...report.targets, ...names.map((target) => targetStatus({ target }))];
    const { text } = await createMetrics().render({ ...report, targets });
    // The library's own gauges of handles, requests and resources end in _total since ever.
    const { complaints } = promtool('metrics', text);
    expect(complaints.filter((line) => !line.startsWith('nodejs_active_'))).toEqual([]);
  });

  it('takes the rules for alerts of the manual', async () => {
    const chapter = await readFile(join(import.meta.dirname, '../../../../src/manual/monitoring.md'), 'utf8');
    const [rules = ''] = /(?<=```yaml\n)# rules for alerts\n[^]*?(?=```)/.exec(chapter) ?? [];
    const file = join(await temporaryFolder(), 'rules.yml');
    await writeFile(file, rules);
    expect(promtool('rules', '', file)).toMatchObject({ complaints: [] });
    expect(promtool('rules', '', file).output).toContain('SUCCESS: 10 rules found');
  });
});
