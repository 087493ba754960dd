import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { readFileSync, realpathSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { hasProgram } from '../support/program.ts';
import { buildPackageIn, DEPENDENCIES } from './package.ts';

/** The folder of the package after `npm install --global --prefix /usr/local`. */
const PACKAGE = '/usr/local/lib/node_modules/workbook-mirror';

/** The output and result of a command on the machine. */
export type Outcome = ReturnType<Machine['run']>;

/** A machine with its own systemd, as a container over this machine's root. */
export type Machine = ReturnType<typeof machineOf>;

/** Why no machine can be booted here; undefined if one can. */
export function whyNoMachine(): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    return 'booting a machine needs root on Linux';
  const missing = ['systemd-nspawn', 'nsenter', 'mount', 'git'].filter((name) => !hasProgram(name));
  return missing.length === 0 ? undefined : `booting a machine needs ${missing.join(', ')}`;
}

/** A proxy of the service on port 9401. While the file /run/stalling exists, contents never end. */
export const STALLING_PROXY = `
import { existsSync } from 'node:fs';
import { createServer, request } from 'node:http';
createServer((incoming, outgoing) => {
  const { method, url, headers } = incoming;
  const asked = request({ host: '127.0.0.1', port: 9400, method, path: url, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode, answer.headers);
    if (!url.includes('/contents') || !existsSync('/run/stalling')) return void answer.pipe(outgoing);
    console.log('stalling');
    answer.once('data', (bytes) => outgoing.write(bytes.subarray(0, 64)));
  });
  incoming.pipe(asked);
}).listen(9401, '127.0.0.1');
`;

const WAIT_MS = 180_000;
const LOOK_EVERY_MS = 100;

/** Boots a machine with the package as npm installs it. @throws Error if it does not boot */
export async function bootMachine(): Promise<Machine> {
  return bootMachineWith(install, [
    `--bind-ro=${realpathSync(process.execPath)}:/usr/local/bin/node`,
    `--bind-ro=${DEPENDENCIES}:${PACKAGE}/node_modules`,
  ]);
}

/**
 * Boots a machine with its own network.
 * @param prepare receives the root of the machine before it boots
 * @param binds options of systemd-nspawn that mount files of this machine
 * @throws Error if it does not boot
 */
export async function bootMachineWith(
  prepare: (root: string) => Promise<void>,
  binds: readonly string[],
): Promise<Machine> {
  const folder = await mkdtemp(join(tmpdir(), 'workbook-mirror-machine-'));
  const root = join(folder, 'root');
  const mounts: string[] = [];
  let container: ChildProcess | null = null;
  const close = async (): Promise<void> => {
    if (container !== null && container.exitCode === null) {
      const ended = new Promise((resolve) => container?.once('exit', resolve));
      container.kill('SIGTERM');
      await Promise.race([ended, sleep(15_000)]);
      container.kill('SIGKILL');
    }
    for (const mount of mounts.toReversed()) spawnSync('umount', ['--lazy', mount]);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    mountOrFail(mounts, folder, '-t', 'tmpfs', 'workbook-mirror-machine');
    for (const name of ['root', 'upper', 'work']) await mkdir(join(folder, name));
    const layers = `lowerdir=/,upperdir=${join(folder, 'upper')},workdir=${join(folder, 'work')}`;
    mountOrFail(mounts, root, '-t', 'overlay', '-o', layers, 'workbook-mirror-machine');
    await prepare(root);
    // With the identity of its host, a machine would take the host's journal for its own.
    // The file may be a mount point or a link.
    await rm(join(root, 'etc/machine-id'), { force: true });
    await writeFile(join(root, 'etc/machine-id'), '');
    await rm(join(root, 'var/lib/workbook-mirror'), { recursive: true, force: true });
    const own = '--quiet --boot --register=no --keep-unit --private-network --console=pipe'.split(' ');
    const options = [...own, '--directory', root, ...binds, 'systemd.unit=basic.target'];
    container = spawn('systemd-nspawn', options, { stdio: 'ignore' });
    const machine = machineOf(root, container, close);
    await machine.until('the machine to be up', () =>
      /running|degraded/.test(machine.run('systemctl', 'is-system-running').stdout),
    );
    return machine;
  } catch (error) {
    await close();
    throw error;
  }
}

function mountOrFail(mounts: string[], at: string, ...options: readonly string[]): void {
  const { status, stderr } = spawnSync('mount', [...options, at], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`cannot mount ${at}: ${stderr}`);
  mounts.push(at);
}

/** Installs the package as npm would, and the units as in the manual. */
async function install(root: string): Promise<void> {
  const home = join(root, PACKAGE);
  // A folder of the new machine, not of its host.
  await rm(home, { recursive: true, force: true });
  await buildPackageIn(home);
  await mkdir(join(root, 'usr/local/bin'), { recursive: true });
  const command = join(root, 'usr/local/bin/workbook-mirror');
  await rm(command, { force: true });
  await symlink(`${PACKAGE}/dist/main.js`.replace('/usr/local', '..'), command);
}

function machineOf(root: string, container: ChildProcess, close: () => Promise<void>) {
  /** Runs a command as root. */
  const run = (...argv: readonly string[]) => {
    const leader = leaderOf(container);
    if (leader === null) return { exitCode: null, stdout: '', stderr: 'the machine is not there' };
    const { status, stdout, stderr } = spawnSync('nsenter', ['-t', leader, '-a', '--', ...argv], {
      encoding: 'utf8',
      timeout: WAIT_MS,
      env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', SYSTEMD_PAGER: '' },
    });
    return { exitCode: status, stdout, stderr };
  };
  /** Runs a command that must succeed. @returns its output */
  const demand = (...argv: readonly string[]): string => {
    const { exitCode, stdout, stderr } = run(...argv);
    if (exitCode === 0) return stdout;
    const journal = run('journalctl', '--no-pager', '--lines=40').stdout;
    throw new Error(`${argv.join(' ')} ended with ${exitCode}:\n${stdout}${stderr}\n${journal}`);
  };
  const journal = (unit: string, ...options: readonly string[]): string =>
    run('journalctl', '--no-pager', '--output=cat', `--unit=${unit}`, ...options).stdout;
  /** Waits for a condition; fails with the journal if it does not come true. */
  const until = async (what: string, holds: () => boolean): Promise<void> => {
    for (const end = Date.now() + WAIT_MS; !holds(); await sleep(LOOK_EVERY_MS)) {
      if (Date.now() < end) continue;
      throw new Error(`waited in vain for ${what}:\n${run('journalctl', '--no-pager', '--lines=60').stdout}`);
    }
  };
  return {
    run,
    demand,
    /** Runs lines of a shell that must succeed. @returns their output */
    shell: (lines: string) => demand('sh', '-ec', lines),
    until,
    journal,
    /** Starts a service with samples in a unit, and waits for it. */
    serve: async (unit: string, { key, token }: { key: string; token: string }, port = 9400) => {
      const keys = [`API_KEY=${key}`, `API_TOKEN=${token}`];
      const variables = keys.map((each) => `--setenv=WORKBOOK_MIRROR_SERVE_${each}`);
      const options = [`--serve-directory=/var/lib/${unit}`, `--serve-listen=127.0.0.1:${port}`, '--samples'];
      demand('systemd-run', `--unit=${unit}`, ...variables, 'workbook-mirror', 'serve', ...options);
      await until(`the service of ${unit}`, () => journal(unit).includes(`http://127.0.0.1:${port}`));
    },
    /** Has systemd check the file of a unit, or its name; it must have nothing to say. */
    verifyUnit: (unit: string) => {
      const { exitCode, stdout, stderr } = run('systemd-analyze', 'verify', '--man=no', unit);
      if (exitCode !== 0 || stdout + stderr !== '') throw new Error(`${unit}: ${stdout}${stderr}`);
    },
    /** Writes a file, and makes its folders. */
    write: async (path: string, text: string) => {
      await mkdir(join(root, dirname(path)), { recursive: true });
      await writeFile(join(root, path), text);
    },
    property: (unit: string, name: string) =>
      demand('systemctl', 'show', '--value', `--property=${name}`, unit).trim(),
    close,
  };
}

/** The process number of the machine's init, seen from the host. */
function leaderOf({ pid }: ChildProcess): string | null {
  if (pid === undefined) return null;
  try {
    const [leader = ''] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ');
    return leader === '' ? null : leader;
  } catch {
    return null;
  }
}
