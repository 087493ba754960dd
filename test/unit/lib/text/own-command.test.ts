import { afterEach, describe, expect, it } from 'vitest';

import { invocationOf } from '../../../../src/cli/settings/settings-flags.ts';
import {
  ownCommand,
  ownFlags,
  rememberInvocation,
  withOwnFlags,
} from '../../../../src/lib/text/own-command.ts';

const PLAIN = { program: 'workbook-mirror', diskFlags: [], passFlags: [] };

afterEach(() => rememberInvocation(PLAIN));

function called(
  fields: Partial<Parameters<typeof invocationOf>[0]>,
  onLine: Parameters<typeof invocationOf>[1] = {},
  env: Parameters<typeof invocationOf>[2] = {},
): ReturnType<typeof invocationOf> {
  return invocationOf({ configFile: undefined, settings: {}, sources: {}, ...fields }, onLine, env);
}

describe('a command that the program names', () => {
  it('has no settings if the settings file of the machine has them all', () => {
    const configFile = '/etc/workbook-mirror/config.yaml';
    rememberInvocation(called({ configFile, settings: { directory: '/m' } }));
    expect(ownCommand('status')).toBe('workbook-mirror status');
    expect(ownCommand('approve', "O'Neil/$(main)")).toBe(`workbook-mirror approve 'O'\\''Neil/$(main)'`);
    expect(ownCommand('history restore', '-x/main')).toBe("workbook-mirror history restore -- '-x/main'");
  });

  it('repeats the settings file, and the options of the command line', () => {
    const onLine = {
      'service.baseUrl': 'https://service/api?a&b',
      directory: 'here',
      'repositories.include': ['a*', 'b'],
    };
    rememberInvocation(called({ configFile: '/srv/my settings.yaml' }, onLine));
    const shared = "--config '/srv/my settings.yaml'";
    const directory = `--directory ${process.cwd()}/here`;
    expect(ownCommand('why', 'a/main')).toBe(`workbook-mirror why ${shared} ${directory} 'a/main'`);
    // It takes no settings.
    expect(ownCommand('help settings')).toBe('workbook-mirror help settings');
    expect(ownCommand('sync')).toBe(
      `workbook-mirror sync ${shared} --service-base-url 'https://service/api?a&b' ${directory} '--repositories-include=a*' --repositories-include=b`,
    );
  });

  it('repeats the shard, unless it names one, and what either service needs', () => {
    rememberInvocation(called({}, { shard: '1/2', 'serve.directory': '/s' }));
    expect(ownCommand('approve', 'a')).toBe("workbook-mirror approve --shard 1/2 'a'");
    expect(ownCommand('status --shard 2/2')).toBe('workbook-mirror status --shard 2/2');
    // Without a daemon, poll makes the pass.
    for (const command of ['poll', 'keys list'])
      expect(ownCommand(command)).toBe(`workbook-mirror ${command} --shard 1/2 --serve-directory /s`);
  });

  it('repeats a directory from the environment', () => {
    const sources = { directory: { kind: 'environment', detail: 'X' } } as const;
    rememberInvocation(called({ settings: { directory: '/m' }, sources }));
    expect(ownCommand('verify --repair', 'a')).toBe("workbook-mirror verify --repair --directory /m 'a'");
  });

  it.each([
    ['/d.yaml', {}],
    ['/d.yaml', { concurrency: '8' }],
    [undefined, {}],
  ])('of another process gets the flags of this one (%s, %j)', (configFile, onLine) => {
    rememberInvocation(called({ configFile }, onLine));
    const text = `${ownCommand('status --all')} ${ownCommand('sync')}`;
    const flags = ownFlags();
    rememberInvocation(called({}, { directory: '/m' }));
    // Without flags, the settings file of the machine has everything.
    const mine = configFile === undefined ? '' : ' --directory /m';
    expect(withOwnFlags(text, flags)).toBe(`workbook-mirror status --all${mine} workbook-mirror sync${mine}`);
  });

  it('uses npx if npm started the program', () => {
    const npx = (script: string): string =>
      called({}, {}, { npm_command: 'exec', npm_lifecycle_script: script }).program;
    expect(npx('workbook-mirror')).toBe('npx workbook-mirror');
    expect(npx('"workbook-mirror" status')).toBe('npx workbook-mirror');
    expect(npx("'workbook-mirror' status")).toBe('npx workbook-mirror');
    expect(npx('vitest run workbook-mirror')).toBe('workbook-mirror');
  });
});
