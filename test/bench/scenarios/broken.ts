import { access, mkdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { spawn } from 'node:child_process';
import { once } from 'node:events';

import type { Bench } from '../bench.ts';
import { compare } from '../compare.ts';
import { dataSet } from '../data-set.ts';
import { ContenderError, type Sample } from '../measure.ts';
import { bash, peer } from '../peers.ts';
import { runProgram, spawnProgram } from '../program.ts';
import type { Scenario } from '../scenario.ts';
import type { BenchService } from '../service.ts';
import { sizeText, type Table } from '../table.ts';

const MIB = 1024 * 1024;

/** Connections that break, and a target that is slow. */
export const broken: Scenario = {
  name: 'broken',
  about: 'downloads that break, and slow ones beside fast ones',
  run: async function* run(bench) {
    yield await breaking(bench);
    yield await slow(bench);
  },
};

/** A loop, as curl's own `--retry` goes on from where the first attempt began, so that what it makes is no archive. */
const BY_CURL = 'curl -C - in a loop: download';

async function breaking(bench: Bench): Promise<Table> {
  const spec = dataSet('breaking', {
    filesEach: bench.options.isQuick ? 4 : 40,
    leastBytes: 5 * MIB,
    mostBytes: 5 * MIB,
    packings: ['stored'],
  });
  const service = await bench.serve(spec);
  const [archive = ''] = service.archives;
  const { size } = await stat(archive);
  await service.set({ fault: { kind: 'cut', share: 0.2 } });
  const counted = async (run: () => Promise<Sample>): Promise<Sample> => {
    const { sentBytes } = await service.traffic();
    const sample = await run();
    const wireBytes = (await service.traffic()).sentBytes - sentBytes;
    return {
      ...sample,
      more: { 'on the wire bytes': wireBytes, '% of the archive': (wireBytes * 100) / size },
    };
  };
  let downloaded = '';
  const rows = await compare(bench, [
    {
      name: 'workbook-mirror: download, unpack, publish',
      run: () =>
        counted(async () => {
          const directory = await bench.place('mirrored');
          const sample = await runProgram(bench, ['sync'], { service, directory });
          await bench.empty(directory);
          return sample;
        }),
    },
    {
      name: BY_CURL,
      needs: ['bash', 'curl'],
      run: () =>
        counted(async () => {
          downloaded = await bench.place('archive.zip');
          return bash('download-broken.sh', contentsAddress(service), downloaded);
        }),
      after: async () => {
        if (!(await readFile(downloaded)).equals(await readFile(archive)))
          throw new ContenderError(`${BY_CURL}: other bytes`);
      },
    },
  ]);
  await service.set({ fault: null });
  return {
    title: `The connection breaks after every fifth of an archive of ${sizeText(size)}`,
    rows,
    base: rows[0]?.contender ?? '',
  };
}

function contentsAddress({ baseUrl, repositories }: BenchService): string {
  return `${baseUrl}/repos/${repositories[0]?.id ?? ''}/contents?branch=main`;
}

const REPOSITORIES = 8;
const SLOW_REPOSITORIES = 1;

/** One target is slow: how long until all others are readable. */
async function slow(bench: Bench): Promise<Table> {
  const sizeBytes = bench.options.isQuick ? 256 * 1024 : 2 * MIB;
  const spec = dataSet('slow and fast', {
    repositories: REPOSITORIES,
    leastBytes: sizeBytes,
    mostBytes: sizeBytes,
    packings: ['stored'],
  });
  const service = await bench.serve(spec);
  const names = service.repositories.map(({ fullName }) => fullName);
  await service.set({
    fault: { kind: 'slow', fullNames: names.slice(0, SLOW_REPOSITORIES), bytesPerSecond: 50_000 },
  });
  const fast = names.slice(SLOW_REPOSITORIES);
  const until =
    (pathOf: (directory: string, name: string) => string, begin: (directory: string) => Started) =>
    async () => {
      const directory = await bench.place('mirrored');
      await mkdir(directory);
      const startedAtMs = performance.now();
      const { stop } = begin(directory);
      await Promise.all(fast.map((name) => appears(pathOf(directory, name))));
      const wallMs = performance.now() - startedAtMs;
      await stop();
      return { wallMs, cpuMs: null, peakBytes: null };
    };
  const ours = until(
    (directory, name) => join(directory, 'mirror', name, 'main'),
    (directory) => startedOf(spawnProgram(bench, ['sync'], { service, directory })),
  );
  const scripted = until(
    (directory, name) => join(directory, 'mirror', name),
    (directory) =>
      startedOf(
        spawn('bash', [peer('mirror.sh'), service.baseUrl, directory, 'stream'], {
          stdio: 'ignore',
          detached: true,
        }),
      ),
  );
  const rows = await compare(bench, [
    { name: 'workbook-mirror', run: ours },
    { name: 'script, 4 at a time', needs: ['bash', 'curl', 'jq', 'bsdtar'], run: scripted },
  ]);
  await service.set({ fault: null });
  return {
    title: `${SLOW_REPOSITORIES} of ${REPOSITORIES} targets of ${sizeText(sizeBytes)} at 50 kB/s: until the others are readable`,
    rows,
    base: rows[0]?.contender ?? '',
  };
}

interface Started {
  readonly stop: () => Promise<void>;
}

/** A program that leads a process group, which is ended as one. */
function startedOf(child: ReturnType<typeof spawn>): Started {
  const ended = once(child, 'exit');
  return {
    stop: async () => {
      if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
        process.kill(-child.pid, 'SIGKILL');
      await ended;
    },
  };
}

const LOOK_EVERY_MS = 5;
const PATIENCE_MS = 300_000;

/** Waits until something is there. */
async function appears(path: string): Promise<void> {
  const endAtMs = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      await access(path);
      return;
    } catch {
      if (performance.now() > endAtMs) throw new ContenderError(`${path} did not appear`);
      await sleep(LOOK_EVERY_MS);
    }
  }
}
