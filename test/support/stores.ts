import { spawn, spawnSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { onTestFinished } from 'vitest';

import { temporaryFolder } from './temporary.ts';

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Runs a server until the running test is finished. */
function runServer(
  command: string,
  args: readonly string[],
  cwd: string,
): { kill: (signal: NodeJS.Signals) => void } {
  const child = spawn(command, args, { cwd, stdio: 'ignore' });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  return { kill: (signal) => void child.kill(signal) };
}

async function until(isReady: () => boolean): Promise<void> {
  for (let attempts = 0; attempts < 200; attempts += 1) {
    if (isReady()) return;
    await sleep(50);
  }
  throw new Error('the server did not start');
}

/** Whether this machine has a Redis server. */
export const hasRedis = spawnSync('redis-server', ['--version']).status === 0;

/** Starts a Redis server of its own. */
export async function startRedis(): Promise<{ address: string; kill: () => void }> {
  const [folder, port] = [await temporaryFolder(), await freePort()];
  const server = runServer(
    'redis-server',
    ['--port', String(port), '--bind', '127.0.0.1', '--save', ''],
    folder,
  );
  await until(() => spawnSync('redis-cli', ['-p', String(port), 'ping']).stdout.includes('PONG'));
  return { address: `redis://127.0.0.1:${port}`, kill: () => server.kill('SIGKILL') };
}

const POSTGRES_ROOT = '/usr/lib/postgresql';

/** Where Debian keeps the newest PostgreSQL; null where there is none, or no user to run it as. */
async function postgresBinaries(): Promise<string | null> {
  const versions = await readdir(POSTGRES_ROOT).catch(() => []);
  const newest = versions.sort((a, b) => Number(b) - Number(a))[0];
  const hasUser = spawnSync('id', ['postgres']).status === 0 && process.getuid?.() === 0;
  return newest === undefined || !hasUser ? null : join(POSTGRES_ROOT, newest, 'bin');
}

/** Whether this machine can run PostgreSQL. */
export const postgres = await postgresBinaries();

/** Starts a PostgreSQL of its own. */
export async function startPostgres(binaries: string): Promise<{ address: string }> {
  const [folder, port] = [await temporaryFolder(), await freePort()];
  const data = join(folder, 'data');
  await mkdir(data);
  chmodSync(folder, 0o755);
  spawnSync('chown', ['-R', 'postgres', data]);
  const asPostgres = (command: string, ...args: string[]): string[] => [
    '-u',
    'postgres',
    '--',
    join(binaries, command),
    ...args,
  ];
  spawnSync('runuser', asPostgres('initdb', '-D', data, '-A', 'trust', '-N'), { cwd: folder });
  runServer('runuser', asPostgres('postgres', '-D', data, '-p', String(port), '-k', data, '-F'), folder);
  onTestFinished(() => {
    spawnSync('runuser', asPostgres('pg_ctl', '-D', data, '-m', 'immediate', 'stop'), { cwd: folder });
  });
  await until(() => spawnSync('pg_isready', ['-h', '127.0.0.1', '-p', String(port)]).status === 0);
  return { address: `postgres://postgres@127.0.0.1:${port}/postgres` };
}
