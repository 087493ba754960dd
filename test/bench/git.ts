import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Bench } from './bench.ts';
import type { DataSetSpec } from './data-set.ts';
import { measure } from './measure.ts';

/** The content of a data set as bare Git repositories that `git daemon` serves. */
export interface GitHost {
  /** `git://127.0.0.1:<port>`. */
  readonly address: string;
  /** Where the bare repositories lie, each `<name>.git`. */
  readonly folder: string;
  readonly names: readonly string[];
  /** Commits the tree of a repository as it is now. */
  readonly commit: (at: number) => Promise<void>;
}

const ENVIRONMENT = {
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_AUTHOR_NAME: 'Ada',
  GIT_AUTHOR_EMAIL: 'ada@example.com',
  GIT_COMMITTER_NAME: 'Ada',
  GIT_COMMITTER_EMAIL: 'ada@example.com',
};

/** Workbooks are packed files: compressing them once more, or against each other, would only make Git slower. */
const PACKED_AS_THEY_ARE = ['-c', 'core.compression=0', '-c', 'pack.window=0'];

/** Makes the bare repositories of a data set and serves them until the benchmark ends. */
export async function hostGit(bench: Bench, spec: DataSetSpec): Promise<GitHost> {
  const { repositories } = await bench.serve(spec);
  const folder = dirname(await bench.place('root'));
  const names = repositories.map((_, at) => `books-${at}`);
  const git = (at: number, ...args: string[]): Promise<unknown> =>
    measure({
      program: 'git',
      args: ['--git-dir', join(folder, `${names[at] ?? ''}.git`), ...PACKED_AS_THEY_ARE, ...args],
      environment: ENVIRONMENT,
    });
  const commit = async (at: number): Promise<void> => {
    const tree = await bench.treeOf(spec, at);
    await git(at, '--work-tree', tree, 'add', '--all', tree);
    await git(at, '--work-tree', tree, 'commit', '-q', '-m', 'Update the plans');
  };
  bench.say(`making Git repositories of ${spec.name}`);
  for (const [at, name] of names.entries()) {
    const bare = join(folder, `${name}.git`);
    await measure({
      program: 'git',
      args: ['init', '-q', '--bare', '-b', 'main', bare],
      environment: ENVIRONMENT,
    });
    await commit(at);
    await git(at, 'config', 'pack.window', '0');
    await git(at, 'repack', '-adq');
  }
  return { address: await serve(bench, folder), folder, names, commit };
}

async function serve(bench: Bench, folder: string): Promise<string> {
  const port = await freePort();
  const child = spawn(
    'git',
    ['daemon', '--export-all', '--listen=127.0.0.1', `--port=${port}`, `--base-path=${folder}`, folder],
    { stdio: 'ignore', detached: true, env: { ...process.env, ...ENVIRONMENT } },
  );
  const ended = once(child, 'exit');
  bench.atEnd(async () => {
    // `git` starts the daemon as a program of its own; both are in one process group.
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid);
    await ended;
  });
  while (!(await answers(port))) await sleep(20);
  return `git://127.0.0.1:${port}`;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
