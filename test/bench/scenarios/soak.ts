import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Bench } from '../bench.ts';
import type { Measured } from '../compare.ts';
import { contentOf, dataSet } from '../data-set.ts';
import { ContenderError, medianOf } from '../measure.ts';
import { memoryOf } from '../process-facts.ts';
import { type Daemon, runProgram, startDaemon } from '../program.ts';
import { numbersOf } from '../random.ts';
import type { Scenario } from '../scenario.ts';
import type { BenchService } from '../service.ts';
import type { Table } from '../table.ts';

/** Passes of 30 hours at the default schedule; the service changes something before each. */
const PASSES = 360;
const QUICK_PASSES = 24;
const QUARTERS = 4;
const SEED = 'soak';
const FAULT_SHARE = 0.08;
/** After the faults end: what waits for another attempt, and what was quarantined, must come right by itself. */
const CALM_PASSES = 20;
/** A figure is flat when its last quarter is not greater by more than this share, and this many. */
const SLACK_SHARE = 0.2;
const SLACK_COUNT = 3;

/** Memory is judged as it is at rest: under way it is what happens not to have been collected yet. */
const REST_MS = 15_000;

/** What was looked at, by the name of its row. */
type Reading = Readonly<Record<string, number>>;

/** What the passes of one quarter came to. */
interface Quarter {
  readonly afterPasses: readonly Reading[];
  readonly atRest: Reading;
}

/** Many passes against a service that changes and fails: nothing may grow, and the mirror must be right in the end. */
export const soak: Scenario = {
  name: 'soak',
  about:
    'many passes against a service that changes and fails: nothing grows, and the mirror is right in the end',
  isExtra: true,
  run: async function* run(bench) {
    const spec = dataSet('soak', { repositories: 6, filesEach: 60, packings: ['stored', 'wrapped'] });
    const service = await bench.serve(spec);
    const port = 20_000 + Math.floor(numbersOf(String(process.pid))() * 20_000);
    const directory = await bench.place('mirrored');
    const daemon = await startDaemon(bench, service, directory, {
      HTTP_LISTEN: `127.0.0.1:${port}`,
      READER_GRACE: '1s',
    });
    const quarters = await soakOf(bench, service, daemon, `http://127.0.0.1:${port}/metrics`);
    await service.set({ fault: null });
    for (let pass = 0; pass < CALM_PASSES; pass += 1) await daemon.pass();
    await daemon.close();
    const wrong = await wrongFiles(service, directory);
    const verify = await runProgram(bench, ['verify'], { service, directory, exitCodes: [0, 1] });
    bench.say(verify.stdout);
    yield tableOf(quarters, wrong, verify.stdout.trim());
  },
};

async function soakOf(
  bench: Bench,
  service: BenchService,
  daemon: Daemon,
  metrics: string,
): Promise<Quarter[]> {
  const next = numbersOf(SEED);
  await service.set({ fault: { kind: 'any', share: FAULT_SHARE, seed: SEED } });
  const passes = (bench.options.isQuick ? QUICK_PASSES : PASSES) / QUARTERS;
  const quarters: Quarter[] = [];
  while (quarters.length < QUARTERS) {
    const afterPasses: Reading[] = [];
    while (afterPasses.length < passes) {
      await changeSomething(service, next);
      await daemon.pass();
      afterPasses.push(await readingOf(daemon, metrics));
    }
    await sleep(REST_MS);
    quarters.push({ afterPasses, atRest: await memoryAtRest(daemon, metrics) });
    bench.say(`${passes * quarters.length} of ${passes * QUARTERS} passes`);
  }
  return quarters;
}

async function changeSomething(service: BenchService, next: () => number): Promise<void> {
  const at = Math.floor(next() * service.repositories.length);
  const files = service.repositories[at]?.files ?? [];
  const count = next() < 0.2 ? files.length / 4 : 1;
  const first = Math.floor(next() * (files.length - count));
  await service.change(
    at,
    files.slice(first, first + count).map(({ path }) => path),
  );
}

async function readingOf({ pid, directory }: Daemon, metrics: string): Promise<Reading> {
  const text = await (await fetch(metrics)).text();
  const kinds = [...text.matchAll(/^nodejs_active_resources\{[^}]*\} (\S+)$/gm)];
  return {
    'active resources (timers, sockets, ...)': kinds.reduce((sum, [, value]) => sum + Number(value), 0),
    'open file descriptors': await entriesIn(`/proc/${pid}/fd`),
    threads: await entriesIn(`/proc/${pid}/task`),
    'entries in staging': await entriesIn(join(directory, '.workbook-mirror/staging')),
    'entries of .workbook-mirror': await entriesIn(join(directory, '.workbook-mirror'), true),
  };
}

async function memoryAtRest({ pid }: Daemon, metrics: string): Promise<Reading> {
  const text = await (await fetch(metrics)).text();
  const metric = (name: string): number =>
    Number(new RegExp(String.raw`^${name}(?:\{[^}]*\})? (\S+)$`, 'm').exec(text)?.[1] ?? NaN);
  return {
    'RSS at rest, kB': memoryOf(pid, 'VmRSS') / 1000,
    'heap used at rest, kB': metric('nodejs_heap_size_used_bytes') / 1000,
    'external memory at rest, kB': metric('nodejs_external_memory_bytes') / 1000,
  };
}

async function entriesIn(folder: string, recursive = false): Promise<number> {
  try {
    return (await readdir(folder, { recursive })).length;
  } catch {
    return 0;
  }
}

/** The files of the mirror that are not what the service has. */
async function wrongFiles({ repositories }: BenchService, directory: string): Promise<string[]> {
  const wrong: string[] = [];
  for (const { fullName, branch, files } of repositories) {
    for (const file of files) {
      const path = join(directory, 'mirror', fullName, branch, file.path);
      const found = await readFile(path).catch(() => null);
      if (found?.equals(contentOf(file)) !== true) wrong.push(`${fullName}/${branch}/${file.path}`);
    }
  }
  return wrong;
}

/** Medians over the passes of a quarter, and what it came to at rest. */
function summaryOf({ afterPasses, atRest }: Quarter): Reading {
  const names = Object.keys(afterPasses[0] ?? {});
  const medians = names.map((name): [string, number] => [
    name,
    medianOf(afterPasses.map((each) => each[name] ?? NaN)),
  ]);
  return { ...atRest, ...Object.fromEntries<number>(medians) };
}

function tableOf(quarters: readonly Quarter[], wrong: readonly string[], verified: string): Table {
  const [first = {}, ...others] = quarters.map(summaryOf);
  const last = others.at(-1) ?? first;
  const grown: string[] = [];
  const rows = Object.entries(first).map(([name, before]): Measured => {
    const after = last[name] ?? NaN;
    if (after > before * (1 + SLACK_SHARE) + SLACK_COUNT) grown.push(name);
    const more = { 'first quarter': before, 'last quarter': after };
    return { contender: name, samples: [{ wallMs: NaN, cpuMs: null, peakBytes: null, more }] };
  });
  if (wrong.length > 0)
    throw new ContenderError(`the mirror is not the service: ${wrong.slice(0, 5).join(', ')}`);
  const passes = quarters.reduce((sum, { afterPasses }) => sum + afterPasses.length, 0);
  return {
    title: `Soak: ${passes} passes, a change before each, ${FAULT_SHARE * 100} % of the answers wrong`,
    rows,
    notes: [
      ...(passes < PASSES
        ? ['Too few passes to tell growth from warming up.']
        : [grown.length === 0 ? 'Nothing grows.' : `GROWS: ${grown.join(', ')}.`]),
      `In the end every file is what the service has; verify: ${verified}`,
    ],
  };
}
