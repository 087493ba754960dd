import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { attempt, inLanes, say, shuffled } from '../support/sweep.ts';
import { compileOnce } from './build.ts';
import { Journal } from './journal.ts';
import { prepare } from './prepare.ts';
import { beginOf, namesOn, NO_ATTACK, pointOf, SWEEPS } from './sweeps.ts';

/** Tries every point of every sweep once, in pieces: test/attack/README.md. Exit codes: 0 no violation, 1 violations, 2 usage. */

const USAGE = `Usage: npm run test:attack -- [options]

  --minutes N       begins no point after so many minutes (default: goes on until all are tried)
  --only BEGIN      scenarios alone that begin so, as errors/mixed/; may be given several times
  --again           also tries points again that were violated when they were last tried
  --point ID        tries one point, and says all that is found
  --figures         tries nothing: what was tried of this build, and what is left

test/attack/README.md says what the points are.`;

/** Each scenario in a mode under one kind of attack, with the beginning of its points' ids. */
const ALL_UNITS = SWEEPS.flatMap((sweep) =>
  sweep.cells.map((cell) => ({ sweep, cell, begin: beginOf(sweep, cell) })),
);
type Unit = (typeof ALL_UNITS)[number];

const options = optionsOrEnd();
const only = options.only ?? [''];
const units = ALL_UNITS.filter(({ begin }) => only.some((prefix) => begin.startsWith(prefix)));
const endsAtMs = Date.now() + Number(options.minutes) * 60_000;
const build = await compileOnce();
let isStopped = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => (isStopped = true));
const isOver = (): boolean => isStopped || Date.now() >= endsAtMs;

// Memory is faster than a disk.
if (existsSync('/dev/shm')) process.env['TMPDIR'] ??= '/dev/shm';
const folder = await mkdtemp(join(tmpdir(), 'workbook-mirror-attack-'));
const bench = { main: build.main, folder };
try {
  process.exitCode = options.point === undefined ? await tryAll() : await tryOne(options.point);
} finally {
  await rm(folder, { recursive: true, force: true });
}

function optionsOrEnd() {
  try {
    const { values } = parseArgs({
      options: {
        minutes: { type: 'string', default: 'Infinity' },
        only: { type: 'string', multiple: true },
        point: { type: 'string' },
        again: { type: 'boolean', default: false },
        figures: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
    if (values.help) {
      process.stdout.write(`${USAGE}\n`);
      process.exit(0);
    }
    const exists = (begin: string): boolean => ALL_UNITS.some((unit) => unit.begin.startsWith(begin));
    const unknown = values.only?.find((begin) => !exists(begin));
    if (unknown !== undefined) throw new Error(`--only: no scenario begins with ${unknown}`);
    if (!(Number(values.minutes) >= 0)) throw new Error('--minutes: a number of minutes is needed');
    return values;
  } catch (error) {
    process.stderr.write(`error: ${String(error)}\n\n${USAGE}\n`);
    process.exit(2);
  }
}

/** Tries one point by its id, and prints all its findings. */
async function tryOne(id: string): Promise<number> {
  const unit = ALL_UNITS.find(({ begin }) => id.startsWith(begin));
  if (unit === undefined) throw new Error(`there is no point ${id}`);
  const attacker = unit.sweep.open(folder);
  const prepared = await prepare(unit.cell, bench);
  const point = pointOf(unit.sweep, attacker, prepared, id.slice(unit.begin.length));
  const { isReached, violations } = await attempt(point, 0);
  await attacker.close();
  await prepared.close();
  const found = violations.length === 0 ? 'holds' : violations.join('\n  ');
  say(`${id}: ${isReached ? 'reached' : 'not reached'}, ${found}`);
  return violations.length === 0 ? 0 : 1;
}

async function tryAll(): Promise<number> {
  const journal = new Journal(join(import.meta.dirname, '../../.tmp/attack', build.digest));
  for (const unit of options.figures ? [] : shuffled(units, Math.random)) {
    if (isOver()) break;
    try {
      await tryUnit(unit, journal);
    } catch (error) {
      countUntried(unit, journal, error);
    }
  }
  return sayFigures(journal);
}

/** Counts a unit that cannot be prepared as a violation, in addition to its known points. */
function countUntried({ begin }: Unit, journal: Journal, error: unknown): void {
  const text = `it cannot be tried: ${error instanceof Error ? error.stack : String(error)}`;
  say(`violated: ${begin}${NO_ATTACK}\n    ${text}`);
  journal.keepNames(begin, [...new Set([...(journal.names(begin) ?? []), NO_ATTACK])]);
  journal.record(`${begin}${NO_ATTACK}`, { isReached: true, violations: [text] });
}

/** Tries the remaining points of a unit. */
async function tryUnit({ sweep, cell, begin }: Unit, journal: Journal): Promise<void> {
  const known = journal.names(begin);
  const isLeft = (name: string): boolean => {
    const result = journal.result(`${begin}${name}`);
    return result === undefined || (options.again && result.violations.length > 0);
  };
  if (known?.some(isLeft) === false || !sweep.isPossible()) return;
  await using stack = new AsyncDisposableStack();
  const prepared = await prepare(cell, bench);
  stack.defer(prepared.close);
  const attacker = sweep.open(folder);
  stack.defer(attacker.close);
  // A scenario that failed without an attack may now have other points.
  if (known === null || known.includes(NO_ATTACK)) journal.keepNames(begin, namesOn(attacker, prepared));
  const left = (journal.names(begin) ?? []).filter(isLeft);
  // A sweep that ends early must have tried points of all parts of a run.
  await inLanes(shuffled(left, Math.random), async (name, lane) => {
    if (isOver()) return;
    const point = pointOf(sweep, attacker, prepared, name);
    const attacked = await attempt(point, lane);
    journal.record(point.id, attacked);
    if (attacked.violations.length > 0)
      say(`violated: ${point.id}\n    ${attacked.violations.join('\n    ')}`);
  });
}

/** Prints the tried share of this build's points. @returns the exit code: 1 for violations */
function sayFigures(journal: Journal): number {
  say(`build ${build.digest}`);
  let isViolated = false;
  for (const sweep of SWEEPS) {
    const figures = sweep.cells.map((cell) => journal.figures(beginOf(sweep, cell)));
    const found = figures.filter((each) => each !== null);
    const sum = (of: 'exist' | 'tried' | 'reached'): number =>
      found.reduce((total, each) => total + each[of], 0);
    const violated = found.flatMap((each) => each.violated);
    const among = found.length === figures.length ? '' : ` in ${found.length} of ${figures.length} scenarios`;
    say(
      `${sweep.name}: ${sum('exist')} points exist${among}, ${sum('tried')} tried (${sum('reached')} reached), ` +
        `${sum('exist') - sum('tried')} left, ${violated.length} violated`,
    );
    for (const id of violated) say(`  node test/attack/main.ts --point ${id}`);
    isViolated ||= violated.length > 0;
  }
  return isViolated ? 1 : 0;
}
