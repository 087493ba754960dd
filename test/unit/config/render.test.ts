import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { parse } from 'yaml';
import { afterAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

import { settingDescriptors } from '../../../src/config/descriptors.ts';
import { fileLayer } from '../../../src/config/file.ts';
import { environmentLayer, resolveSettings } from '../../../src/config/layers.ts';
import {
  effectiveSettings,
  inlineYaml,
  renderEffective,
  renderJsonSchema,
} from '../../../src/config/render.ts';
import { sections } from '../../../src/config/schema.ts';
import { temporaryFolder } from '../../support/temporary.ts';

/** The settings from a file's text and variables. */
function resolve(text: string, env: Record<string, string> = {}) {
  const file = fileLayer(Buffer.from(text), '/etc/c.yaml');
  const layers = [environmentLayer(env, '/'), file];
  return resolveSettings(layers, ['service', 'directory']);
}

/** Takes the comment marks off the settings; a comment for people has a space after its mark. */
function uncomment(text: string): string {
  return text.replaceAll(/^( *)#(?! )/gm, '$1');
}

describe('the names', () => {
  it('are unique in every form, and each has a description of one line', () => {
    for (const key of ['name', 'environmentVariable', 'flag'] as const) {
      const names = settingDescriptors.flatMap((descriptor) => descriptor[key] ?? []);
      expect(new Set(names).size).toBe(names.length);
    }
    for (const { name, description } of settingDescriptors) {
      expect(description, name).toMatch(/^[^\n]{5,}[^.\n]$/);
    }
  });

  it('derive from the dotted name', () => {
    const baseUrl = settingDescriptors.find(({ name }) => name === 'service.baseUrl');
    expect(baseUrl).toMatchObject({
      environmentVariable: 'WORKBOOK_MIRROR_SERVICE_BASE_URL',
      flag: '--service-base-url',
      secret: false,
      kind: 'address',
      valueHint: '<url>',
      defaultText: '(required)',
    });
  });

  it('give every secret a file and no flag', () => {
    const secrets = settingDescriptors.filter(({ secret }) => secret);
    expect(secrets.map(({ name }) => name)).toEqual([
      'service.apiKey',
      'service.apiToken',
      'http.token',
      'http.pollToken',
      'hooks.webhook',
      'hooks.webhookSecret',
      'hooks.heartbeat',
      'serve.apiKey',
      'serve.apiToken',
    ]);
    for (const { name, flag } of secrets) {
      expect(flag).toBeUndefined();
      expect(settingDescriptors).toContainEqual(
        expect.objectContaining({ name: `${name}File`, fileOf: name, kind: 'path', secret: false }),
      );
    }
  });
});

const EXAMPLE = await readFile(new URL('../../../config/config.example.yaml', import.meta.url), 'utf8');

/** The sections and settings of a text, each with the comment above it and its line. */
function commented(text: string): Map<string, readonly [comment: string, line: string]> {
  const found = new Map<string, readonly [string, string]>();
  let section = '';
  let words: string[] = [];
  for (const line of text.split('\n')) {
    const [, indent, key, value] = /^( *)#?(\w+):(.*)$/.exec(line) ?? [];
    if (line.startsWith('# ', line.search(/\S/))) {
      words.push(line.trim().slice(2));
      continue;
    }
    if (key !== undefined) {
      if (value === '') section = key;
      found.set(indent === '' ? key : `${section}.${key}`, [words.join(' '), line.trim()]);
    }
    words = [];
  }
  return found;
}

describe('the example', () => {
  it('has every section and setting with its description, default, and whether it needs a restart', () => {
    const found = commented(EXAMPLE);
    const settable = settingDescriptors.filter(({ fileOf }) => fileOf === undefined);
    const names = new Set(settable.flatMap(({ name }) => [...name.split('.').slice(0, -1), name]));
    expect([...found.keys()]).toEqual([...names]);
    for (const [name, description] of Object.entries(sections))
      expect(found.get(name)).toEqual([description, `${name}:`]);
    for (const { name, description, default: value, need, needsRestart } of settable) {
      const [comment = '', line = ''] = found.get(name) ?? [];
      const sentence = `${description.charAt(0).toUpperCase()}${description.slice(1)}.`.replaceAll('`', '');
      expect(comment.slice(0, sentence.length)).toBe(sentence);
      expect([name, comment.endsWith('A change needs a restart.')]).toEqual([name, needsRestart === true]);
      expect(line.startsWith('#')).toBe(need === undefined);
      if (value !== undefined) expect(line).toBe(`#${name.split('.').at(-1)}: ${inlineYaml(value)}`);
    }
  });

  /** The example with keys instead of the placeholders. */
  const withKeys = (text: string): string => text.replaceAll(/\byour-[\w-]+/g, 'key');

  it('loads with a key in it, with the defaults', () => {
    const { settings } = resolve(withKeys(EXAMPLE));
    const { settings: bare } = resolve(
      'service: {baseUrl: https://workbooks.example.com/api, apiKey: x}\ndirectory: /var/lib/workbook-mirror',
    );
    expect(JSON.stringify(settings)).toBe(JSON.stringify(bare));
  });

  it('has every setting, and loads uncommented', () => {
    const { sources, settings } = resolve(withKeys(uncomment(EXAMPLE)));
    const settable = settingDescriptors.filter(({ fileOf }) => fileOf === undefined);
    expect(settable.filter(({ name }) => sources[name]?.kind !== 'file')).toEqual([]);
    expect(settings).toMatchObject({ maxStaleness: 900_000, concurrency: 4, branches: { include: ['**'] } });
  });

  it('fits on a screen', () => {
    expect(Math.max(...EXAMPLE.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100);
  });
});

describe('the JSON Schema', () => {
  it('is the file in the repository', async () => {
    await expect(renderJsonSchema()).toMatchFileSnapshot('../../../config/config.schema.json');
  });

  it('accepts the example, commented and not, and refuses what is unknown', () => {
    const schema = z.fromJSONSchema(asObject(JSON.parse(renderJsonSchema())));
    const examples = [EXAMPLE, uncomment(EXAMPLE)].map((text): unknown => parse(text));
    for (const good of [...examples, {}, { service: { apiKeyFile: '/x' } }])
      expect(schema.safeParse(good).error).toBeUndefined();
    for (const bad of [{ service: { apikey: 'x' } }, { concurrency: 65 }, { publish: 'x' }])
      expect(schema.safeParse(bad).success).toBe(false);
  });

  it('describes every setting, with its default', () => {
    const schema = asObject(JSON.parse(renderJsonSchema()));
    for (const { name, description, default: value } of settingDescriptors) {
      const leaf = name
        .split('.')
        .reduce((node, part) => asObject(asObject(node['properties'])[part]), schema);
      expect(leaf, name).toHaveProperty('description', description);
      expect(typeof leaf['type'], name).toBe('string');
      expect(leaf['default'], name).toEqual(value);
    }
  });
});

const TOKEN_FILE = join(await temporaryFolder(afterAll), 'token');
await writeFile(TOKEN_FILE, 's3cret');

describe('the effective settings', () => {
  const text = [
    'service:',
    '  baseUrl: https://h/api/',
    '  apiKey: s3cret',
    `  apiTokenFile: ${TOKEN_FILE}`,
    'directory: "/a: b # c"',
    "branches: {include: ['**', '1', 'a, b']}",
    'standby: true',
    'fullCheck: 90m',
    'serve: {listen: "[::1]:1"}',
  ].join('\n');
  const { settings, sources } = resolve(text, { WORKBOOK_MIRROR_STATE: 'redis://u:s3cret@h/0' });

  it('show value and source, without secrets', () => {
    const yaml = renderEffective(settings, sources);
    const json = JSON.stringify(effectiveSettings(settings, sources));
    expect(yaml + json).not.toContain('s3cret');
    for (const line of [
      '  baseUrl: https://h/api # file /etc/c.yaml:2',
      "  apiKey: '***' # file /etc/c.yaml:3",
      "  apiToken: '***' # file /etc/c.yaml:4",
      `  apiTokenFile: ${TOKEN_FILE} # file /etc/c.yaml:4`,
      'state: redis://u:***@h/0 # environment WORKBOOK_MIRROR_STATE',
      'standby: true # file /etc/c.yaml:7',
      'fullCheck: 1h30m # file /etc/c.yaml:8',
      'maxStaleness: null # default: 3 schedule periods, at least 15m',
      'publish: auto # default',
      '  directory: null # default',
      "  listen: '[::1]:1' # file /etc/c.yaml:9",
    ]) {
      expect(yaml.split('\n')).toContain(line);
    }
  });

  it('are YAML that reads back to the same values', () => {
    const values = Object.entries(effectiveSettings(settings, sources));
    const read: unknown = parse(renderEffective(settings, sources));
    for (const [name, { value }] of values) {
      const node = name.split('.').reduce<unknown>((node, part) => asObject(node)[part], read);
      expect(node ?? null, name).toEqual(value);
    }
  });
});

function asObject(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null) throw new TypeError('not an object');
  return { ...value };
}
