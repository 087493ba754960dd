import { expect, it } from 'vitest';

import { settingDescriptors } from '../../../src/config/descriptors.ts';
import { loadSettings } from '../../../src/config/load.ts';
import { startFake } from '../../support/started-fake.ts';
import { run, startDaemon, variablesOf } from '../../support/program.ts';
import { temporaryFolder } from '../../support/temporary.ts';

/** The longest duration that a setting takes: the one that its message names when a longer one is given. */
function longest(variable: string): string {
  try {
    loadSettings({ flags: {}, env: { [variable]: '9000d' }, needs: [] });
    return '9000d';
  } catch (error) {
    return /to (\d+\w+)/.exec(String(error))?.[1] ?? '';
  }
}

it('mirrors and stays silent about timers with the longest value of every duration', async () => {
  const service = await startFake();
  service.addRepository('Accounting', { 'notes.txt': 'a plan' });
  const durations = settingDescriptors.filter(({ valueHint }) => valueHint.startsWith('<duration'));
  expect(durations.length).toBeGreaterThan(5);
  const settings = {
    ...Object.fromEntries(durations.map(({ environmentVariable: name }) => [name, longest(name)] as const)),
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
