import { existsSync } from 'node:fs';
import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { API_KEY, API_TOKEN } from '../support/fake-service.ts';
import { startFake } from '../support/started-fake.ts';
import { runHere } from '../support/in-process.ts';
import { canMount, startService } from '../support/mounts.ts';
import { hasProgram, run } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { onTerminal } from '../support/terminal.ts';

async function prepare() {
  const service = await startFake();
  const repository = service.addRepository('Accounting', { 'a.xlsx': 'a', 'b.xlsx': 'b' });
  service.write(repository, 'other', 'a.xlsx', 'a');
  const folder = await temporaryFolder();
  const config = join(folder, 'settings/config.yaml');
  return { service, folder, config, keyFile: join(folder, 'settings/config.api-key') };
}

const ADDRESS = 'browser shows it: ';
const [KEY, TOKEN, DIRECTORY] = ['API key (Access > API Key), not shown: ', 'or Enter for none: ', ']: '];
const SURE = '[y/N] ';

describe.runIf(hasProgram('script'))('init on a terminal', () => {
  it('checks each answer, asks again after a wrong one, and writes valid settings', async () => {
    const { service, folder, config, keyFile } = await prepare();
    await mkdir(join(folder, 'other'));
    await writeFile(join(folder, 'other/report.txt'), '');
    const answers = [
      [ADDRESS, 'two words\r'],
      [ADDRESS, `${service.origin}/Accounting/main?tab=1\r`],
      [KEY, 'wrong-key-77\r'],
      [KEY, `X-API-KEY: ${API_KEY}\r`],
      [KEY, `${API_KEY}x\u007f\r`],
      [TOKEN, `${API_TOKEN}\r`],
      [DIRECTORY, `${folder}/other\r`],
      [DIRECTORY, `${folder}/other/report.txt\r`],
      [DIRECTORY, `${folder}/mirrored\r`],
      [SURE, 'y\r'],
    ] as const;
    const { code, text } = await onTerminal(`init --config ${config}`, answers, {});
    expect(code, text).toBe(0);
    for (const secret of [API_KEY, API_TOKEN, 'wrong-key-77']) expect(text).not.toContain(secret);
    expect(text).toContain(`The API is at ${service.baseUrl}`);
    expect(text).toContain('refuses the personal API key');
    // Typed text is hidden, and so is the end of its line.
    expect(text).toMatch(/not shown: \r?\n/);
    expect(text).toContain('Enter another key');
    expect(text).not.toContain('is read from');
    expect(text).toContain('holds a space');
    expect(text).toContain('The current API lists 1 repository.');
    expect(text).toContain('v1 lists 3 workbooks.');
    expect(text).toContain('other holds no mirror, but "report.txt"');
    expect(text).toContain(`workbook-mirror run --config ${config}`);
    expect(await readFile(keyFile, 'utf8')).toBe(`${API_KEY}\n`);
    expect((await stat(keyFile)).mode & 0o777).toBe(0o600);
    expect((await stat(config)).mode & 0o777).toBe(0o644);
    expect((await run(['config', 'check', '--config', config])).stderr).toBe('');
    expect((await run(['sync', '--config', config])).exitCode).toBe(0);
    expect(await readFile(join(folder, 'mirrored/mirror/Accounting/main/a.xlsx'), 'utf8')).toBe('a');
  });

  it('replaces no file without a yes', async () => {
    const { service, folder, config, keyFile } = await prepare();
    await mkdir(join(folder, 'settings'));
    await writeFile(keyFile, 'before');
    const flags = `init --config ${config} --service-base-url ${service.baseUrl} --directory ${folder}/m`;
    const answers = [
      [KEY, `${API_KEY}\r`],
      [TOKEN, '\r'],
      ['replace what is there? [y/N] ', 'n\r'],
    ] as const;
    expect((await onTerminal(flags, answers, {})).code).toBe(1);
    expect([await readFile(keyFile, 'utf8'), existsSync(config)]).toEqual(['before', false]);
  });

  it.each([
    ['Ctrl-C', `${API_KEY}\u0003`, 130],
    ['the end of the input', '\u0004', 1],
  ])('writes nothing after %s, and restores the echo of the terminal', async (_name, keys, code) => {
    const { service, folder, config } = await prepare();
    const flags = `init --config ${config} --service-base-url ${service.baseUrl}`;
    const ended = await onTerminal(flags, [[KEY, keys]], {}, 'stty -a');
    expect(ended.text).toMatch(/[^-]icanon[^]*[^-]echo\b/);
    expect(ended.text).not.toContain(API_KEY);
    expect(ended.code).toBe(code);
    expect(existsSync(join(folder, 'settings'))).toBe(false);
  });
});

describe('init --yes', () => {
  it('does the same by flags, keeps the file of the key in place, and replaces nothing', async () => {
    const { service, folder, config } = await prepare();
    const keyFile = join(folder, 'my-key');
    await writeFile(keyFile, API_KEY);
    const flags = ['--yes', '--config', config, '--directory', join(folder, 'm')];
    flags.push('--service-api-key-file', keyFile);
    const missing = await runHere(['init', ...flags]);
    expect(missing).toMatchObject({ exitCode: 2, stdout: '' });
    expect(missing.stderr).toContain('--service-base-url');
    flags.push('--service-base-url', service.origin);
    const made = await runHere(['init', ...flags]);
    expect(made.exitCode, made.stderr).toBe(0);
    expect(await readFile(config, 'utf8')).toContain(`apiKeyFile: ${keyFile} #`);
    expect(existsSync(join(folder, 'settings/config.api-key'))).toBe(false);
    const again = await runHere(['init', ...flags]);
    expect(again).toMatchObject({ exitCode: 2, stdout: '' });
    expect(again.stderr).toContain('config.yaml is there already');
    expect(await runHere(['init'])).toMatchObject({ exitCode: 2, stdout: '' });
  });

  it('finds an installation that only knows /repositories, as config check --online does', async () => {
    const { service, folder, config } = await prepare();
    service.knobs.repositoriesPath = '/repositories';
    await writeFile(join(folder, 'key'), API_KEY, { mode: 0o600 });
    await writeFile(join(folder, 'token'), API_TOKEN, { mode: 0o600 });
    const flags = ['--service-base-url', service.origin, '--service-api-key-file', join(folder, 'key')];
    flags.push('--service-api-token-file', join(folder, 'token'));
    const made = await runHere([
      'init',
      '--yes',
      '--config',
      config,
      '--directory',
      join(folder, 'm'),
      ...flags,
    ]);
    expect(made, made.stderr).toMatchObject({ exitCode: 0 });
    expect(made.stderr.match(/\d+ (?:repositor|workbook)/g)).toEqual(['1 repositor', '3 workbook']);
    const checked = await runHere(['config', 'check', '--online', '--config', config]);
    expect(checked, checked.stdout).toMatchObject({ exitCode: 0 });
  });

  it.runIf(canMount)('stores credentials if the unit is installed', async () => {
    const { service, folder, shell } = await startService();
    await writeFile(join(folder, 'key'), `${API_KEY}\n`);
    await chmod(join(folder, 'key'), 0o600);
    const { exitCode, text } = await shell(`
      for each in /etc /var/lib /srv; do mount -t tmpfs none $each || exit; done; mkdir -p /etc/systemd/system; umask 077
      touch /etc/systemd/system/workbook-mirror.service
      $PROGRAM init --yes --service-base-url ${service.origin} --service-api-key-file $D/key || exit
      rm -r /etc/workbook-mirror /etc/credstore; mkdir -p /srv/m/.workbook-mirror
      $PROGRAM init --yes --service-base-url ${service.origin} --service-api-key-file $D/key --directory /srv/m || exit
      stat -c '%n %a' /etc/workbook-mirror/config.yaml /etc/credstore /etc/credstore/*
      cat /etc/workbook-mirror/config.yaml; cmp $D/key /etc/credstore/workbook-mirror.service-api-key`);
    expect(text).toContain('/etc/workbook-mirror/config.yaml 644\n/etc/credstore 700\n');
    expect(text).toContain('/etc/credstore/workbook-mirror.service-api-key 600\n');
    expect(text).not.toContain('apiKeyFile');
    expect(text).not.toContain(API_KEY);
    expect(text).toMatch(/can be made there[^]*Next:\n {2}systemctl enable --now workbook-mirror\n/);
    expect(text).toContain('A mirror is there');
    expect(text).toMatch(/ help systemd # how to let the unit write in \/srv\/m\n {2}systemctl enable/);
    expect(exitCode).toBe(0);
  });
});
