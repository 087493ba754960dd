import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import * as changes from '../../../src/config/changes.ts';
import { settingDescriptors } from '../../../src/config/descriptors.ts';
import { loadSettings } from '../../../src/config/load.ts';
import { variablesOf } from '../../support/program.ts';
import { temporaryFolder } from '../../support/temporary.ts';

const { changedSettings, digestSettings, filesOfSettings, keepUntilRestart } = changes;
const NOWHERE = '/nonexistent/config.yaml';

function load(settings: Readonly<Record<string, string>>) {
  const env = variablesOf(settings);
  return loadSettings({ flags: {}, env, needs: [], defaultConfigFile: NOWHERE }).settings;
}

/** Another value than the default for every setting that needs a restart. */
const OTHERS: Readonly<Record<string, string>> = {
  directory: '/srv/other',
  standby: 'true',
  shard: '2/5',
  state: 'redis://localhost',
  publish: 'rename',
  readerGrace: '9m',
  drift: 'off',
  'history.retired': '9d',
  'history.replaced': '9',
  'log.format': 'json',
  'http.listen': 'off',
};

describe('settings that changed', () => {
  it('are empty if nothing changed', () => {
    expect(changedSettings(digestSettings(load({})), digestSettings(load({})))).toStrictEqual([]);
  });

  it('are named', () => {
    const before = digestSettings(load({ SCHEDULE: '1 * * * *', GUARD_FILES: '3' }));
    const after = digestSettings(load({ SCHEDULE: '2 * * * *', TARGETS: 'A/main' }));
    expect(changedSettings(before, after)).toStrictEqual(['schedule', 'guard.files', 'targets']);
  });

  it('include a secret with a changed file and unchanged settings, and name its file', async () => {
    const file = join(await temporaryFolder(), 'key');
    writeFileSync(file, 's3cr3t-before');
    const settings = load({ SERVICE_API_KEY_FILE: file });
    expect(filesOfSettings(settings)).toStrictEqual([file]);
    const before = digestSettings(settings);
    writeFileSync(file, 'another');
    expect(changedSettings(before, digestSettings(settings))).toStrictEqual(['service.apiKey']);
    expect(JSON.stringify([...before])).not.toContain('s3cr3t-before');
  });
});

describe('a setting that needs a restart', () => {
  const names = settingDescriptors.filter(({ needsRestart }) => needsRestart).map(({ name }) => name);

  it('is one of OTHERS, and no other setting is', () => {
    expect(names).toStrictEqual(Object.keys(OTHERS));
  });

  it.each(names)('keeps its value: %s', (name) => {
    const variable = settingDescriptors.find((each) => each.name === name)?.environmentVariable ?? '';
    const before = load({});
    const next = load({ [variable.replace('WORKBOOK_MIRROR_', '')]: OTHERS[name] ?? '' });
    expect(changedSettings(digestSettings(before), digestSettings(next))).toStrictEqual([name]);
    const kept = keepUntilRestart(next, before);
    expect(changedSettings(digestSettings(before), digestSettings(kept))).toStrictEqual([]);
  });

  it('does not block changes of other settings', () => {
    const next = load({ SCHEDULE: '2 * * * *', LOG_LEVEL: 'debug', DIRECTORY: '/srv/other' });
    const changed = changedSettings(
      digestSettings(load({})),
      digestSettings(keepUntilRestart(next, load({}))),
    );
    expect(changed).toStrictEqual(['schedule', 'log.level']);
  });
});
