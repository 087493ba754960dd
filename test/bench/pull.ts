import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Bench } from './bench.ts';
import type { Contender } from './compare.ts';
import { type BenchFile, contentOf } from './data-set.ts';
import { ContenderError, type Sample } from './measure.ts';
import { cpuMsOf, memoryOf } from './process-facts.ts';
import { type Daemon, startDaemon, type Variables } from './program.ts';
import type { BenchService } from './service.ts';
import { inodesOf } from './tree.ts';

/** A daemon that mirrors a service of one repository, as a contender: each run pulls what has changed since the last. */
export interface Puller extends Contender {
  readonly daemon: Daemon;
}

/**
 * Starts a daemon, which makes its first mirror, and measures how it pulls a change.
 * @param changed the files that the present round has changed, in their present versions
 * @param before what is set at the service before each run
 */
export async function pullerOf(
  bench: Bench,
  name: string,
  service: BenchService,
  changed: () => readonly BenchFile[],
  variables: Variables = {},
  before: () => Promise<void> = () => Promise.resolve(),
): Promise<Puller> {
  await before();
  const daemon = await startDaemon(bench, service, await bench.place('mirrored'), variables);
  const [repository] = service.repositories;
  if (repository === undefined) throw new RangeError('there is no repository');
  const tree = join(daemon.directory, 'mirror', repository.fullName, repository.branch);
  let inodesBefore = await inodesOf(tree);
  return {
    name,
    daemon,
    run: async () => {
      await before();
      const { sentBytes } = await service.traffic();
      const sample = await measurePass(daemon);
      const wireBytes = (await service.traffic()).sentBytes - sentBytes;
      const inodes = await inodesOf(tree);
      const written = [...inodes].filter(([path, inode]) => inodesBefore.get(path) !== inode).length;
      inodesBefore = inodes;
      return {
        ...sample,
        more: { ...sample.more, 'on the wire bytes': wireBytes, 'files written': written },
      };
    },
    after: async () => {
      for (const file of changed()) {
        if (!(await readFile(join(tree, file.path))).equals(contentOf(file))) {
          throw new ContenderError(`${name} has not mirrored the present version of ${file.path}`);
        }
      }
    },
  };
}

/** Asks for a pass and measures from the signal to when the one target is readable. */
async function measurePass(daemon: Daemon): Promise<Sample> {
  const cpuBeforeMs = cpuMsOf(daemon.pid);
  const startedAtMs = Date.now();
  const lines = await daemon.pass();
  const pulled = lines.find(({ event }) => event === 'target.pulled');
  const planned = lines.find(({ event }) => event === 'pass.planned');
  if (pulled === undefined || planned === undefined) {
    throw new ContenderError(`nothing was pulled: ${lines.map((line) => line.event).join(', ')}`);
  }
  return {
    wallMs: pulled.timeMs - startedAtMs,
    cpuMs: cpuMsOf(daemon.pid) - cpuBeforeMs,
    peakBytes: memoryOf(daemon.pid, 'VmHWM'),
    more: { 'plan to readable time': pulled.timeMs - planned.timeMs },
  };
}
