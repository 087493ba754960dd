import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';

import * as fc from 'fast-check';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';

import { settingDescriptors, settingValue } from '../../../src/config/descriptors.ts';
import { loadSettings, type LoadRequest } from '../../../src/config/load.ts';
import type { Need } from '../../../src/config/kinds.ts';
import { MirrorError } from '../../../src/lib/errors/errors.ts';
import { exitCodeOf } from '../../../src/lib/errors/errors.ts';
import { temporaryFolder } from '../../support/temporary.ts';

const folder = await temporaryFolder(afterAll);
let number = 0;
beforeEach(() => {
  number += 1;
});

/** Writes a file for this test only. */
function put(name: string, content: string): string {
  const path = join(folder, String(number), name);
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, content);
  return path;
}

type Part = Partial<LoadRequest<readonly Need[]>>;

const NOTHING = { flags: {}, env: {}, needs: [], cwd: '/work-dir', defaultConfigFile: '/absent.yaml' };

function load(part: Part = {}) {
  return loadSettings({ ...NOTHING, ...part });
}

/** The error of loading, or null. */
function errorOf(part: Part): MirrorError | null {
  try {
    load(part);
    return null;
  } catch (error) {
    if (error instanceof MirrorError) return error;
    throw error;
  }
}

/** The problems as lines. */
function problems(part: Part): string[] {
  return (
    errorOf(part)
      ?.lines.slice(1)
      .map((line) => line.trim()) ?? []
  );
}

const KEY = { WORKBOOK_MIRROR_SERVICE_API_KEY: 's3cret' };
const SERVICE = { ...KEY, WORKBOOK_MIRROR_SERVICE_BASE_URL: 'https://h/api/' };

it('the parsed settings are typed as present if they are required', () => {
  const given = { ...NOTHING, flags: { directory: 'mirror' }, env: SERVICE };
  const { settings } = loadSettings({ ...given, needs: ['service', 'directory'] });
  const baseUrl: string = settings.service.baseUrl;
  const key: string = settings.service.apiKey.reveal();
  const directory: string = settings.directory;
  expect([baseUrl, key, directory]).toEqual(['https://h/api', 's3cret', '/work-dir/mirror']);
});

it('settings are not typed as present if the requirements are known only later', () => {
  const needs: Need[] = [];
  const { settings } = load({ needs });
  // @ts-expect-error it may be undefined
  const directory: string = settings.directory;
  expect(directory).toBeUndefined();
});

it('no environment makes another error than problems, or a problem that shows a secret', () => {
  const sound = ['1', '5m', 'a/b', 'sqlite', '**', '/dev/null', '{'];
  const addresses = ['redis://:s3cret@h', 'https://u:s3cret@h'];
  const text = fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.constantFrom(...sound, ...addresses));
  const secret = text.map((suffix) => `s3cret${suffix}`);
  const texts = settingDescriptors.map((known) => [known.environmentVariable, known.secret ? secret : text]);
  const variables = fc.record(Object.fromEntries(texts) as Record<string, typeof text>, { requiredKeys: [] });
  fc.assert(
    fc.property(variables, (env) => {
      expect(problems({ env, needs: ['service', 'directory'] }).join('\n')).not.toContain('s3cret');
    }),
  );
});

describe('precedence', () => {
  it('is flag, environment, file, default', () => {
    const configFile = put('c.yaml', 'concurrency: 2\narchive: {maxEntries: 5}\nlog:\n  level: warn\n');
    const env = { WORKBOOK_MIRROR_CONCURRENCY: '3', WORKBOOK_MIRROR_ARCHIVE_MAX_ENTRIES: '6' };
    const { settings, sources, configFile: read } = load({ configFile, env, flags: { concurrency: '4' } });
    expect([settings.concurrency, settings.archive.maxEntries, settings.log.level]).toEqual([4, 6, 'warn']);
    expect(sources).toMatchObject({
      concurrency: { kind: 'flag', detail: '--concurrency' },
      'archive.maxEntries': { kind: 'environment', detail: 'WORKBOOK_MIRROR_ARCHIVE_MAX_ENTRIES' },
      'log.level': { kind: 'file', detail: `${configFile}:4` },
      publish: { kind: 'default', detail: '' },
    });
    expect(Object.keys(sources)).toEqual(settingDescriptors.map(({ name }) => name));
    expect(read).toBe(configFile);
  });

  it('lets a valid value hide a wrong one of lower precedence', () => {
    expect(problems({ flags: { concurrency: '5' }, env: { WORKBOOK_MIRROR_CONCURRENCY: 'x' } })).toEqual([]);
  });

  it('replaces lists, it does not join them', () => {
    const configFile = put('c.yaml', "branches:\n  include: ['a,b', c]\n  exclude: [d]\n");
    const { settings } = load({ configFile, env: { WORKBOOK_MIRROR_BRANCHES_EXCLUDE: '' } });
    expect(settings.branches).toEqual({ include: ['a,b', 'c'], exclude: [] });
  });
});

describe('the file', () => {
  it('comes from the flag, else the variable, else the default if that exists', () => {
    const [one = '', two = '', three = ''] = ['one', 'two', 'three'].map((name) =>
      put(name, 'state: sqlite'),
    );
    const env = { WORKBOOK_MIRROR_CONFIG: two };
    expect(load({ configFile: one, env, defaultConfigFile: three }).configFile).toBe(one);
    expect(load({ env, defaultConfigFile: three }).configFile).toBe(two);
    expect(load({ defaultConfigFile: three }).configFile).toBe(three);
    expect(load({ defaultConfigFile: `${three}/below-a-file` }).configFile).toBeUndefined();
  });

  it('must exist and be readable if it is named', () => {
    expect(problems({ configFile: 'no.yaml' })).toEqual([
      '--config: the settings file /work-dir/no.yaml cannot be read (ENOENT)',
    ]);
    expect(problems({ env: { WORKBOOK_MIRROR_CONFIG: '/no.yaml' } })).toEqual([
      'WORKBOOK_MIRROR_CONFIG: the settings file /no.yaml cannot be read (ENOENT)',
    ]);
    expect(problems({ env: { WORKBOOK_MIRROR_CONFIG: '' } })).toHaveLength(1);
    expect(problems({ defaultConfigFile: '/' })).toEqual(['the settings file / cannot be read (EISDIR)']);
  });

  it('hides no other problem, but no setting is called missing', () => {
    const env = { WORKBOOK_MIRROR_CONCURRENCY: 'x' };
    expect(problems({ configFile: '/no.yaml', env, needs: ['service', 'directory'] })).toHaveLength(2);
    expect(problems({ configFile: put('c.yaml', 'a: "'), env, needs: ['directory'] })).toHaveLength(2);
  });

  it('is the base of its relative paths', () => {
    const configFile = put('c.yaml', 'directory: mirror\nserve: {directory: ../x, apiKeyFile: key}\n');
    put('key', 'from-file\n');
    const { settings } = load({ configFile });
    expect(settings.directory).toBe(join(configFile, '../mirror'));
    expect(settings.serve.directory).toBe(join(configFile, '../../x'));
    expect(settings.serve.apiKey?.reveal()).toBe('from-file');
  });
});

describe('problems', () => {
  it('are reported all together in one error, each with name, source and expectation', () => {
    const configFile = put('c.yaml', 'service:\n  apikey: s3cret\n  timeout: 2d\nfullCheck: 10s\n');
    const part = {
      configFile,
      needs: ['service', 'directory'] as const,
      flags: { publish: 'never' },
      env: { WORKBOOK_MIRROR_CONCURENCY: '3', WORKBOOK_MIRROR_TIMEZONE: 'Mars/Base' },
    };
    expect(problems(part)).toEqual([
      'WORKBOOK_MIRROR_CONCURENCY: unknown variable; the nearest known one is WORKBOOK_MIRROR_CONCURRENCY',
      `service.apikey (${configFile}:2): unknown setting; the nearest known one is service.apiKey`,
      `service.timeout (${configFile}:3): expected a duration from 1ms to 1d, got "2d"`,
      'timezone (WORKBOOK_MIRROR_TIMEZONE): expected a time zone such as UTC or Europe/Berlin, got "Mars/Base"',
      'publish (--publish): expected one of auto, exchange, rename, link, got "never"',
      `fullCheck (${configFile}:4): expected a duration from 1m to 366d, got "10s"`,
      'service.baseUrl: missing; set service.baseUrl in the settings file, the variable WORKBOOK_MIRROR_SERVICE_BASE_URL, or the flag --service-base-url',
      'service.apiKey: missing; set service.apiKey or service.apiKeyFile in the settings file, the variable WORKBOOK_MIRROR_SERVICE_API_KEY or WORKBOOK_MIRROR_SERVICE_API_KEY_FILE, the flag --service-api-key-file, or a systemd credential named service-api-key',
      'directory: missing; set directory in the settings file, the variable WORKBOOK_MIRROR_DIRECTORY, or the flag --directory',
    ]);
    const error = errorOf(part);
    expect(error?.message.split('\n')).toEqual([
      '9 problems with the settings:',
      ...problems(part).map((line) => `  ${line}`),
    ]);
    expect([error?.code, exitCodeOf(error)]).toEqual(['settings.invalid', 2]);
  });

  it('name the unit if a key is missing from the settings file: it may have the key as a credential', () => {
    const configFile = put('c.yaml', 'directory: /d\n');
    const hint = 'run the command by systemd-run with the same LoadCredential=';
    const needs = ['service'] as const;
    expect(errorOf({ configFile, needs })?.hint).toContain(hint);
    const env = { WORKBOOK_MIRROR_SERVICE_API_KEY: 'key' };
    expect(errorOf({ configFile, env, needs })?.hint).not.toContain(hint);
    expect(errorOf({ needs })?.hint).not.toContain(hint);
    const ofUnit = { INVOCATION_ID: '3f2a' };
    expect(errorOf({ configFile, env: ofUnit, needs })?.hint).not.toContain(hint);
  });

  it.each([
    ['standby', ['', 'yes', 'True', '1', 'off']],
    ['concurrency', ['', '0', '65', '1.5', '1e1', '+1', ' 1', 'x', '99999999999999999999']],
    ['service.timeout', ['', '10', '0s', '25h', '-1s', 'soon']],
    ['maxStaleness', ['0s', '999ms']],
    ['directory', ['', '~', '~/x', '~user/x', 'a\0b', 'a\nb']],
    ['schedule', ['', 'often', '@daily', '* * * *', '* * * * * * *', '60 * * * *', '* * * * mun']],
    ['schedule', ['0 0 30 2 *', '0 0 31 4 *', '0 0 31 2,4,6 *']],
    ['timezone', ['', 'Europe', 'CEST!']],
    ['publish', ['', 'Auto', 'auto ']],
    ['serve.listen', ['9400']],
    ['guard.targets', ['101%']],
    ['history.retired', ['always']],
    ['archive.maxSize', ['', '0', '999 B', 'all']],
    ['repositories.include', ['', 'a,,b', 'a,']],
    ['targets', ['main', 'a/b,c']],
    ['service.maxBandwidth', ['', '0', 'none', '-1']],
    ['state', ['memory']],
    ['hooks.webhookEvents', ['target.fialed']],
    ['http.allowedHosts', ['*', '*.', 'mirror:9480', 'http://mirror', 'a.*.b', '.b', 'mirror/', 'bücher.de']],
    ['service.baseUrl', ['h']],
  ])('%s refuses %j, from a flag and from the environment', (name, texts) => {
    const variable = settingDescriptors.find((known) => known.name === name)?.environmentVariable ?? '';
    const from = (source: string): unknown[] => [expect.stringContaining(`${name} (${source}`)];
    for (const text of texts) {
      expect(problems({ flags: { [name]: text } }), text).toEqual(from('--'));
      expect(problems({ env: { [variable]: text } }), text).toEqual(from(variable));
    }
  });

  it('a schedule is trimmed, and a wrong one is explained', () => {
    expect(load({ flags: { schedule: ' 1 * * * *' } }).settings.schedule).toBe('1 * * * *');
    expect(problems({ flags: { schedule: 'often' } }).join()).toContain('expected a cron expression');
  });

  it.each([
    ['concurrency', ['1', '64']],
    ['service.timeout', ['1ms', '1d']],
    ['readerGrace', ['0s']],
    ['maxStaleness', ['1s']],
    ['schedule', ['*/10 * * * * *', ' 0 3 * * 1-5 ', '0 8-17 * * 1-5', '15,45 * * * *', '0 0 29 2 *']],
    ['timezone', ['Europe/Berlin', 'utc']],
    ['directory', ['./~', '/', 'a b']],
    ['targets', ['', 'Accounting/main,**/main', 'x/feature%2Fy']],
    ['http.allowedHosts', ['', 'mirror,mirror.default.svc,*.example.com', 'MIRROR', 'my_mirror']],
  ])('%s takes %j', (name, texts) => {
    for (const text of texts) expect(problems({ flags: { [name]: text } }), text).toEqual([]);
  });

  it('say which entry of a list is wrong', () => {
    expect(problems({ flags: { targets: ['a/b', 'c'] } })).toEqual([
      'targets (--targets): expected REPOSITORY/BRANCH, such as Accounting/main, got "c"',
    ]);
  });

  it('are safe to print', () => {
    const text = '\u001b[2J\u009b\u202e\n\u2028';
    for (const line of problems({ flags: { publish: text }, env: { [`WORKBOOK_MIRROR_${text}`]: 'x' } })) {
      expect(line).not.toMatch(/[\p{C}\u2028]/u);
    }
    expect(problems({ flags: { publish: 'x'.repeat(1e6) } }).join('').length).toBeLessThan(300);
  });
});

describe('flags and variables', () => {
  it('may repeat a list, with commas or without', () => {
    const include = ['a, b', 'release/{1,{2,3}},c', '{d,{e,{f,g}}},h,{i'];
    const { settings } = load({ flags: { 'branches.include': include, targets: 'a/{b,c/main' } });
    expect(settings.branches.include).toEqual([
      'a',
      'b',
      'release/{1,{2,3}}',
      'c',
      '{d,{e,{f,g}}}',
      'h',
      '{i',
    ]);
    expect(settings.targets).toEqual(['a/{b', 'c/main']);
  });

  it('may not repeat anything else', () => {
    expect(problems({ flags: { publish: ['auto', 'rename'] } })).toEqual([
      'publish (--publish): expected the flag once, with one value',
    ]);
    expect(load({ flags: { publish: ['rename'] } }).settings.publish).toBe('rename');
  });

  it('that are unknown suggest the nearest', () => {
    expect(problems({ env: { WORKBOOK_MIRROR_CONFIGS: 'x' } })).toEqual([
      'WORKBOOK_MIRROR_CONFIGS: unknown variable; the nearest known one is WORKBOOK_MIRROR_CONFIG',
    ]);
  });

  it('that were removed say what to do, from every source', () => {
    const configFile = put('removed.yaml', 'dedup: off\n');
    const advice = /: this setting was removed; leave it out: each target stores its own files/;
    const given: readonly (readonly [string, Part])[] = [
      [`dedup (${configFile}:1)`, { configFile }],
      ['dedup (WORKBOOK_MIRROR_DEDUP)', { env: { WORKBOOK_MIRROR_DEDUP: 'off' } }],
      ['dedup', { flags: { dedup: 'off' } }],
    ];
    for (const [origin, part] of given) {
      const [problem = '', ...more] = problems(part);
      expect(problem.startsWith(origin)).toBe(true);
      expect(problem).toMatch(advice);
      expect(more).toEqual([]);
    }
  });

  it('may come from a Kubernetes service named workbook-mirror, and are then ignored', () => {
    const env = {
      WORKBOOK_MIRROR_SERVICE_HOST: '10.0.0.1',
      WORKBOOK_MIRROR_SERVICE_PORT: '80',
      WORKBOOK_MIRROR_SERVICE_PORT_HTTP: '80',
      WORKBOOK_MIRROR_PORT: 'tcp://10.0.0.1:80',
      WORKBOOK_MIRROR_PORT_80_TCP_ADDR: '10.0.0.1',
    };
    expect(problems({ env })).toEqual([]);
  });

  it('without the prefix are ignored', () => {
    const env = { WORKBOOK: 'x', workbook_mirror_x: 'y', PATH: '/', WORKBOOK_MIRROR_STATE: undefined };
    expect(problems({ env })).toEqual([]);
  });
});

describe('secrets', () => {
  it('come from a variable, the file, their own file or a credential, and are never printed', () => {
    const keyFile = put('key', 's3cret\n');
    const CREDENTIALS_DIRECTORY = join(put('credentials/service-api-key', 's3cret\n'), '..');
    const parts: Part[] = [
      { env: KEY },
      { env: { WORKBOOK_MIRROR_SERVICE_API_KEY_FILE: keyFile } },
      { flags: { 'service.apiKeyFile': keyFile } },
      { configFile: put('a.yaml', 'service: {apiKey: s3cret}') },
      { configFile: put('b.yaml', 'service: {apiKeyFile: key}') },
      { env: { CREDENTIALS_DIRECTORY } },
    ];
    const kinds = parts.map((part) => {
      const loaded = load(part);
      expect(loaded.settings.service.apiKey?.reveal()).toBe('s3cret');
      expect(inspect(loaded, { depth: 9 }) + JSON.stringify(loaded)).not.toContain('s3cret');
      return loaded.sources['service.apiKey']?.kind;
    });
    expect(kinds).toEqual(['environment', 'environment', 'flag', 'file', 'file', 'credential']);
  });

  it('may have several lines if they are keys of the service', () => {
    const keyFile = put('keys', 'one\ntwo\n');
    const parts: Part[] = [
      { env: { WORKBOOK_MIRROR_SERVICE_API_KEY: 'one\ntwo' } },
      { flags: { 'service.apiKeyFile': keyFile } },
      { configFile: put('a.yaml', 'service:\n  apiKey: |\n    one\n    two\n') },
    ];
    for (const part of parts)
      expect(load(part).settings.service.apiKey?.revealAll()).toStrictEqual(['one', 'two']);
    expect(problems({ env: { WORKBOOK_MIRROR_HTTP_TOKEN_FILE: keyFile } })).toEqual([
      `http.tokenFile (WORKBOOK_MIRROR_HTTP_TOKEN_FILE): the content of ${keyFile}: holds a space, a line break, an invisible character or a letter outside of ASCII: give the key alone, in UTF-8 without a byte order mark`,
    ]);
  });

  it('that were removed say where their key belongs, from every source', () => {
    const advice =
      'this setting was removed; put this key on a line of its own below the one of service.apiKey, or of its file';
    const credential = put('credentials/service-api-key-second', 's3cret');
    const configFile = put('removed.yaml', 'service:\n  apiKeySecond: s3cret\n');
    const variable = 'WORKBOOK_MIRROR_SERVICE_API_KEY_SECOND';
    const given: readonly (readonly [string, Part])[] = [
      [`service.apiKeySecond (${credential})`, { env: { CREDENTIALS_DIRECTORY: join(credential, '..') } }],
      [`service.apiKeySecond (${configFile}:2)`, { configFile }],
      [`service.apiKeySecond (${variable})`, { env: { [variable]: 's3cret' } }],
      ['service.apiKeySecondFile', { flags: { 'service.apiKeySecondFile': 'x' } }],
    ];
    for (const [origin, part] of given) expect(problems(part)).toEqual([`${origin}: ${advice}`]);
  });

  it('take the strongest source, whether in place or by file; a credential is the weakest', () => {
    const weak = put('c.yaml', 'service: {apiKey: from-config}');
    const CREDENTIALS_DIRECTORY = join(put('credentials/service-api-key', 'from-credential'), '..');
    const key = put('key', 'from-flag');
    const env = { WORKBOOK_MIRROR_SERVICE_API_KEY: 'from-env', CREDENTIALS_DIRECTORY };
    const fileIn = (part: Part): unknown => settingValue(load(part).settings, 'service.apiKeyFile');
    const reveal = (part: Part) => load(part).settings.service.apiKey?.reveal();
    expect(reveal({ configFile: weak, env, flags: { 'service.apiKeyFile': key } })).toBe('from-flag');
    expect(reveal({ configFile: weak, env })).toBe('from-env');
    expect(reveal({ configFile: weak, env: { CREDENTIALS_DIRECTORY } })).toBe('from-config');
    expect(reveal({ env: { CREDENTIALS_DIRECTORY } })).toBe('from-credential');
    expect(fileIn({ env, flags: { 'service.apiKeyFile': key } })).toBe(key);
    const hidden = put('h.yaml', 'service: {apiKeyFile: /absent}');
    expect(fileIn({ configFile: hidden, env })).toBeUndefined();
  });

  it('are refused if one source gives both the value and a file', () => {
    const env = { ...KEY, WORKBOOK_MIRROR_SERVICE_API_KEY_FILE: '/absent' };
    expect(problems({ env })).toEqual([
      'service.apiKey: expected only one of service.apiKey (WORKBOOK_MIRROR_SERVICE_API_KEY) and service.apiKeyFile (WORKBOOK_MIRROR_SERVICE_API_KEY_FILE)',
    ]);
    const configFile = put('c.yaml', 'serve:\n  apiToken: s3cret\n  apiTokenFile: x\n');
    expect(problems({ configFile })).toEqual([expect.stringContaining('expected only one of')]);
  });

  it('are never shown in a problem, and an invalid one is not called missing', () => {
    const needs = ['service'] as const;
    const configFile = put('c.yaml', 'service:\n  apiKey: "s3cret\\nInjected: s3cret"\n');
    const env = { WORKBOOK_MIRROR_SERVICE_BASE_URL: 'https://s3cret@h' };
    expect(problems({ configFile, needs, env })).toEqual([
      'service.baseUrl (WORKBOOK_MIRROR_SERVICE_BASE_URL): expected an address without user name and password; give service.apiKey instead',
      `service.apiKey (${configFile}:2): line 2 holds a space, a line break, an invisible character or a letter outside of ASCII: give the key alone, in UTF-8 without a byte order mark`,
    ]);
    expect(problems({ env: { ...SERVICE, WORKBOOK_MIRROR_SERVICE_API_KEY: '' }, needs })).toEqual([
      'service.apiKey (WORKBOOK_MIRROR_SERVICE_API_KEY): is empty',
    ]);
    const absent = { 'service.apiKeyFile': '/absent', 'service.baseUrl': 'https://h' };
    expect(problems({ flags: absent, needs })).toEqual([
      'service.apiKeyFile (--service-api-key-file): expected the path of a file that can be read (ENOENT)',
    ]);
  });

  it.skipIf(process.getuid?.() === 0)('of the daemon may be unreadable for other users of its mirror', () => {
    const key = put('key', 's3cret');
    chmodSync(key, 0);
    const flags = { 'service.apiKeyFile': key };
    const problem = expect.stringMatching(/can be read \(EACCES\)$/) as string;
    expect(problems({ flags })).toEqual([]);
    expect(problems({ flags, needs: ['service'] })).toContainEqual(problem);
    expect(problems({ flags: { 'serve.apiKeyFile': key } })).toEqual([problem]);
  });

  it('are not shown if given where a file name belongs', () => {
    for (const value of ['s3cret', '~s3cret', 's3cret\n', 'x'.repeat(5000)]) {
      const [line, ...more] = problems({ env: { WORKBOOK_MIRROR_SERVICE_API_KEY_FILE: value } });
      expect(line).toMatch(/^service\.apiKeyFile \(.*_FILE\): expected (?!.*(?:s3cret|xxx))/);
      expect(more).toEqual([]);
    }
  });

  it('within the state address are masked, and refused in a flag', () => {
    const state = 'redis://user:s3cret@h/0';
    const [line, ...more] = problems({ flags: { state } });
    expect(more).toEqual([]);
    expect(line).toMatch(/^state \(--state\): expected no password in a flag.*WORKBOOK_MIRROR_STATE$/);
    expect(problems({ flags: { state: 'redis://user@h/0' } })).toEqual([]);
    expect(JSON.stringify(load({ env: { WORKBOOK_MIRROR_STATE: state } }))).not.toContain('s3cret');
    const wrong = { WORKBOOK_MIRROR_STATE: 'mysql://h?password=s3cret' };
    expect(problems({ env: wrong }).join()).not.toMatch(/s3/);
  });
});
