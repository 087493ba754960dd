import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { type Bench, listFiles, writeTree } from './bench.ts';
import { type BenchFile, fullNameOf } from './data.ts';
import { type Contender, ContenderError, cpuMsOf, measure, memoryOf, type Sample } from './measure.ts';
import { startDaemon } from './program.ts';
import type { BenchService } from './service.ts';

/** A file of the folder of peers. */
export function peer(name: string): string {
  return join(import.meta.dirname, 'peers', name);
}

/** Runs a bash script. */
export function bash(
  script: string,
  ...args: readonly string[]
): Promise<Sample & { readonly stdout: string }> {
  return measure({ program: 'bash', args: [peer(script), ...args] });
}

/** A further figure of a run: the bytes that the service sent. */
export async function countedBytes(service: BenchService, run: () => Promise<Sample>): Promise<Sample> {
  const before = await service.sentBytes();
  const sample = await run();
  const sent = (await service.sentBytes()) - before;
  return { ...sample, more: { ...sample.more, 'on the wire bytes': sent } };
}

/**
 * Starts a daemon, which makes its first mirror, and measures how it pulls changes of the first repository.
 * @param changed the changed files of the current round
 * @param before changes the service before each run
 */
export async function pullerOf(
  bench: Bench,
  name: string,
  service: BenchService,
  changed: () => readonly BenchFile[],
  variables: Readonly<Record<string, string>> = {},
  before: () => Promise<void> = () => Promise.resolve(),
): Promise<Contender> {
  await before();
  const daemon = await startDaemon(bench, { service, directory: await bench.place('mirrored') }, variables);
  const tree = join(daemon.directory, 'mirror', fullNameOf(service.data, 0), 'main');
  const inodesOf = async (): Promise<Map<string, number>> =>
    new Map((await listFiles(tree)).map(({ path, inode }) => [path, inode]));
  let inodes = await inodesOf();
  const pass = async (): Promise<Sample> => {
    const cpuBeforeMs = cpuMsOf(daemon.pid);
    const startedAtMs = Date.now();
    const lines = await daemon.pass();
    const [pulledAtMs = NaN, plannedAtMs = NaN] = ['target.pulled', 'pass.planned'].map((event) =>
      Date.parse(lines.find((line) => line.event === event)?.time ?? ''),
    );
    if (Number.isNaN(pulledAtMs)) throw new ContenderError('nothing was pulled');
    return {
      wallMs: pulledAtMs - startedAtMs,
      cpuMs: cpuMsOf(daemon.pid) - cpuBeforeMs,
      peakBytes: memoryOf(daemon.pid, 'VmHWM'),
      more: { 'plan to readable time': pulledAtMs - plannedAtMs },
    };
  };
  return {
    name,
    run: async () => {
      await before();
      const sample = await countedBytes(service, pass);
      const now = await inodesOf();
      const written = [...now].filter(([path, inode]) => inodes.get(path) !== inode).length;
      inodes = now;
      return { ...sample, more: { ...sample.more, 'files written': written } };
    },
    after: async () => {
      for (const file of changed())
        if (!(await readFile(join(tree, file.path))).equals(service.contentOf(0, file)))
          throw new ContenderError(`${name} has not mirrored the present version of ${file.path}`);
    },
  };
}

/** The contents of a service in bare Git repositories, served by `git daemon`. */
export interface GitHost {
  readonly address: string;
  readonly names: readonly string[];
  /** Commits the current tree of the first repository. */
  readonly commit: (files: readonly BenchFile[]) => Promise<void>;
}

const GIT = {
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_AUTHOR_NAME: 'Ada',
  GIT_AUTHOR_EMAIL: 'ada@example.com',
  GIT_COMMITTER_NAME: 'Ada',
  GIT_COMMITTER_EMAIL: 'ada@example.com',
};
/** The next port for a `git daemon`, beyond the usual ones. */
let nextPort = 19_418;

/** Makes bare repositories of a service's contents, and serves them until the benchmark ends. */
export async function hostGit(bench: Bench, service: BenchService): Promise<GitHost> {
  const folder = dirname(await bench.place('root'));
  const names = Array.from({ length: service.data.repositories }, (_, at) => `books-${at}`);
  const git = (at: number, ...args: readonly string[]): Promise<unknown> => {
    // Workbooks are compressed already: compressing them again, or against each other, would only slow Git down.
    const options = [
      '-c',
      'core.compression=0',
      '-c',
      'pack.window=0',
      '--git-dir',
      join(folder, `books-${at}.git`),
    ];
    return measure({ program: 'git', args: [...options, ...args], environment: GIT });
  };
  const commit = async (at: number, files: readonly BenchFile[]): Promise<void> => {
    const tree = join(folder, `books-${at}`);
    await writeTree(tree, service, files, at);
    await git(at, '--work-tree', tree, 'add', '--all', tree);
    await git(at, '--work-tree', tree, 'commit', '-q', '-m', 'Update the plans');
  };
  for (const at of names.keys()) {
    await git(at, 'init', '-q', '--bare', '-b', 'main');
    await git(at, 'config', 'core.bare', 'false');
    await commit(at, service.files);
  }
  const port = nextPort;
  nextPort += 1;
  const served = [
    'daemon',
    '--export-all',
    '--listen=127.0.0.1',
    `--port=${port}`,
    `--base-path=${folder}`,
    folder,
  ];
  const daemon = spawn('git', served, { stdio: 'ignore', detached: true, env: { ...process.env, ...GIT } });
  const ended = once(daemon, 'exit');
  bench.atEnd(async () => {
    // `git` starts the daemon as a program of its own; both are in one process group.
    if (daemon.pid !== undefined && daemon.exitCode === null) process.kill(-daemon.pid);
    await ended;
  });
  await sleep(500);
  return { address: `git://127.0.0.1:${port}`, names, commit: (files) => commit(0, files) };
}
