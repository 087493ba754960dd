import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it, onTestFinished } from 'vitest';

import { FakeService } from '../../support/fake-service.ts';
import { run, startDaemon, variablesOf } from '../../support/program.ts';
import { temporaryFolder } from '../../support/temporary.ts';

/** The settings that take a duration, as the manual's table names them with a default such as `10s`. */
async function durationSettings(): Promise<string[]> {
  const manual = await readFile(join(import.meta.dirname, '../../../src/manual/settings.md'), 'utf8');
  return [...manual.matchAll(/^\| `([\w.]+)` \| `\d+(?:ms|[smhd])` \|/gm)].flatMap(([, name = '']) => name);
}

function variableOf(setting: string): string {
  return `WORKBOOK_MIRROR_${setting.replaceAll(/[A-Z]/g, '_$&').replaceAll('.', '_').toUpperCase()}`;
}

/** The longest duration that a setting takes: the one that its message names when a longer one is given. */
async function longest(setting: string): Promise<string> {
  const { stderr } = await run(['config', 'check'], { [variableOf(setting)]: '9000d' });
  return /to (\d+\w+)/.exec(stderr)?.[1] ?? '9000d';
}

it('mirrors and stays silent about timers with the longest value of every duration', async () => {
  const service = await FakeService.start();
  onTestFinished(() => service.close());
  service.addRepository('Accounting', { 'notes.txt': 'a plan' });
  const names = await durationSettings();
  expect(names).toContain('service.timeout');
  const durations = await Promise.all(names.map(async (name) => [variableOf(name), await longest(name)]));
  const settings = {
    ...(Object.fromEntries(durations) as Record<string, string>),
    ...variablesOf(service.settingsFor(await temporaryFolder())),
  };
  const synced = await run(['sync'], settings);
  expect(synced.stderr).not.toContain('Timeout');
  expect(synced.exitCode).toBe(0);
  const daemon = await startDaemon({ ...settings, WORKBOOK_MIRROR_HTTP_LISTEN: '127.0.0.1:0' });
  const ended = await daemon.stop();
  expect(ended.stderr).not.toContain('Timeout');
  expect(ended.exitCode).toBe(0);
});
