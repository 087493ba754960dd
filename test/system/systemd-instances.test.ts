import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { asRoot, shellBlocks } from '../support/manual-commands.ts';
import { bootMachine, type Machine, whyNoMachine } from './machine.ts';

const [, INSTALL = '', TEMPLATES = ''] = shellBlocks('systemd', 'Without the Debian package').map(asRoot);
const SECTION = shellBlocks('systemd', 'Several services on one machine').map(asRoot);
const [SECRETS = '', SETTINGS = '', CHECK = ''] = SECTION;
const [ENABLE = ''] = /^systemctl enable .*$/m.exec(SECTION[3] ?? '') ?? [];

/** The service and keys of each instance. */
const PORTS: ReadonlyMap<string, number> = new Map([
  ['eu', 9400],
  ['us', 9401],
]);

const missing = whyNoMachine();

describe.skipIf(missing !== undefined)(`several instances of a unit (${missing ?? 'as root'})`, () => {
  let machine: Machine;

  beforeAll(async () => {
    machine = await bootMachine();
    // A person would type the secrets; here, their files are written below.
    for (const lines of [INSTALL, TEMPLATES, SECRETS, SETTINGS]) machine.shell(lines);
    for (const [name, port] of PORTS) {
      for (const kind of ['key', 'token']) await machine.write(secretOf(name, kind), `${kind}-of-${name}`);
      await machine.serve(`embedded-${name}`, { key: `key-of-${name}`, token: `token-of-${name}` }, port);
      const address = `s#https://${name}.workbooks.example.com#http://127.0.0.1:${port}#`;
      machine.shell(`sed -i '${address}' ${settingsOf(name)}`);
    }
    machine.demand('useradd', '--groups', 'workbook-mirror', 'reader');
    machine.demand('sh', '-c', CHECK);
    machine.demand('sh', '-c', ENABLE);
    for (const name of PORTS.keys()) await mirrored(name);
  });

  afterAll(() => machine.close());

  const settingsOf = (name: string): string => `/etc/workbook-mirror/${name}.yaml`;
  const secretOf = (name: string, kind = 'key'): string =>
    `/etc/credstore/workbook-mirror@${name}.service-api-${kind}`;
  const unitOf = (name: string): string => `workbook-mirror@${name}.service`;
  const directoryOf = (name: string): string => `/var/lib/workbook-mirror-${name}`;
  const isMirrored = (name: string): boolean =>
    machine.run('workbook-mirror', 'status', '--config', settingsOf(name)).exitCode === 0;
  const mirrored = (name: string) => machine.until(`the mirror of ${name}`, () => isMirrored(name));
  /** Runs a command in the mount namespace of an instance's daemon. */
  const within = (name: string, ...argv: readonly string[]) =>
    machine.run('nsenter', '-t', machine.property(unitOf(name), 'MainPID'), '-m', '--', ...argv);
  const workbooksOf = (name: string): string[] =>
    machine
      .demand('find', `${directoryOf(name)}/mirror`, '-name', '*.xlsx')
      .trim()
      .split('\n');

  it.each(['workbook-mirror@eu.service', 'workbook-mirror-sync@eu.service', 'workbook-mirror-sync@eu.timer'])(
    'have nothing to complain of in %s',
    (name) => machine.verifyUnit(name),
  );

  it('work at the same time, each with its own data', () => {
    for (const name of PORTS.keys()) {
      expect(machine.property(unitOf(name), 'SubState')).toBe('running');
      expect(workbooksOf(name).length).toBeGreaterThan(3);
      const page = machine.demand('grep', 'listen:', settingsOf(name)).trim().split(' ')[1] ?? '';
      const fetched = `fetch('http://${page}/readyz').then(({ status }) => console.log(status))`;
      expect(machine.demand('node', '-e', fetched).trim()).toBe('200');
    }
    expect(machine.run('test', '-e', '/var/lib/workbook-mirror').exitCode).toBe(1);
  });

  it('see no secrets and write no directory of each other', () => {
    const found = within('eu', 'ls', '/run/credentials').stdout.trim();
    expect(found).toBe('workbook-mirror@eu.service');
    const key = within('eu', 'cat', `/run/credentials/${unitOf('eu')}/service-api-key`).stdout;
    expect(key).toBe('key-of-eu');
    expect(within('eu', 'touch', `${directoryOf('eu')}/.workbook-mirror/it`).exitCode).toBe(0);
    machine.demand('rm', `${directoryOf('eu')}/.workbook-mirror/it`);
    expect(within('eu', 'touch', `${directoryOf('us')}/.workbook-mirror/it`).stderr).toContain('Read-only');
  });

  it('are read by the group, or one by its own group', async () => {
    const read = (path: string | undefined) =>
      machine.run('runuser', '-u', 'reader', '--', 'cat', path ?? '').exitCode;
    for (const name of PORTS.keys()) expect(read(workbooksOf(name)[0])).toBe(0);
    machine.demand('groupadd', '--system', 'mirror-eu');
    await machine.write(
      '/etc/systemd/system/workbook-mirror@eu.service.d/group.conf',
      '[Service]\nGroup=mirror-eu\n',
    );
    machine.shell(`systemctl daemon-reload; systemctl stop ${unitOf('eu')}
      rm -r ${directoryOf('eu')}; systemctl start ${unitOf('eu')}`);
    await machine.until('the mirror', () => isMirrored('eu'));
    expect(read(workbooksOf('eu')[0])).not.toBe(0);
    expect(read(workbooksOf('us')[0])).toBe(0);
    machine.demand('usermod', '--append', '--groups', 'mirror-eu', 'reader');
    expect(read(workbooksOf('eu')[0])).toBe(0);
  });

  it('end without harm to each other, and report wrong settings of one', async () => {
    const good = machine.demand('cat', settingsOf('us'));
    const before = machine.property(unitOf('eu'), 'MainPID');
    const told = () => machine.demand('journalctl', '--unit', unitOf('us'), '--lines=12', '--output=cat');
    await machine.write(settingsOf('us'), good.replace('9482', '9481'));
    machine.demand('systemctl', 'restart', unitOf('us'));
    await machine.until('the complaint', () => told().includes('http.unusable'));
    await machine.write(settingsOf('us'), good.replace('mirror-us', 'mirror-eu'));
    expect(machine.run('systemctl', 'restart', unitOf('us')).exitCode).not.toBe(0);
    await machine.until('the directory', () => told().includes(directoryOf('eu')));
    expect(told()).toContain('ReadWritePaths=');
    await machine.write(settingsOf('us'), good);
    machine.demand('systemctl', 'restart', unitOf('us'));
    expect(machine.property(unitOf('eu'), 'MainPID')).toBe(before);
    expect(isMirrored('eu')).toBe(true);
  });

  it('may have any name, which is escaped', async () => {
    const unit = machine.demand('systemd-escape', '--template=workbook-mirror@.service', 'Nord & Süd').trim();
    const [, name = ''] = /@(.*)\.service$/.exec(unit) ?? [];
    const settings = machine.demand('cat', settingsOf('us'));
    const moved = settings.replace(directoryOf('us'), directoryOf(name)).replace('9482', '9483');
    await machine.write(settingsOf(name), moved);
    machine.demand('cp', '-a', secretOf('us'), secretOf(name));
    machine.demand('systemctl', 'start', unit);
    await machine.until('its mirror', () => isMirrored(name));
    machine.demand('systemctl', 'stop', unit);
  });

  it('can be made from the single daemon, with all its data', async () => {
    const [key, single] = ['/etc/credstore/workbook-mirror.service-api-key', '/var/lib/workbook-mirror'];
    machine.demand('cp', '-a', secretOf('us'), key);
    const settings = machine.demand('cat', settingsOf('us')).replace('9482', '9484');
    await machine.write(settingsOf('config'), settings.replace(directoryOf('us'), single));
    machine.demand('systemctl', 'enable', '--now', 'workbook-mirror');
    await mirrored('config');
    machine.shell(`systemctl disable --now workbook-mirror; mv ${single} ${directoryOf('one')}
      mv ${settingsOf('config')} ${settingsOf('one')}; mv ${key} ${secretOf('one')}
      sed -i 's#${single}#${directoryOf('one')}#' ${settingsOf('one')}`);
    machine.demand('systemctl', 'enable', '--now', unitOf('one'));
    await mirrored('one');
    const journal = (): string => machine.demand('journalctl', '--unit', unitOf('one'), '--output=cat');
    await machine.until('a pass', () => journal().includes('pass.finished'));
    expect(journal()).not.toContain('target.published');
  });
});
