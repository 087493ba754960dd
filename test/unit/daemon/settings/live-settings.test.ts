import { expect, it } from 'vitest';

import { loadSettings } from '../../../../src/config/load.ts';
import { followSettings } from '../../../../src/daemon/settings/live-settings.ts';
import { variablesOf } from '../../../support/program.ts';

it('settings that are the same at the next reading stay one object, and changed ones are another', async () => {
  const values = { SERVICE_BASE_URL: 'https://service.example/api', SERVICE_API_KEY: 'key', DIRECTORY: '/m' };
  let maxStaleness = '1h';
  const load = () =>
    loadSettings({
      flags: {},
      defaultConfigFile: '/nonexistent.yaml',
      env: variablesOf({ ...values, MAX_STALENESS: maxStaleness }),
      needs: ['service', 'directory'],
    });
  const first = load();
  const live = followSettings(first, load, () => {});
  await live.check();
  expect(live.current()).toBe(first.settings);
  maxStaleness = '2h';
  await live.check();
  expect(live.current().maxStaleness).toBe(2 * 60 * 60 * 1000);
});
