import { execFileSync } from 'node:child_process';
import { cpus, release, totalmem } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { Bench } from './bench.ts';
import { ContenderError, missingOf, PACKAGES, type Tool } from './measure.ts';
import { broken, soak } from './scenarios/faults.ts';
import { firstMirror } from './scenarios/first-mirror.ts';
import { change, publish } from './scenarios/changes.ts';
import { idle, start } from './scenarios/rest.ts';
import { formatTable } from './table.ts';

/**
 * Measures the compiled program beside its alternatives, and prints a table in Markdown for each scenario.
 * Exit codes: 0 measured, 1 a contender failed, 2 usage.
 */

const SCENARIOS = { 'first-mirror': firstMirror, change, idle, publish, broken, start, soak };
/** Runs only if it is named. */
const EXTRA = 'soak';

const USAGE = `Usage: npm run bench -- [options]

  --only NAME,...   these scenarios alone: ${Object.keys(SCENARIOS).join(', ')}
  --runs N          timed runs of each contender, after a warm-up (default 5)
  --quick           small data and 2 runs, to see that everything works
  --large           also the rows that take many minutes
  --dir FOLDER      where mirrors are made and removed again (default: below node_modules)
  --program FILE    measures this compiled main.js instead of these sources

Missing tools (Debian: libarchive-tools jq rsync curl) are named, and their contenders left out.`;

/** One line with processor, memory, file system, kernel, Node, day and command. */
function describeMachine(folder: string): string {
  const kind = execFileSync('df', ['--output=fstype', folder], { encoding: 'utf8' })
    .trim()
    .split('\n')
    .at(-1);
  return [
    `${cpus().length} x ${cpus()[0]?.model.trim() ?? 'unknown processor'}`,
    `${Math.round(totalmem() / 1024 ** 3)} GiB`,
    kind,
    `Linux ${release()}`,
    `Node ${process.versions.node}`,
    new Date().toISOString().slice(0, 10),
    `\`npm run bench -- ${process.argv.slice(2).join(' ')}\``,
  ].join(', ');
}

function usage(problem: string): never {
  process.stderr.write(`${problem}${USAGE}\n`);
  process.exit(problem === '' ? 0 : 2);
}

function readOptions() {
  try {
    return parseArgs({
      options: {
        only: { type: 'string', default: '' },
        runs: { type: 'string' },
        quick: { type: 'boolean', default: false },
        large: { type: 'boolean', default: false },
        dir: { type: 'string', default: join(import.meta.dirname, '../../node_modules/.bench') },
        program: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    }).values;
  } catch (error) {
    return usage(`error: ${String(error)}\n\n`);
  }
}

const values = readOptions();
if (values.help) usage('');
const only = values.only.split(',').filter((name) => name !== '');
const unknown = only.find((name) => !(name in SCENARIOS));
if (unknown !== undefined) usage(`error: --only: there is no ${unknown}\n\n`);
const runs = Number(values.runs ?? (values.quick ? 2 : 5));
if (!Number.isSafeInteger(runs) || runs < 1) usage('error: --runs: a whole number is needed\n\n');

const bench = await Bench.open({
  runs,
  isQuick: values.quick,
  isLarge: values.large,
  parent: resolve(values.dir),
  program: values.program === undefined ? null : resolve(values.program),
});
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void bench.close().finally(() => process.exit(1)));
try {
  const machine = describeMachine(bench.options.parent);
  const missing = missingOf(Object.keys(PACKAGES) as Tool[]).map((tool) => PACKAGES[tool]);
  process.stdout.write(`Measured on: ${machine}. Missing packages: ${missing.join(', ') || 'none'}.\n\n`);
  for (const [name, run] of Object.entries(SCENARIOS)) {
    if (only.length === 0 ? name === EXTRA : !only.includes(name)) continue;
    try {
      for await (const table of run(bench)) process.stdout.write(`${formatTable(table)}\n\n`);
    } catch (error) {
      if (!(error instanceof ContenderError)) throw error;
      process.stderr.write(`error: ${name}: ${error.message}\n`);
      process.exitCode = 1;
    }
  }
} finally {
  await bench.close();
}
