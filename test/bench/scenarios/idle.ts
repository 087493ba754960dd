import type { Bench } from '../bench.ts';
import { compare } from '../compare.ts';
import { dataSet } from '../data-set.ts';
import { ContenderError, measure, type Sample } from '../measure.ts';
import { bash, peer } from '../peers.ts';
import { cpuMsOf, memoryOf } from '../process-facts.ts';
import { type Daemon, startDaemon } from '../program.ts';
import type { Scenario } from '../scenario.ts';
import type { Table } from '../table.ts';

const WORKBOOKS_EACH = 100;
/** Passes that one sample is the mean of: CPU time is counted in steps of 10 ms. */
const PASSES = 5;
const WARM_UP_PASSES = 3;

/** Nothing changed: what a pass costs. */
export const idle: Scenario = {
  name: 'idle',
  about: 'a pass over many workbooks of which none has changed',
  run: async function* run(bench) {
    const { isQuick, isLarge } = bench.options;
    const sizes = isQuick ? [20] : [100, 1000, ...(isLarge ? [10_000] : [])];
    for (const repositories of sizes) yield await idlePasses(bench, repositories);
  },
};

async function idlePasses(bench: Bench, repositories: number): Promise<Table> {
  const spec = dataSet(`${repositories} repositories`, {
    repositories,
    filesEach: WORKBOOKS_EACH,
    leastBytes: 60,
    mostBytes: 200,
    packings: ['stored'],
  });
  const service = await bench.serve(spec);
  bench.say(`making the first mirror of ${repositories} targets`);
  const daemon = await startDaemon(bench, service, await bench.place('mirrored'));
  for (let pass = 0; pass < WARM_UP_PASSES; pass += 1) await daemon.pass();
  const list = await bench.place('list');
  const rows = await compare(bench, [
    { name: 'workbook-mirror: a pass of the daemon', run: () => passesOf(daemon) },
    {
      name: 'limit: JSON.parse of the same pages in memory',
      run: async () => {
        const { stdout, peakBytes } = await measure({
          program: process.execPath,
          args: [peer('parse-pages.ts'), service.baseUrl, String(PASSES)],
        });
        return { wallMs: Number(stdout), cpuMs: Number(stdout), peakBytes };
      },
    },
    {
      name: 'script: curl and jq page by page, sort, cmp',
      needs: ['bash', 'curl', 'jq'],
      run: () => bash('list.sh', service.baseUrl, list),
    },
  ]);
  await daemon.close();
  return {
    title: `Idle pass: ${repositories * WORKBOOKS_EACH} workbooks in ${repositories} repositories, pages of 500`,
    rows,
    base: rows[0]?.contender ?? '',
    notes: [
      `Ours: the mean of ${PASSES} passes asked for by SIGHUP; memory as it stands after them, ours in VmRSS.`,
    ],
  };
}

async function passesOf(daemon: Daemon): Promise<Sample> {
  const cpuBeforeMs = cpuMsOf(daemon.pid);
  const startedAtMs = performance.now();
  for (let pass = 0; pass < PASSES; pass += 1) {
    const finished = (await daemon.pass()).find(({ event }) => event === 'pass.finished');
    if (finished?.fields['pulled'] !== 0 || finished.fields['failed'] !== 0) {
      throw new ContenderError('a pass was not idle');
    }
  }
  return {
    wallMs: (performance.now() - startedAtMs) / PASSES,
    cpuMs: (cpuMsOf(daemon.pid) - cpuBeforeMs) / PASSES,
    peakBytes: memoryOf(daemon.pid, 'VmRSS'),
  };
}
