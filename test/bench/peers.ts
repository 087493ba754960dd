import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { type Bench, listFiles } from './bench.ts';
import { type BenchFile, fullNameOf } from './data.ts';
import { type Contender, ContenderError, cpuMsOf, measure, memoryOf, type Sample } from './measure.ts';
import { startDaemon } from './program.ts';
import type { BenchService } from './service.ts';

/** A file of the folder of peers. */
export function peer(name: string): string {
  return join(import.meta.dirname, 'peers', name);
}

/** Runs a bash script. */
export function bash(script: string, ...args: readonly string[]) {
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
