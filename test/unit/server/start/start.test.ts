import { Command } from 'commander';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

import { addAllPendingFlags } from '../../../../src/cli/frame/declare.ts';
import { formatLine } from '../../../../src/server/start/log.ts';
import { keyCommand, mirrorSettings } from '../../../../src/server/start/start.ts';
import { addListCommands, addServiceCommands } from '../../../../src/cli/frame/service-commands.ts';
import { reasonIn } from '../../../../src/server/external/errors.ts';
import { listenError } from '../../../../src/lib/http/server.ts';
import { say } from '../../../../src/lib/text/terminal-text.ts';
import { reachableHost } from '../../../../src/server/http/service.ts';
import { hostileText, UNFIT } from '../../../support/hostile-text.ts';

const AT = new Date('2026-01-02T03:04:05.678Z');

describe('the log of serve', () => {
  it('has lines of one form, with a mark for problems', () => {
    for (const level of ['warn', 'error'] as const)
      expect(String(formatLine('pretty', level, 'a', AT))).toBe('2026-01-02T03:04:05.678Z ! a\n');
    const line = formatLine('auto', 'info', say`GET / 200\nb:\n  c`, AT);
    expect(String(line)).toBe('2026-01-02T03:04:05.678Z GET / 200\nb:\n  c\n');
  });

  it('has one line of JSON per message, even for text of several lines', () => {
    const line = String(formatLine('json', 'warn', say`a\nb:\n  c`, AT));
    expect(line.indexOf('\n')).toBe(line.length - 1);
    expect(JSON.parse(line)).toEqual({
      level: 'warn',
      time: '2026-01-02T03:04:05.678Z',
      pid: process.pid,
      msg: 'a\nb:\n  c',
    });
  });

  it('shows foreign text as plain text, on one line', () =>
    fc.assert(
      fc.property(hostileText, fc.constantFrom('json', 'pretty'), (text, format) => {
        const line = String(formatLine(format, 'warn', text, AT));
        expect(line).toMatch(/^[^\n]+\n$/);
        expect(line.slice(0, -1)).not.toMatch(UNFIT);
      }),
    ));
});

describe('the settings of a mirror that serve prints', () => {
  const baseUrl = 'http://127.0.0.1:9400/api';

  it('are a valid settings file', () => {
    const text = String(mirrorSettings(baseUrl, { apiKey: 'k', apiToken: 't' }));
    expect(parse(text)).toEqual({
      service: { baseUrl, apiKey: 'k', apiToken: 't' },
      directory: './copy',
    });
    const withoutToken = String(mirrorSettings(baseUrl, { apiKey: 'k', apiToken: null }));
    expect(parse(withoutToken)).toMatchObject({ service: { baseUrl, apiKey: 'k' } });
    expect(withoutToken).toContain('apiToken: the token that');
  });

  it('come with a command for the shell', () => {
    expect(keyCommand('token', '/srv/a b')).toBe(
      "workbook-mirror keys create --kind token --name NAME --serve-directory '/srv/a b'",
    );
    expect(keyCommand('personal')).toMatch(/--serve-directory DIR$/);
  });
});

describe('an address to listen on', () => {
  it('is printed in a form that others can use', () => {
    expect(reachableHost('0.0.0.0', 'machine')).toBe('machine');
    expect(reachableHost('::', 'machine')).toBe('machine');
    expect(reachableHost('::', 'no name')).toBe('[::]');
    expect(reachableHost('::1', 'machine')).toBe('[::1]');
    expect(reachableHost('127.0.0.1', 'machine')).toBe('127.0.0.1');
  });

  it.each([
    ['EADDRINUSE', /another program listens there already/, /port for serve\.listen, or end/],
    ['EACCES', /may not listen there/, /from 1024 on for serve\.listen; lower/],
    [
      'EOTHER',
      /serve\.listen\): odd\.$/,
      /Give serve\.listen an address of this machine, such as 127\.0\.0\.1:80\./,
    ],
  ])('that cannot be used is explained by its cause: %s', (code, message, hint) => {
    const cause = Object.assign(new Error('odd'), { code });
    const error = listenError(cause, { host: '127.0.0.1', port: 80 }, 'serve.listen');
    expect(error.code).toBe('http.unusable');
    expect(error.message).toMatch(message);
    expect(error.hint).toMatch(hint);
  });
});

it.each([
  [
    "git ls-remote ended with 128: fatal: '/x' does not appear to be a git repository; fatal: Could not read from " +
      'remote repository.; Please make sure you have the correct access rights; and the repository exists.',
    "'/x' does not appear to be a git repository",
  ],
  [
    'git fetch ended with 128: remote: Not Found; fatal: repository https://h/x.git/ not found',
    'repository https://h/x.git/ not found',
  ],
  ['git fetch ended with 1: warning: odd', 'odd'],
  ['git fetch was ended early', 'git gives no reason'],
  ['fatal: a\nerror: b', 'a'],
  ['fatal: a\u001b[2Jb', 'a [2Jb'],
])('the complaint of git is one line: %j', (said, reason) => expect(reasonIn(said)).toBe(reason));

describe('the flags of commands', async () => {
  const program = new Command('workbook-mirror');
  addListCommands(program);
  addServiceCommands(program);
  await addAllPendingFlags(program);

  function flagsOf(...path: readonly string[]): Map<string, string> {
    let command: Command | undefined = program;
    for (const name of path) command = command?.commands.find((each) => each.name() === name);
    const shown = command?.options.filter(({ hidden }) => !hidden);
    return new Map(shown?.map(({ long, description }) => [long ?? '', description]));
  }

  it('belong to settings that they read', () => {
    for (const path of [['repos', 'list'], ['repos', 'create'], ['workbooks', 'list'], ['probe']]) {
      const flags = flagsOf(...path);
      // The daemon of the directory asks the service, or this process if none runs.
      for (const flag of ['--service-base-url', '--directory']) {
        expect(flags.get(flag)).toBeDefined();
        expect(flags.get(flag)).not.toContain('required');
      }
      for (const other of ['--schedule', '--hooks-webhook-file', '--serve-directory', '--log-level'])
        expect(flags.has(other)).toBe(false);
    }
    const serve = flagsOf('serve');
    for (const flag of ['--serve-directory', '--log-level', '--log-format', '--directory', '--state'])
      expect(serve.has(flag)).toBe(true);
    expect(serve.get('--directory')).not.toContain('required');
    for (const other of ['--service-base-url', '--publish', '--history-retired'])
      expect(serve.has(other)).toBe(false);
    for (const name of ['create', 'revoke', 'list']) {
      const settings = [...flagsOf('keys', name).keys()].filter((flag) =>
        /^--(?:serve|log|service)-/.test(flag),
      );
      expect(settings).toContain('--serve-directory');
      expect(settings.length).toBe(name === 'list' ? 3 : 1);
    }
  });
});
