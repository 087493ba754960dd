import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { type Bench, empty } from '../bench.ts';
import { dataSet, fullNameOf } from '../data.ts';
import { API_KEY } from '../../support/fake-service.ts';
import { compare, ContenderError, medianOf, memoryOf, type Measured, type Sample } from '../measure.ts';
import { bash, countedBytes, peer } from '../peers.ts';
import { runProgram, spawnProgram, startDaemon } from '../program.ts';
import { sizeText, type Table } from '../table.ts';

const MIB = 1024 * 1024;

/** Connections that break, and a target that is slow. */
export async function* broken(bench: Bench): AsyncGenerator<Table> {
  yield await breaking(bench);
  yield await slow(bench);
}

async function breaking(bench: Bench): Promise<Table> {
  const large = { leastBytes: 5 * MIB, mostBytes: 5 * MIB, isCompressible: false };
  const service = await bench.serve(
    dataSet('breaking', { filesEach: bench.options.isQuick ? 4 : 40, ...large }),
  );
  const [repository] = (await (
    await fetch(`${service.baseUrl}/repos`, { headers: { 'x-api-key': API_KEY } })
  ).json()) as { id: string }[];
  const address = `${service.baseUrl}/repos/${repository?.id ?? ''}/contents?branch=main`;
  const whole = await bench.place('archive.zip');
  await bash('download-broken.sh', address, whole);
  const { size } = await stat(whole);
  await service.set({ trouble: { kind: 'cut', after: Math.ceil(size / 5) } });
  let downloaded = '';
  const counted = async (run: () => Promise<Sample>): Promise<Sample> => {
    const sample = await countedBytes(service, run);
    return {
      ...sample,
      more: { ...sample.more, '% of the archive': ((sample.more?.['on the wire bytes'] ?? 0) * 100) / size },
    };
  };
  const rows = await compare(bench.options.runs, [
    {
      name: 'workbook-mirror: download, unpack, publish',
      run: async () => {
        const directory = await bench.place('mirrored');
        const sample = await counted(() => runProgram(bench, ['sync'], { service, directory }));
        await empty(directory);
        return sample;
      },
    },
    {
      // Use a loop: curl's own `--retry` continues where the first attempt began, so the result is not an archive.
      name: 'curl -C - in a loop: download',
      needs: ['curl'],
      run: async () => {
        downloaded = await bench.place('archive.zip');
        return counted(() => bash('download-broken.sh', address, downloaded));
      },
      after: async () => {
        if (!(await readFile(downloaded)).equals(await readFile(whole)))
          throw new ContenderError('other bytes');
      },
    },
  ]);
  await service.set({ trouble: null });
  const title = `The connection breaks after every fifth of an archive of ${sizeText(size)}`;
  return { title, rows };
}

/** One target is slow: the time until all others are readable. */
async function slow(bench: Bench): Promise<Table> {
  const sizeBytes = bench.options.isQuick ? 256 * 1024 : 2 * MIB;
  const fields = { leastBytes: sizeBytes, mostBytes: sizeBytes, isCompressible: false };
  const data = dataSet('slow and fast', { repositories: 8, ...fields });
  const service = await bench.serve(data);
  await service.set({ trouble: { kind: 'slow' } });
  const until = async (tree: string, begin: (directory: string) => ChildProcess): Promise<Sample> => {
    const directory = await bench.place('mirrored');
    await mkdir(directory);
    const startedAtMs = performance.now();
    const child = begin(directory);
    const ended = once(child, 'exit');
    for (let at = 1; at < data.repositories; at += 1)
      while (!existsSync(join(directory, 'mirror', fullNameOf(data, at), tree))) await sleep(5);
    const wallMs = performance.now() - startedAtMs;
    // It leads a process group, which ends together.
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    await ended;
    return { wallMs, cpuMs: null, peakBytes: null };
  };
  const script = (directory: string): ChildProcess =>
    spawn('bash', [peer('mirror.sh'), service.baseUrl, directory], {
      stdio: 'ignore',
      detached: true,
    });
  const rows = await compare(bench.options.runs, [
    {
      name: 'workbook-mirror',
      run: () => until('main', (directory) => spawnProgram(bench, ['sync'], { service, directory })),
    },
    { name: 'script, 4 at a time', needs: ['curl', 'jq', 'bsdtar'], run: () => until('', script) },
  ]);
  await service.set({ trouble: null });
  return { title: `One of 8 targets of ${sizeText(sizeBytes)} is slow: until the others are readable`, rows };
}

const FAULT_SHARE = 0.08;

/** A change before each pass, and some answers wrong: nothing grows, and the end is right. */
export async function* soak(bench: Bench): AsyncGenerator<Table> {
  const passes = bench.options.isQuick ? 40 : 360;
  const data = dataSet('soak', { repositories: 20, filesEach: 20 });
  const service = await bench.serve(data);
  const daemon = await startDaemon(bench, { service, directory: await bench.place('mirrored') });
  await service.set({ trouble: { kind: 'any', share: FAULT_SHARE } });
  const memory: number[] = [];
  for (let pass = 0; pass < passes; pass += 1) {
    const file = service.files[(pass * 7) % service.files.length];
    if (file !== undefined) await service.change(pass % data.repositories, [file.path]);
    await daemon.pass();
    memory.push(memoryOf(daemon.pid, 'VmRSS'));
  }
  await service.set({ trouble: null });
  for (let pass = 0; pass < 3; pass += 1) await daemon.pass();
  for (let at = 0; at < data.repositories; at += 1)
    for (const file of service.files) {
      const path = join(daemon.directory, 'mirror', fullNameOf(data, at), 'main', file.path);
      const found = await readFile(path).catch(() => null);
      if (found?.equals(service.contentOf(at, file)) !== true)
        throw new ContenderError(`${path} is not the service's`);
    }
  const quarter = Math.floor(passes / 4);
  const row = (contender: string, of: readonly number[]): Measured => ({
    contender,
    samples: [{ wallMs: NaN, cpuMs: null, peakBytes: medianOf(of) }],
  });
  yield {
    title: `Soak: ${passes} passes, a change before each, ${FAULT_SHARE * 100} % of the answers wrong`,
    rows: [row('first quarter', memory.slice(0, quarter)), row('last quarter', memory.slice(-quarter))],
    notes: ['In the end every file is what the service has.'],
  };
}
