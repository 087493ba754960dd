import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { filesOf } from '../../../../src/cli/init/init.ts';
import { fileLayer } from '../../../../src/config/file.ts';
import { Layer, resolveSettings } from '../../../../src/config/layers.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const KEY = 'key-5f1d';
const FILE = '/etc/workbook-mirror/config.yaml';

function files(values: Readonly<Record<string, string>>, isForUnit: boolean) {
  const layer = new Layer();
  const all = { 'service.baseUrl': 'https://h/api', directory: '/m', ...values };
  for (const [name, value] of Object.entries(all))
    layer.values.set(name, { value, source: { kind: 'default', detail: '' }, base: '/' });
  const { settings } = resolveSettings([layer], ['service', 'directory']);
  return filesOf(settings, FILE, isForUnit);
}

describe('the files of new settings', () => {
  it('are the settings with a comment each and nothing else, and a file for each key', () => {
    const [config, ...keys] = files({ 'service.apiKey': KEY, 'service.apiToken': 'token-9c2e' }, false);
    const { values, problems } = fileLayer(Buffer.from(config?.text ?? ''), FILE);
    expect(problems).toEqual([]);
    expect(Object.fromEntries([...values].map(([name, { value }]) => [name, value]))).toEqual({
      'service.baseUrl': 'https://h/api',
      'service.apiKeyFile': '/etc/workbook-mirror/config.api-key',
      'service.apiTokenFile': '/etc/workbook-mirror/config.api-token',
      directory: '/m',
    });
    for (const line of config?.text.trimEnd().split('\n').slice(1) ?? []) expect(line).toMatch(/ # \w/);
    expect(keys).toEqual([
      { path: '/etc/workbook-mirror/config.api-key', text: `${KEY}\n`, isSecret: true },
      { path: '/etc/workbook-mirror/config.api-token', text: 'token-9c2e\n', isSecret: true },
    ]);
  });

  it('leave a key in the file that was given, except for the unit, whose user may not read it', async () => {
    const given = join(await temporaryFolder(), 'given');
    await writeFile(given, `${KEY}\nsecond-key\n`);
    const [config, ...others] = files({ 'service.apiKeyFile': given }, false);
    expect(config?.text).toContain(`apiKeyFile: ${given} #`);
    expect(others).toEqual([]);
    expect(files({ 'service.apiKeyFile': given }, true)[1]?.text).toBe(`${KEY}\nsecond-key\n`);
  });

  it('are credentials where the unit is installed, which the settings do not name', () => {
    const [config, key, ...others] = files({ 'service.apiKey': KEY }, true);
    expect(config?.text).not.toMatch(/key/i);
    expect(key).toMatchObject({ path: '/etc/credstore/workbook-mirror.service-api-key', text: `${KEY}\n` });
    expect(others).toEqual([]);
  });
});
