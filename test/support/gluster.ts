import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import { mkdir, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

import { onTestFinished } from 'vitest';

import { until } from './stores.ts';
import { temporaryFolder } from './temporary.ts';

/** A machine, in the sense of locks, caches and the network of the volume: a mount. */
export type NetworkMachine = Awaited<ReturnType<typeof startMachine>>;

const NEEDED = [['glusterd'], ['glusterfs'], ['gluster'], ['ip', '-V'], ['unshare'], ['nsenter']] as const;

/** Whether this machine can run one. */
export const hasGluster =
  process.getuid?.() === 0 &&
  existsSync('/dev/fuse') &&
  NEEDED.every(([command, argument = '--version']) => spawnSync(command, [argument]).error === undefined) &&
  spawnSync('unshare', ['--net', '--mount', '--pid', '--fork', 'true']).status === 0;

const SERVER = '10.77.0.1';
const VOLUME = 'mirrors';

/** The script of the server, with its folder as `$1`. */
const SERVER_SCRIPT = `
  cd "$1" && mkdir lib log log/bricks run run/gluster brick
  mount --bind lib /var/lib/glusterd && mount --bind log /var/log/glusterfs && mount --bind run /run
  ip link set lo up && ip addr add ${SERVER}/32 dev lo
  exec glusterd --no-daemon`;

/** The script of a machine after its cable is connected, with its log file and mount point as arguments. */
const CLIENT_SCRIPT = `
  read -r address gateway
  ip addr add "$address" dev eth0 && ip link set eth0 up && ip route add ${SERVER} via "$gateway"
  exec glusterfs --no-daemon -s ${SERVER} --volfile-id ${VOLUME} -l "$1" "$2"`;

function demand(command: string, ...args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? stderr + stdout}`);
  return stdout;
}

/**
 * Starts a private GlusterFS. Server and machines each have their own network, with cables between them, and the server has its own view of
 * processes and of its folders. So it does not touch another GlusterFS of this machine, and a cable can be cut: as after a power failure, no
 * program learns that a machine is gone. Everything is removed when the running test ends.
 * @param options of the volume, as for `gluster volume set`
 * @returns two machines with the mounted volume
 */
export async function startVolume(
  options: Readonly<Record<string, string>> = {},
): Promise<readonly [NetworkMachine, NetworkMachine]> {
  const root = await temporaryFolder();
  const server = await startServer(join(root, 'server'));
  const gluster = (...args: readonly string[]): void =>
    void inside(server, 'gluster', '--mode=script', 'volume', ...args);
  gluster('create', VOLUME, 'transport', 'tcp', `${SERVER}:${join(root, 'server/brick')}`, 'force');
  for (const [option, value] of Object.entries(options)) gluster('set', VOLUME, option, value);
  gluster('start', VOLUME);
  const machine = (index: number) => startMachine(server, index, join(root, `machine-${index}`));
  return [await machine(1), await machine(2)];
}

/** Runs a command in the server's namespaces. @param server the id of its process */
function inside(server: number, ...command: readonly string[]): string {
  return demand('nsenter', '--target', String(server), '--net', '--mount', '--pid', '--', ...command);
}

/** @returns the id of its process */
async function startServer(folder: string): Promise<number> {
  await mkdir(folder);
  const own = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
  const script = ['sh', '-e', '-c', SERVER_SCRIPT, 'sh', folder];
  const unshare = spawn('unshare', [...own, ...script], { stdio: 'ignore' });
  onTestFinished(() => end(unshare));
  const children = `/proc/${unshare.pid}/task/${unshare.pid}/children`;
  let server = 0;
  await until('starting glusterd', () => {
    server = Number(readFileSync(children, 'utf8').trim());
    if (server === 0 || !existsSync(join(folder, 'run/glusterd.socket'))) return false;
    const asked = ['--target', String(server), '--net', '--mount', '--pid', 'gluster', 'volume', 'info'];
    return spawnSync('nsenter', asked).status === 0;
  });
  return server;
}

/** @param server the id of its process @param index from 1 */
async function startMachine(server: number, index: number, folder: string) {
  const cable = `cable${index}`;
  await mkdir(folder);
  let client = await mount(server, index, folder);
  const unmount = async (): Promise<void> => {
    await end(client);
    spawnSync('umount', ['--lazy', folder]);
  };
  onTestFinished(unmount);
  return {
    /** The mount point of the volume. */
    folder,
    /** Waits until the volume can be read, after a repair of the cable. */
    answers: () => until(`reading ${folder}`, async () => (await readdir(folder).catch(() => null)) !== null),
    /** Kills the program behind the mount, which the server notices at once. */
    kill: () => void client.kill('SIGKILL'),
    /** Mounts the volume again, after a kill. */
    remount: async () => {
      await unmount();
      // The kernel removes it, but not at once, with the network of the process that had the other end.
      spawnSync('nsenter', ['--target', String(server), '--net', 'ip', 'link', 'delete', cable]);
      client = await mount(server, index, folder);
    },
    /** Cuts the cable to the server, or repairs it. */
    setCable: (state: 'up' | 'down') => void inside(server, 'ip', 'link', 'set', cable, state),
  };
}

/** Mounts the volume in a new network, with a cable to the server. @returns the program behind the mount */
async function mount(server: number, index: number, folder: string): Promise<ChildProcess> {
  const cable = `cable${index}`;
  const before = (await stat(folder)).dev;
  const client = spawn('unshare', ['--net', 'sh', '-e', '-c', CLIENT_SCRIPT, 'sh', `${folder}.log`, folder], {
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  try {
    const ends = ['name', cable, 'netns', String(server), 'type', 'veth', 'peer', 'name', 'eth0'];
    await until('making a network', () => readNetwork(client.pid ?? 0) !== readNetwork(process.pid));
    demand('ip', 'link', 'add', ...ends, 'netns', String(client.pid));
    inside(server, 'ip', 'addr', 'add', `10.77.${index}.1/24`, 'dev', cable);
    inside(server, 'ip', 'link', 'set', cable, 'up');
    client.stdin.write(`10.77.${index}.2/24 10.77.${index}.1\n`);
    await until(`mounting ${folder}`, async () => (await stat(folder).catch(() => null))?.dev !== before);
    return client;
  } catch (error) {
    await end(client);
    throw error;
  }
}

/** Identifies the network of a process. */
function readNetwork(pid: number): string {
  return readlinkSync(`/proc/${pid}/ns/net`);
}

/** Kills a process, and waits until it is gone. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}
