import type { Bench } from '../bench.ts';
import { dataSet, type DataSet } from '../data.ts';
import { compare, cpuMsOf, measure, memoryOf } from '../measure.ts';
import { peer } from '../peers.ts';
import { runProgram, startDaemon } from '../program.ts';
import type { Table } from '../table.ts';

/** Passes per sample, which is their mean: CPU time has steps of 10 ms. */
const PASSES = 5;
const WARM_UP_PASSES = 3;

function tiny(repositories: number, filesEach: number): DataSet {
  const name = `${repositories} repositories of ${filesEach}`;
  return dataSet(name, { repositories, filesEach, leastBytes: 60, mostBytes: 200, isCompressible: false });
}

/** The cost of a pass without changes. */
export async function* idle(bench: Bench): AsyncGenerator<Table> {
  const { isQuick, isLarge } = bench.options;
  const sizes = isQuick ? [20] : [100, 1000, ...(isLarge ? [10_000] : [])];
  for (const repositories of sizes) yield await idlePasses(bench, repositories);
}

async function idlePasses(bench: Bench, repositories: number): Promise<Table> {
  const service = await bench.serve(tiny(repositories, 100));
  const daemon = await startDaemon(bench, { service, directory: await bench.place('mirrored') });
  for (let pass = 0; pass < WARM_UP_PASSES; pass += 1) await daemon.pass();
  const rows = await compare(bench.options.runs, [
    {
      name: 'workbook-mirror: a pass of the daemon',
      run: async () => {
        const [cpuBeforeMs, startedAtMs] = [cpuMsOf(daemon.pid), performance.now()];
        for (let pass = 0; pass < PASSES; pass += 1) await daemon.pass();
        return {
          wallMs: (performance.now() - startedAtMs) / PASSES,
          cpuMs: (cpuMsOf(daemon.pid) - cpuBeforeMs) / PASSES,
          peakBytes: memoryOf(daemon.pid, 'VmRSS'),
        };
      },
    },
    {
      name: 'limit: JSON.parse of the same pages in memory',
      run: async () => {
        const args = [peer('parse-pages.ts'), service.baseUrl, String(PASSES)];
        const { stdout, peakBytes } = await measure({ program: process.execPath, args });
        return { wallMs: Number(stdout), cpuMs: Number(stdout), peakBytes };
      },
    },
  ]);
  return {
    title: `Idle pass: ${repositories * 100} workbooks in ${repositories} repositories, pages of 500`,
    rows,
    notes: [`Ours: the mean of ${PASSES} passes asked for by SIGHUP; memory after them, in VmRSS.`],
  };
}

/** The time of commands that do almost nothing. */
export async function* start(bench: Bench): AsyncGenerator<Table> {
  const repositories = bench.options.isQuick ? 50 : 10_000;
  const place = {
    service: await bench.serve(tiny(repositories, 1)),
    directory: await bench.place('mirrored'),
  };
  await runProgram(bench, ['sync', '--quiet'], place);
  const commands = [['--version'], ['--help'], ['status', '--help'], ['status'], ['status', '--json']];
  // A start is short, so there can be more runs.
  const rows = await compare(bench.options.runs * 3, [
    { name: 'node -e 0', run: () => measure({ program: process.execPath, args: ['-e', '0'] }) },
    ...commands.map((args) => ({ name: args.join(' '), run: () => runProgram(bench, args, place) })),
  ]);
  yield { title: `Start; status on ${repositories} targets`, rows };
}
