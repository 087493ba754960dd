import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { hasProgram } from '../support/program.ts';
import { bootMachineWith, type Machine, STALLING_PROXY, whyNoMachine } from './machine.ts';

const ROOT = join(import.meta.dirname, '../..');
const UNIT = 'workbook-mirror';
const MIRROR = '/var/lib/workbook-mirror/mirror';
const NEXT = '9.0.0';

const SETTINGS = `service:
  baseUrl: http://127.0.0.1:9401/api
directory: /var/lib/workbook-mirror
schedule: "0 0 1 1 *"
`;

const missing = hasProgram('dpkg-deb') ? undefined : 'a Debian package needs dpkg-deb';

let folder = '';
/** The package of this version. */
let current = '';

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'workbook-mirror-debs-'));
  if (missing === undefined) current = makePackage();
});

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Makes a package with the fastest compression. @returns its path */
function makePackage(...options: readonly string[]): string {
  const args = [join(ROOT, '.ci/deb.ts'), '--to', folder, '--compression', 'gzip', ...options];
  const env = { ...process.env, SOURCE_DATE_EPOCH: process.env['SOURCE_DATE_EPOCH'] ?? '1764115200' };
  return execFileSync(process.execPath, args, { encoding: 'utf8', env }).trim();
}

describe.skipIf(missing !== undefined)(`the Debian package (${missing ?? 'dpkg-deb'})`, () => {
  it('has the same bytes each time it is made', () => {
    const first = readFileSync(current);
    expect(makePackage()).toBe(current);
    expect(readFileSync(current).equals(first)).toBe(true);
  });

  it('holds programs of its architecture', () => {
    const path = makePackage('--arch', 'arm64');
    expect(execFileSync('dpkg-deb', ['--field', path, 'Architecture'], { encoding: 'utf8' }).trim()).toBe(
      'arm64',
    );
    const tree = join(folder, 'arm64');
    execFileSync('dpkg-deb', ['--extract', path, tree]);
    const home = join(tree, 'usr/lib/workbook-mirror');
    const koffi = join(home, 'node_modules/@koromix/koffi-linux-arm64/linux_arm64/koffi.node');
    // The machine of an ELF header (elf(5)): 183 is AArch64.
    for (const program of [join(home, 'bin/node'), koffi])
      expect(readFileSync(program).readUInt16LE(18), program).toBe(183);
  });

  it.skipIf(!hasProgram('lintian'))('has no error that lintian knows', () => {
    const { stdout } = spawnSync('lintian', ['--fail-on', 'none', '--tag-display-limit', '0', current], {
      encoding: 'utf8',
    });
    expect(stdout.split('\n').filter((line) => line.startsWith('E:'))).toEqual([]);
  });
});

const noBoot = missing ?? whyNoMachine();

describe.skipIf(noBoot !== undefined)(`a machine with the Debian package (${noBoot ?? 'as root'})`, () => {
  let machine: Machine;
  let next = '';

  beforeAll(async () => {
    next = makePackage('--version', NEXT);
    machine = await bootMachineWith(async (root) => {
      // At first, the machine has neither the program nor Node.
      for (const name of ['workbook-mirror', 'node'])
        rmSync(join(root, 'usr/local/bin', name), { force: true });
      for (const path of [current, next]) await copyFile(path, join(root, 'opt', basename(path)));
    }, []);
  });

  afterAll(() => machine.close());

  const apt = (...args: readonly string[]): string =>
    machine.shell(`DEBIAN_FRONTEND=noninteractive apt-get --yes --quiet ${args.join(' ')} 2>&1`);
  const install = (path: string): string => apt('install', `/opt/${basename(path)}`);
  const journal = (unit = UNIT): string => machine.journal(unit);
  const exists = (path: string): boolean => machine.run('test', '-e', path).exitCode === 0;
  const workbooks = (): string => machine.run('find', MIRROR, '-name', '*.xlsx').stdout;

  it('has the program, its manual page, completions, units, user and examples', () => {
    expect(install(current)).toContain('Next: sudo workbook-mirror init');
    expect(machine.demand('workbook-mirror', '--version').trim()).toMatch(/^\d+\.\d+\.\d+$/);
    expect(machine.demand('zcat', '/usr/share/man/man1/workbook-mirror.1.gz')).toContain('.SH NAME');
    for (const path of [
      '/usr/share/bash-completion/completions/workbook-mirror',
      '/usr/share/zsh/vendor-completions/_workbook-mirror',
      '/usr/share/fish/vendor_completions.d/workbook-mirror.fish',
      '/etc/workbook-mirror/config.example.yaml',
    ])
      expect(machine.demand('cat', path)).toContain('workbook-mirror');
    expect(machine.property('workbook-mirror@eu', 'ExecStart')).toContain('/etc/workbook-mirror/eu.yaml');
    machine.demand('id', UNIT);
    expect(machine.demand('stat', '--format=%a %U', '/etc/credstore').trim()).toBe('700 root');
    expect(machine.property(UNIT, 'ActiveState')).toBe('inactive');
  });

  it('mirrors once it has settings and secrets', async () => {
    await machine.write('/etc/workbook-mirror/config.yaml', SETTINGS);
    for (const kind of ['key', 'token'])
      await machine.write(`/etc/credstore/workbook-mirror.service-api-${kind}`, `the-${kind}`);
    await machine.write('/usr/local/bin/stalling-proxy.mjs', STALLING_PROXY);
    await machine.serve('embedded', { key: 'the-key', token: 'the-token' });
    const proxy = ['/usr/lib/workbook-mirror/bin/node', '/usr/local/bin/stalling-proxy.mjs'];
    machine.demand('systemd-run', '--unit=proxy', ...proxy);
    machine.demand('systemctl', 'enable', '--now', UNIT);
    await machine.until('the first pass', () => journal().includes('pass.finished'));
    expect(workbooks()).not.toBe('');
  });

  it('continues with its state after an upgrade during a pass', async () => {
    const before = workbooks();
    const pid = machine.property(UNIT, 'MainPID');
    machine.demand('touch', '/run/stalling');
    machine.demand('workbook-mirror', 'repos', 'create', '--name', 'Later');
    machine.shell(UPLOAD);
    machine.demand('workbook-mirror', 'poll');
    await machine.until('a download', () => journal('proxy').includes('stalling'));
    machine.demand('rm', '/run/stalling');
    expect(install(next)).not.toContain('Next:');
    await machine.until(
      'the new daemon',
      () => machine.property(UNIT, 'MainPID') !== pid && machine.property(UNIT, 'SubState') === 'running',
    );
    await machine.until('the interrupted pull', () => workbooks().includes('Later'));
    for (const path of before.trim().split('\n')) expect(workbooks()).toContain(path);
    expect(machine.demand('cat', '/etc/workbook-mirror/config.yaml')).toBe(SETTINGS);
    const pulled = journal()
      .split('\n')
      .filter((line) => line.includes('target.published'))
      .map((line) => /"target":"([^"]+)"/.exec(line)?.[1] ?? line);
    expect(new Set(pulled).size, 'a target was pulled twice').toBe(pulled.length);
  });

  it('ends the daemon and keeps settings and mirror when it is removed', () => {
    apt('remove', UNIT);
    expect(exists('/usr/bin/workbook-mirror')).toBe(false);
    expect(machine.run('pgrep', '--full', 'workbook-mirror run').exitCode).not.toBe(0);
    expect(exists('/etc/workbook-mirror/config.yaml')).toBe(true);
    expect(workbooks()).not.toBe('');
  });

  it('keeps the mirror when it is purged', () => {
    expect(apt('purge', UNIT)).toContain(`The mirror stays in /var/lib/workbook-mirror`);
    for (const path of ['/etc/workbook-mirror', '/etc/credstore/workbook-mirror.service-api-key'])
      expect([path, exists(path)]).toEqual([path, false]);
    expect(workbooks()).not.toBe('');
  });

  it('deletes the mirror when it is purged and the answer to its question is yes', () => {
    install(current);
    const others = ['/var/lib/workbook-mirror-backup', '/var/lib/workbook-mirror-eu'];
    machine.demand('mkdir', ...others);
    machine.demand('touch', '/etc/workbook-mirror/eu.yaml');
    expect(machine.demand('debconf-show', UNIT)).toContain('workbook-mirror/delete-mirrors');
    machine.shell(`echo "${UNIT} workbook-mirror/delete-mirrors boolean true" | debconf-set-selections`);
    apt('purge', UNIT);
    expect(exists('/var/lib/workbook-mirror')).toBe(false);
    // One belongs to an instance, the other to another program.
    expect(others.map(exists)).toEqual([true, false]);
  });
});

const UPLOAD = `curl --silent --fail-with-body -F key=the-key -F repository=Later -F 'files=@/etc/hostname;filename=later.xlsx' http://127.0.0.1:9400/`;
