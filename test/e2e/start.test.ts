import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { cleanEnvironment, run } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** Prints, when the program ends, the names of its loaded packages on standard error. */
const SPY = `
import { registerHooks } from 'node:module';
const packages = new Set();
registerHooks({
  load: (url, context, next) => {
    const [, name] = /node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(url) ?? [];
    if (name !== undefined) packages.add(name);
    return next(url, context);
  },
});
process.on('exit', () => process.stderr.write('loaded: ' + [...packages].sort().join(' ') + '.\\n'));
`;

/** The built program has its packages inside, so this starts the sources. @returns their standard error */
function loadedBy(args: readonly string[], settings: Readonly<Record<string, string>> = {}): string {
  const spy = `--import=data:text/javascript,${encodeURIComponent(SPY)}`;
  const main = join(import.meta.dirname, '../../src/main.ts');
  return spawnSync(process.execPath, [spy, main, ...args], {
    env: cleanEnvironment(settings),
    encoding: 'utf8',
  }).stderr;
}

describe('the packages loaded to answer', () => {
  it.each([
    [['--version'], ''],
    [['-V'], ''],
    [['history', '--help'], 'commander leven'],
    [['nonsense'], 'commander leven'],
  ])('%j are only %j', (args, packages) => {
    expect(loadedBy(args)).toContain(`loaded: ${packages}.\n`);
  });

  it('a report loads no code to send requests, unpack or call the system natively', async () => {
    const stderr = loadedBy(['status', '--directory', await temporaryFolder()]);
    expect(stderr).toMatch(/^loaded: .*\bzod\./m);
    for (const name of ['undici', 'yauzl', 'koffi', 'prom-client', 'pino', 'chokidar'])
      expect(stderr).not.toMatch(new RegExp(`^loaded: .*\\b${name}\\b`, 'm'));
  });

  it.each([
    ['sqlite', []],
    ['redis://127.0.0.1:1', ['redis']],
    ['postgres://127.0.0.1:1/db', ['pg']],
  ])('a pass with %s as its state loads %j of the clients for other programs', async (state, expected) => {
    const stderr = loadedBy(['sync', '--directory', await temporaryFolder()], {
      WORKBOOK_MIRROR_SERVICE_BASE_URL: 'http://127.0.0.1:1/api',
      WORKBOOK_MIRROR_SERVICE_API_KEY: 'key',
      WORKBOOK_MIRROR_STATE: state,
    });
    const [loaded = ''] = /^loaded: .*\bundici\b.*/m.exec(stderr) ?? [];
    expect(loaded).not.toBe('');
    expect(['redis', 'pg'].filter((name) => new RegExp(`\\b${name}\\b`).test(loaded))).toEqual(expected);
  });

  it('the version is the same alone and with other options', async () => {
    const alone = await run(['--version']);
    expect(alone).toMatchObject({ exitCode: 0, stderr: '' });
    expect(alone.stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect(await run(['status', '--version'])).toEqual(alone);
    expect(await run(['-V'])).toEqual(alone);
  });
});
