import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { asRoot, shellBlocks } from '../support/manual-commands.ts';
import { bootMachine, type Machine, whyNoMachine } from './machine.ts';

const UNIT = 'workbook-mirror-restore-test.service';
const DIRECTORY = '/var/lib/workbook-mirror';
const [WHERE = '', INSTALL = '', TELL = ''] = shellBlocks('backups', 'Restore test').map(asRoot);
/** The script of the chapter; the steps after copying the units are left to the tests. */
const [PLACE = ''] = INSTALL.split('systemctl start');
const [RESTIC = ''] = /^workbook-mirror lease .*\n *restic .*$/m.exec(
  shellBlocks('backups', 'Backups')[0] ?? '',
) ?? [''];

/** Records each request and its sender. */
const ALARM = `require('node:http').createServer((asked, answer) => {
  console.log('asked for ' + asked.url);
  answer.end();
}).listen(9300, '127.0.0.1');`;

const missing =
  whyNoMachine() ??
  ['restic', 'curl'].find((program) => spawnSync(program, ['--version']).error !== undefined);

describe.skipIf(missing !== undefined)(`the restore test (${missing ?? 'with restic'})`, () => {
  let machine: Machine;

  beforeAll(async () => {
    machine = await bootMachine();
    const [, user = ''] = shellBlocks('systemd', 'Without the Debian package').map(asRoot);
    for (const lines of [user, WHERE]) machine.shell(lines);
    await machine.write('/root/restic-password', 'a password of the tests');
    machine.shell(PLACE);
    machine.shell(TELL.replace('https://alarm.example.com', 'http://127.0.0.1:9300'));
    await machine.write(
      '/etc/systemd/system/mail-to-root@.service',
      '[Service]\nType=oneshot\nExecStart=/bin/echo "told of %i"\n',
    );
    machine.demand('systemd-run', '--unit=alarm', 'node', '-e', ALARM);
    await makeMirror();
    restic('init');
  });

  afterAll(() => machine.close());

  const makeMirror = async (): Promise<void> => {
    await machine.serve('embedded', { key: 'key', token: 't' });
    const settings = 'service:\n  baseUrl: http://127.0.0.1:9400/api\n  apiKey: key\n  apiToken: t\n';
    await machine.write('/etc/workbook-mirror/config.yaml', `${settings}directory: ${DIRECTORY}\n`);
    machine.shell(`install --directory --owner=workbook-mirror --group=workbook-mirror --mode=750 ${DIRECTORY}
      runuser -u workbook-mirror -- workbook-mirror sync`);
  };
  const restic = (command: string): string =>
    machine.shell(`export RESTIC_PASSWORD_FILE=/root/restic-password
      ${command.startsWith('workbook-mirror') ? command : `restic -r /srv/backup/restic ${command}`}`);
  /** Runs the test. @returns its result, and its output line by line */
  const runTest = (): string => {
    const since = machine.demand('date', '+%s.%N').trim();
    machine.run('systemctl', 'reset-failed', UNIT);
    machine.run('systemctl', 'start', UNIT);
    const said = machine.journal(UNIT, `--since=@${since}`);
    // The restored files are removed in any case.
    expect(machine.demand('ls', '/var/cache/workbook-mirror-restore-test')).toBe('');
    return `${machine.property(UNIT, 'Result')}\n${said}`;
  };
  const alarms = (): string => machine.journal('alarm');
  const told = (): string => machine.journal(`mail-to-root@${UNIT}.service`);

  it('has no complaints, and is well confined', () => {
    for (const name of [UNIT, UNIT.replace('.service', '.timer')])
      machine.verifyUnit(`/etc/systemd/system/${name}`);
    const path = join(import.meta.dirname, '../../systemd', UNIT);
    const args = ['security', '--offline=true', '--threshold=20', '--no-pager', path];
    const { status, stdout } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
    expect(status, stdout).toBe(0);
  });

  it('fails without a backup, with a notification', async () => {
    expect(runTest()).toMatch(/^exit-code\n[^]*no backup of/);
    await machine.until('the word', () => told().includes(`told of ${UNIT}`));
    expect(alarms()).not.toContain('asked for');
  });

  it('passes a backup that was taken as the manual says, and asks for its address', async () => {
    restic(RESTIC);
    const files = machine.demand('find', '/srv/backup/restic', '-printf', '%p %T@\n');
    expect(runTest()).toMatch(/^success\n[^]*all as published/);
    await machine.until('the request', () => alarms().includes('asked for /restore-test'));
    expect(machine.demand('find', '/srv/backup/restic', '-printf', '%p %T@\n')).toBe(files);
  });

  it('is started by its timer', async () => {
    await machine.write(
      '/etc/systemd/system/workbook-mirror-restore-test.timer.d/test.conf',
      '[Timer]\nOnCalendar=\nOnCalendar=*:*:0/5\nRandomizedDelaySec=0\nAccuracySec=100ms\n',
    );
    machine.demand('systemctl', 'daemon-reload');
    const before = alarms().length;
    machine.demand('systemctl', 'enable', '--now', 'workbook-mirror-restore-test.timer');
    await machine.until('a test', () => alarms().length > before);
    machine.demand('systemctl', 'disable', '--now', 'workbook-mirror-restore-test.timer');
    await machine.until('its end', () => machine.property(UNIT, 'ActiveState') === 'inactive');
  });

  it('uses the configured number of targets', async () => {
    const where = machine.demand('cat', '/etc/workbook-mirror/restore-test.env');
    await machine.write('/etc/workbook-mirror/restore-test.env', `${where}VERIFY_OPTIONS=--expect 6\n`);
    expect(runTest()).toMatch(/^success\n/);
    await machine.write('/etc/workbook-mirror/restore-test.env', `${where}VERIFY_OPTIONS=--expect 7\n`);
    expect(runTest()).toMatch(/^exit-code\n/);
    await machine.write('/etc/workbook-mirror/restore-test.env', where);
  });

  it('fails when a file of the backup has other bytes, and when a target of it is not there', () => {
    // Choose a file that no other target shares by a hard link: `cp` would not restore both.
    const [file = ''] = machine
      .demand('find', `${DIRECTORY}/mirror`, '-name', '*.xlsx', '-links', '1')
      .split('\n');
    machine.demand('cp', '-a', file, '/var/lib/kept');
    machine.shell(`printf x | dd of='${file}' conv=notrunc status=none`);
    machine.demand('touch', '-r', '/var/lib/kept', file);
    restic(RESTIC.replace('--ignore-ctime', '--force'));
    expect(runTest()).toMatch(/^exit-code\n/);
    machine.demand('cp', '-a', '/var/lib/kept', file);
    restic(RESTIC.replace('--ignore-ctime', `--force --exclude ${DIRECTORY}/mirror/Accounting/main`));
    expect(runTest()).toMatch(/^exit-code\n[^]*Accounting\/main/);
    restic(RESTIC.replace('--ignore-ctime', '--force'));
    expect(runTest()).toMatch(/^success\n/);
  });

  it('fails when the last backup is old', () => {
    for (const id of restic('list snapshots').trim().split('\n')) restic(`forget --quiet --prune ${id}`);
    restic(`backup --quiet --exclude-caches --time '2026-01-01 00:00:00' ${DIRECTORY}`);
    expect(runTest()).toMatch(/^exit-code\n[^]*older than 2 days/);
  });

  it('fails when the backup is damaged, although restic has a cache of it', () => {
    restic(`backup --quiet --exclude-caches ${DIRECTORY}`);
    expect(runTest()).toMatch(/^success\n/);
    const packs = machine.demand('find', '/srv/backup/restic/data', '-type', 'f', '-size', '+1k').trim();
    for (const pack of packs.split('\n'))
      machine.shell(`chmod u+w ${pack}; printf xxxx | dd of=${pack} bs=1 seek=64 conv=notrunc status=none`);
    expect(runTest()).toMatch(/^exit-code\n/);
  });
});
