import { spawn, spawnSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { once } from 'node:events';
import { mkdir, readdir } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { onTestFinished } from 'vitest';

import { type AtEnd, temporaryFolder } from './temporary.ts';

/** A free port. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Runs a server. @returns kills it */
function runServer(command: string, args: readonly string[], cwd: string, atEnd: AtEnd) {
  const child = spawn(command, args, { cwd, stdio: 'ignore' });
  atEnd(() => void child.kill('SIGKILL'));
  return (signal: NodeJS.Signals): void => void child.kill(signal);
}

/** Waits for at most half a minute. @throws Error that names what was waited for */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let attempts = 0; attempts < 2400; attempts += 1) {
    if (await holds()) return;
    await sleep(50);
  }
  throw new Error(`in vain: ${what}`);
}

/** Servers with the Redis protocol. */
export type RedisServer = 'redis-server' | 'valkey-server';

/** Whether this machine has a server with the Redis protocol. */
export const hasServer = (server: RedisServer): boolean => spawnSync(server, ['--version']).status === 0;

/** Whether this machine has a Redis server. */
export const hasRedis = hasServer('redis-server');

/** Options of a server for a test. */
interface ServerOptions {
  /** More arguments. */
  readonly args?: readonly string[];
  /** Registers the stop; by default, at the end of the running test. */
  readonly atEnd?: AtEnd;
}

/** Starts a private server with the Redis protocol. */
export async function startRedis({
  server = 'redis-server',
  port,
  args = [],
  atEnd = onTestFinished,
}: ServerOptions & { readonly server?: RedisServer; readonly port?: number } = {}) {
  const [folder, at] = [await temporaryFolder(atEnd), port ?? (await freePort())];
  const where = ['--port', String(at), '--bind', '127.0.0.1', '--save', ''];
  const kill = runServer(server, [...where, ...args], folder, atEnd);
  await until(`starting ${server}`, () => answers(at));
  return { address: `redis://127.0.0.1:${at}`, port: at, kill };
}

/** The answer of a server that requires a password. */
function answers(port: number): boolean {
  const script = `exec 3<>/dev/tcp/127.0.0.1/${port} && printf 'PING\\r\\n' >&3 && head -c 5 <&3`;
  return /PONG|NOAU/.test(String(spawnSync('bash', ['-c', script], { timeout: 1000 }).stdout));
}

const POSTGRES_ROOT = '/usr/lib/postgresql';

/** The folder of Debian's newest PostgreSQL; null without one, or without a user to run it as. */
async function postgresBinaries(): Promise<string | null> {
  const versions = await readdir(POSTGRES_ROOT).catch(() => []);
  const newest = versions.sort((a, b) => Number(b) - Number(a))[0];
  const hasUser = spawnSync('id', ['postgres']).status === 0 && process.getuid?.() === 0;
  return newest === undefined || !hasUser ? null : join(POSTGRES_ROOT, newest, 'bin');
}

/** Whether this machine can run PostgreSQL. */
export const postgres = await postgresBinaries();

/** Starts a private PostgreSQL. */
export async function startPostgres(
  binaries: string,
  { args = [], atEnd = onTestFinished }: ServerOptions = {},
) {
  const [folder, port] = [await temporaryFolder(atEnd), await freePort()];
  const data = join(folder, 'data');
  await mkdir(data);
  chmodSync(folder, 0o755);
  spawnSync('chown', ['-R', 'postgres', data]);
  const asPostgres = (command: string): string[] => ['-u', 'postgres', '--', join(binaries, command)];
  const runAs = (command: string, ...rest: readonly string[]) =>
    spawnSync('runuser', [...asPostgres(command), ...rest], { cwd: folder });
  runAs('initdb', '-D', data, '-A', 'trust', '-N', ...args);
  const stop = (): unknown => runAs('pg_ctl', '-D', data, '-m', 'immediate', 'stop');
  const start = async (): Promise<void> => {
    const where = ['-D', data, '-p', String(port), '-k', data, '-F'];
    runServer('runuser', [...asPostgres('postgres'), ...where], folder, atEnd);
    const ready = ['-h', '127.0.0.1', '-p', String(port)];
    await until('starting PostgreSQL', () => spawnSync('pg_isready', ready).status === 0);
  };
  atEnd(() => void stop());
  await start();
  return {
    address: `postgres://postgres@127.0.0.1:${port}/postgres`,
    restart: async () => {
      stop();
      await start();
    },
    /** Runs SQL. @throws Error with its message */
    sql: (text: string) => {
      const connection = ['-h', '127.0.0.1', '-p', String(port), '-v', 'ON_ERROR_STOP=1'];
      const { status, stderr } = runAs('psql', ...connection, '-c', text);
      if (status !== 0) throw new Error(String(stderr));
    },
  };
}
