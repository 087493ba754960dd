import { describe, expect, it } from 'vitest';

import { effectiveSettings } from '../../../src/config/render.ts';
import { fileLayer } from '../../../src/config/file.ts';
import { environmentLayer, flagLayer, resolveSettings } from '../../../src/config/layers.ts';
import { MirrorError } from '../../../src/lib/errors/errors.ts';
import {
  changedFiles,
  changeLines,
  cleanEnvironment,
  hookRun,
  hookTree,
} from '../../../src/app/command-hooks.ts';
import { layoutOf } from '../../../src/mirror/store/layout.ts';
import { manifestFile, published, repository } from '../../support/builders.ts';

interface Sources {
  readonly text?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly flags?: Readonly<Record<string, string>>;
}

function resolve({ text = '', env = {}, flags = {} }: Sources) {
  const file = fileLayer(new TextEncoder().encode(text), '/etc/mirror/c.yaml');
  return resolveSettings([flagLayer(flags, '/opt'), environmentLayer(env, '/opt'), file], []);
}

function hooksOf(sources: Sources) {
  return resolve(sources).settings.hooks;
}

function problemsOf(sources: Sources): string[] {
  try {
    resolve(sources);
  } catch (error) {
    if (!(error instanceof MirrorError)) throw error;
    return error.lines.slice(1).map((line) => line.trim().replace(/ \([^)]*\)(?=:)/, ''));
  }
  return [];
}

describe('a command', () => {
  it('is a list in the file, and a path in it starts at the folder of the file', () => {
    const commandOf = (list: string) => hooksOf({ text: `hooks: {afterPublish: [${list}]}` }).afterPublish;
    expect(commandOf('./notify, "two words", 3')).toEqual(['/etc/mirror/notify', 'two words', '3']);
    expect(commandOf('notify')).toEqual(['notify']);
  });

  it('is a JSON list or one word in a variable and in a flag', () => {
    const env = { WORKBOOK_MIRROR_HOOKS_AFTER_PUBLISH: '["bin/notify", "a, b"]' };
    const flags = { 'hooks.beforePublish': '/bin/true' };
    expect(hooksOf({ env, flags })).toMatchObject({
      afterPublish: ['/opt/bin/notify', 'a, b'],
      beforePublish: ['/bin/true'],
    });
  });

  it.each([
    ['a line for a shell', '/bin/echo secret-argument'],
    ['broken JSON', '["/bin/echo"'],
    ['other JSON', '[1]'],
    ['nothing', '[]'],
    ['an empty program', '[""]'],
  ])('refuses %s, without showing it', (_case, text) => {
    const [problem, ...more] = problemsOf({ env: { WORKBOOK_MIRROR_HOOKS_AFTER_PUBLISH: text } });
    expect(problem).toMatch(/^hooks\.afterPublish: expected a program and its arguments as a list/);
    expect(problem).not.toContain('secret-argument');
    expect(more).toEqual([]);
  });

  it('may not be a single string in the file', () => {
    expect(problemsOf({ text: 'hooks: {afterPublish: /bin/true}' })).toHaveLength(1);
  });
});

describe('an address', () => {
  it('is masked wherever settings are printed', () => {
    const { settings, sources } = resolve({ text: 'hooks: {webhook: "https://h/secret-path"}' });
    expect(JSON.stringify(effectiveSettings(settings, sources))).not.toContain('secret-path');
    expect(settings.hooks.webhook?.reveal()).toBe('https://h/secret-path');
  });

  it.each(['h/secret-path', 'ftp://h/secret-path', 'https://'])(
    'refuses %j, without showing it',
    (address) => {
      const problems = problemsOf({ env: { WORKBOOK_MIRROR_HOOKS_WEBHOOK: address } });
      expect(problems).toEqual(['hooks.webhook: expected an http:// or https:// address']);
    },
  );
});

it.each(['short', 'whsec_c2hvcnQ=', 'not-base64-at-all,-but-long-enough-for-one'])(
  'a signing key is not %j',
  (key) => {
    expect(problemsOf({ env: { WORKBOOK_MIRROR_HOOKS_WEBHOOK_SECRET: key } })).toEqual([
      'hooks.webhookSecret: expected 24 to 64 bytes in base64, with or without whsec_ before them',
    ]);
  },
);

describe('the environment of a command', () => {
  it('has what programs need, without settings, credentials and proxies', () => {
    const environment = {
      PATH: '/bin',
      HOME: '/root',
      LC_ALL: 'C',
      TZ: 'UTC',
      WORKBOOK_MIRROR_SERVICE_API_KEY: 'secret',
      CREDENTIALS_DIRECTORY: '/run/credentials',
      HTTPS_PROXY: 'http://user:secret@proxy',
      NODE_OPTIONS: '--inspect',
      AWS_SECRET_ACCESS_KEY: 'secret',
    };
    expect(cleanEnvironment(environment)).toEqual({ PATH: '/bin', HOME: '/root', LC_ALL: 'C', TZ: 'UTC' });
    expect(cleanEnvironment({})['PATH']).toContain('/usr/bin');
  });

  it('holds no NUL, with which the command could not start', () => {
    const tree = hookTree(published(repository({ fullName: 'A\0B' })));
    const news = { event: 'published', target: 'A/main', movedFrom: null, tree, before: null } as const;
    const { environment } = hookRun(layoutOf('/m'), news, null, '/m');
    expect(environment).toMatchObject({ MIRROR_REPOSITORY: 'AB', MIRROR_TREE: '/m/mirror/A/main' });
  });
});

it('the changed files are listed with the versions of workbooks, added first, removed last', () => {
  const said = { author: null, message: null, createdAt: null, action: null, parentId: null };
  const version = { id: 'w', versionId: 'v2', ...said };
  const before = [manifestFile('a'), manifestFile('b'), manifestFile('c')];
  const other = manifestFile('b', { sha256: 'other', workbook: version });
  const changes = changedFiles(before, [other, manifestFile('c'), manifestFile('d')]);
  expect([...changeLines(changes)].join('')).toBe(
    '{"change":"added","path":"d"}\n{"change":"changed","path":"b","version":"v2"}\n{"change":"removed","path":"a"}\n',
  );
});
