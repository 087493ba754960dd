import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { asRoot, shellBlocks } from '../support/manual-commands.ts';
import { bootMachine, type Machine, STALLING_PROXY, whyNoMachine } from './machine.ts';

const SYSTEMD = join(import.meta.dirname, '../../systemd');
const UNIT = 'workbook-mirror';
const KEY = 'the-api-key-of-the-test';
const TOKEN = 'the-api-token-of-the-test';
const MIRROR = '/var/lib/workbook-mirror/mirror';

const MANUAL = readFileSync(join(import.meta.dirname, '../../src/manual/systemd.md'), 'utf8');
const [, , , CHECK = ''] = shellBlocks('systemd', 'As a systemd service').map(asRoot);
const [, INSTALL = ''] = shellBlocks('systemd', 'Without the Debian package').map(asRoot);
/** The manual's commands that let a group take leases. */
const [, LEASE = ''] = /`sudo sh -c '([^`']*publish\.lock)'`/.exec(MANUAL) ?? [];

const SETTINGS = `service:
  baseUrl: http://127.0.0.1:9400/api
directory: /var/lib/workbook-mirror
`;

const missing = whyNoMachine();

describe.skipIf(missing !== undefined)(`under a booted systemd (${missing ?? 'as root'})`, () => {
  let machine: Machine;

  beforeAll(async () => {
    machine = await bootMachine();
    machine.shell(INSTALL);
    await machine.write('/etc/workbook-mirror/config.yaml', SETTINGS);
    await machine.write(`/etc/credstore/workbook-mirror.service-api-key`, KEY);
    await machine.write(`/etc/credstore/workbook-mirror.service-api-token`, TOKEN);
    machine.shell(`chmod -R go= /etc/credstore; useradd --groups ${UNIT} reader; useradd stranger`);
    await machine.serve('embedded', { key: KEY, token: TOKEN });
    machine.demand('systemctl', 'start', UNIT);
  });

  afterAll(() => machine.close());

  const journal = (unit = UNIT, ...options: readonly string[]): string => machine.journal(unit, ...options);

  /** The processes and the state of the unit. */
  const state = (): Record<string, string> => {
    const names = 'ActiveState,SubState,MainPID,NRestarts,Result,StatusText,ExecMainStatus';
    const lines = machine.demand('systemctl', 'show', `--property=${names}`, UNIT).trim().split('\n');
    return Object.fromEntries(lines.map((line) => line.split(/=(.*)/s).slice(0, 2) as [string, string]));
  };

  /** Replaces the drop-in of the tests, and restarts the unit. */
  const restartWith = async (...lines: readonly string[]): Promise<void> => {
    await machine.write(
      `/etc/systemd/system/${UNIT}.service.d/test.conf`,
      ['[Service]', ...lines, ''].join('\n'),
    );
    machine.demand('systemctl', 'daemon-reload');
    machine.run('systemctl', 'reset-failed', UNIT);
    machine.demand('systemctl', 'restart', UNIT);
  };

  const restarted = (): Promise<void> =>
    machine.until('the restart', () => state()['NRestarts'] === '1' && state()['ActiveState'] === 'active');

  const mirrored = (): string => machine.run('find', MIRROR, '-type', 'f', '-name', '*.xlsx').stdout;

  it.each(['workbook-mirror.service', 'workbook-mirror-sync.service', 'workbook-mirror-sync.timer'])(
    'finds nothing to complain of in %s',
    (name) => machine.verifyUnit(`/etc/systemd/system/${name}`),
  );

  it.each(['workbook-mirror.service', 'workbook-mirror-sync.service'])('finds %s well confined', (name) => {
    const args = ['security', '--offline=true', '--threshold=20', '--no-pager', join(SYSTEMD, name)];
    const { status, stdout } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
    expect(status, stdout).toBe(0);
  });

  it('is started when the daemon reports ready, with its status line', async () => {
    expect(state()).toMatchObject({ ActiveState: 'active', SubState: 'running', NRestarts: '0' });
    await machine.until('the mirror', () => mirrored() !== '');
    expect(state()['StatusText']).not.toBe('');
  });

  it('passes the credentials to the daemon only', async () => {
    await machine.until('a whole pass', () => journal().includes('pass.finished'));
    const pid = state()['MainPID'] ?? '';
    const environment = machine.demand('cat', `/proc/${pid}/environ`, `/proc/${pid}/cmdline`);
    expect(environment).toContain('CREDENTIALS_DIRECTORY=');
    for (const secret of [KEY, TOKEN]) {
      expect(environment).not.toContain(secret);
      expect(journal()).not.toContain(secret);
    }
    const file = `/run/credentials/${UNIT}.service/service-api-key`;
    expect(machine.run('runuser', '-u', 'reader', '--', 'cat', file).exitCode).not.toBe(0);
  });

  it('lets only the group read the mirror', () => {
    const [file = ''] = mirrored().split('\n');
    expect(machine.run('runuser', '-u', 'reader', '--', 'cat', file).exitCode).toBe(0);
    expect(machine.run('runuser', '-u', 'reader', '--', 'touch', file).exitCode).not.toBe(0);
    expect(machine.run('runuser', '-u', 'stranger', '--', 'cat', file).exitCode).not.toBe(0);
  });

  it('confines the daemon', () => {
    const pid = state()['MainPID'] ?? '';
    const status = machine.demand('cat', `/proc/${pid}/status`);
    expect(status).toMatch(/^CapBnd:\s0+$/m);
    expect(status).toMatch(/^CapEff:\s0+$/m);
    expect(status).toMatch(/^NoNewPrivs:\s1$/m);
    expect(status).toMatch(/^Seccomp:\s2$/m);
    const touch = (path: string): Outcomes => {
      const { exitCode, stderr } = machine.run('nsenter', '-t', pid, '-m', '--', 'touch', path);
      return exitCode === 0 ? 'written' : /Read-only/.test(stderr) ? 'read-only' : 'refused';
    };
    type Outcomes = 'written' | 'read-only' | 'refused';
    for (const folder of ['/etc', '/usr/local/lib', '/var/lib', '/srv'])
      expect([folder, touch(`${folder}/by-the-test`)]).toEqual([folder, 'read-only']);
    expect(touch('/root/by-the-test')).not.toBe('written');
    expect(touch('/var/lib/workbook-mirror/.workbook-mirror/by-the-test')).toBe('written');
    machine.demand('rm', '/var/lib/workbook-mirror/.workbook-mirror/by-the-test');
    expect(machine.run('test', '-e', '/tmp/by-the-test').exitCode).toBe(1);
  });

  it('does the tasks of commands of its user, but not of other users', () => {
    const poll = (user: string): ReturnType<Machine['run']> =>
      machine.run('runuser', '-u', user, '--', 'workbook-mirror', 'poll', '--wait');
    const { exitCode, stderr } = poll(UNIT);
    expect(exitCode, stderr).toBe(0);
    expect(journal()).toContain('"trigger":"poll"');
    expect(poll('reader').stderr).toContain('This user may not ask the daemon');
    expect(poll('stranger').stderr).toContain('is not allowed to');
  });

  it('has its settings checked by the line of the manual', () => {
    expect(machine.shell(CHECK)).toMatch(/^ok +settings +good /m);
  });

  it('lets a user of the group take a lease once the group may write there', () => {
    const lease = 'runuser -u reader -- workbook-mirror lease acquire --for=1m -- true'.split(' ');
    expect(machine.run(...lease).exitCode).not.toBe(0);
    machine.shell(LEASE);
    const { exitCode, stderr } = machine.run(...lease);
    expect(exitCode, stderr).toBe(0);
  });

  it('sets the priority of its lines in the journal', () => {
    const informed = journal(UNIT, '--priority=info..info');
    expect(informed).toContain('daemon.started');
    expect(informed).not.toMatch(/^<\d>/m);
  });

  it('makes a pass on reload, and is still the same process', async () => {
    const before = state();
    machine.demand('systemctl', 'reload', UNIT);
    await machine.until('the pass', () => journal().includes('"trigger":"signal"'));
    await machine.until('the end of the reload', () => state()['ActiveState'] === 'active');
    expect(state()['MainPID']).toBe(before['MainPID']);
  });

  it('is started again after it was killed', async () => {
    await restartWith('RestartSec=100ms');
    const { MainPID: before = '' } = state();
    machine.demand('kill', '-KILL', before);
    await restarted();
    expect(state()['MainPID']).not.toBe(before);
  });

  it('is killed and started again when it hangs', async () => {
    await restartWith('RestartSec=100ms', 'WatchdogSec=2s', 'TimeoutAbortSec=2s');
    const { MainPID: before = '' } = state();
    machine.demand('kill', '-STOP', before);
    await restarted();
    expect(journal(UNIT, '--boot')).toContain('Watchdog timeout');
    expect(state()['MainPID']).not.toBe(before);
  });

  it('runs for longer than the watchdog waits, when all is well', async () => {
    const { MainPID: before = '', NRestarts: restarts } = state();
    const end = Date.now() + 5000;
    await machine.until('five seconds', () => Date.now() > end);
    expect(state()).toMatchObject({ MainPID: before, NRestarts: restarts, ActiveState: 'active' });
  });

  it('is not restarted with invalid settings', async () => {
    await machine.write('/etc/workbook-mirror/config.yaml', `${SETTINGS}nonsense: 1\n`);
    await expect(restartWith('RestartSec=100ms')).rejects.toThrow();
    expect(state()).toMatchObject({ ActiveState: 'failed', NRestarts: '0', ExecMainStatus: '2' });
    expect(journal(UNIT, '--priority=err..err')).toContain('nonsense');
    expect(machine.run('sh', '-c', CHECK).exitCode).toBe(2);
    await machine.write('/etc/workbook-mirror/config.yaml', SETTINGS);
  });

  it('works under a dynamic user, by a drop-in', async () => {
    machine.run('systemctl', 'stop', UNIT);
    machine.demand('mv', '/var/lib/workbook-mirror', '/var/lib/kept');
    const began = machine.demand('date', '+%s').trim();
    const dropIn = await readFile(join(SYSTEMD, 'workbook-mirror-dynamic-user.conf'), 'utf8');
    await restartWith(...dropIn.split('\n').filter((line) => /^\w+=/.test(line)));
    await machine.until('a whole pass', () => journal(UNIT, `--since=@${began}`).includes('pass.finished'));
    expect(machine.demand('readlink', '/var/lib/workbook-mirror').trim()).toBe('private/workbook-mirror');
    machine.shell(`systemctl stop ${UNIT}; rm -r /var/lib/workbook-mirror /var/lib/private/workbook-mirror
      mv /var/lib/kept /var/lib/workbook-mirror`);
  });

  it('ends cleanly during a pull', async () => {
    await machine.write('/var/lib/proxy.mjs', STALLING_PROXY);
    machine.demand('touch', '/run/stalling');
    machine.demand('systemd-run', '--unit=proxy', '/usr/local/bin/node', '/var/lib/proxy.mjs');
    machine.run('systemctl', 'stop', UNIT);
    machine.demand('rm', '-r', MIRROR, '/var/lib/workbook-mirror/manifests');
    await machine.write('/etc/workbook-mirror/config.yaml', SETTINGS.replace('9400', '9401'));
    await restartWith();
    await machine.until('a pull', () => journal('proxy').includes('stalling'));
    machine.demand('systemctl', 'stop', UNIT);
    expect(state()).toMatchObject({ ActiveState: 'inactive', Result: 'success', ExecMainStatus: '0' });
    expect(journal()).toContain('daemon.stopped');
    await machine.write('/etc/workbook-mirror/config.yaml', SETTINGS);
  });

  it('mirrors by the timer instead of the daemon', async () => {
    await machine.write(
      '/etc/systemd/system/workbook-mirror-sync.timer.d/test.conf',
      '[Timer]\nOnCalendar=\nOnCalendar=*:*:0/5\nRandomizedDelaySec=0\nAccuracySec=100ms\n',
    );
    machine.demand('systemctl', 'daemon-reload');
    machine.demand('systemctl', 'start', 'workbook-mirror-sync.timer');
    const sync = 'workbook-mirror-sync.service';
    // On a busy machine the next pass begins as soon as one is over.
    await machine.until('a pass', () => mirrored() !== '' && journal(sync).includes('Finished'));
    machine.demand('systemctl', 'stop', 'workbook-mirror-sync.timer');
    await machine.until('its end', () => machine.property(sync, 'ActiveState') !== 'activating');
    expect(machine.property(sync, 'Result')).toBe('success');
  });
});
