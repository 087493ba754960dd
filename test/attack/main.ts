import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { UsageError } from '../support/command-line.ts';
import { FakeService } from '../support/fake-service.ts';
import type { Launcher } from '../support/launcher.ts';
import { forkedNode, lastingNode, type WarmUp } from '../support/node-server.ts';
import { attempt, say, shuffled } from '../support/sweep.ts';
import { compileOnce, digestOf } from './build.ts';
import { Journal } from './journal.ts';
import { type Options, readOptions, USAGE } from './options.ts';
import type { Attacker } from './points.ts';
import { type Bench, prepare, type Prepared } from './prepare.ts';
import { placeAt, syncIn } from './program.ts';
import { type Cell, MIXED as WARM_UP } from './scenarios.ts';
import { beginOf, namesOn, NO_ATTACK, pointOf, type Sweep, SWEEPS } from './sweeps.ts';
import { readWhole, writeWhole } from './whole.ts';

/** Tries every point of every sweep once, in pieces: test/attack/README.md. Exit codes: 0 nothing is violated, 1 something is, 2 usage. */

/** What finds points, tries them and judges what became of them. */
const ATTACK_SOURCES = [
  'test/attack/{build,copies,full,invariants,large-files,mounts,points,power,prepare,program,scenarios,sweeps,trees}.ts',
  'test/support/{fake-service,gate,lasting-server,fork-server,launcher,node-server,orders,strace,sweep,wake-ups}.{ts,c}',
];
const ROOT = join(import.meta.dirname, '../..');
const LANE = 0;
/** Names the scenarios that were tried whole, so that a sweep goes on on another machine. */
const WHOLE = join(import.meta.dirname, 'whole.json');

interface Unit {
  readonly sweep: Sweep;
  readonly cell: Cell;
  /** What the ids of its points begin with. */
  readonly begin: string;
}

const ALL_UNITS = SWEEPS.flatMap((sweep) =>
  sweep.cells.map((cell): Unit => ({ sweep, cell, begin: beginOf(sweep, cell) })),
);

const options = optionsOrEnd();
const units = ALL_UNITS.filter(
  ({ begin }) => options.only.length === 0 || options.only.some((prefix) => begin.startsWith(prefix)),
);
const endsAtMs = Date.now() + options.lastsMs;
const build = await compileOnce();
let isStopped = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => (isStopped = true));
const isOver = (): boolean => isStopped || Date.now() >= endsAtMs;

if (options.point !== null) process.exitCode = await tryOne(options.point);
else {
  const folder = options.journal ?? join(ROOT, '.tmp/attack', build.digest);
  const edition = await digestOf(ATTACK_SOURCES);
  const version = `${build.digest}-${edition}`;
  const journal = new Journal(folder, edition, readWhole(WHOLE, version));
  if (!options.figuresOnly && !options.keepsWhole) await inHall(tryAll(journal));
  journal.refresh();
  if (options.keepsWhole) writeWhole(WHOLE, version, journal.whole(ALL_UNITS.map(({ begin }) => begin)));
  process.exitCode = tellFigures(journal);
}

/** Reads the command line; ends the process where it asks for help, or is wrong. */
function optionsOrEnd(): Options {
  try {
    const read = readOptions(
      process.argv.slice(2),
      ALL_UNITS.map(({ begin }) => begin),
    );
    if (read !== null) return read;
    process.stdout.write(`${USAGE}\n`);
    process.exit(0);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    process.stderr.write(`error: ${error.message}\n`);
    process.exit(2);
  }
}

/** Tries one point by its id, and says all that it found. */
async function tryOne(id: string): Promise<number> {
  const unit = ALL_UNITS.find(({ begin }) => id.startsWith(begin));
  if (unit === undefined) throw new Error(`there is no point ${id}`);
  return inHall(async (hall) => {
    const attacker = unit.sweep.open(hall.folder, 1);
    const prepared = await prepare(unit.cell, benchFor(unit.sweep, hall));
    const point = pointOf(unit.sweep, attacker, prepared, id.slice(unit.begin.length));
    const { isReached, violations } = await attempt(point, LANE);
    await attacker.close();
    await prepared.close();
    say(
      `${id}: ${isReached ? 'reached' : 'not reached'}, ${violations.length === 0 ? 'holds' : violations.join('\n  ')}`,
    );
    return violations.length === 0 ? 0 : 1;
  });
}

/** Runs the program once, on a service with something of each kind. */
function warmUpIn(folder: string): WarmUp {
  return async (run) => {
    const service = await FakeService.start();
    WARM_UP.fill(service);
    const place = await placeAt(join(folder, 'warm-up'));
    await run(syncIn(build.main, place, service.baseUrl, WARM_UP.settings));
    await service.close();
    await rm(place.root, { recursive: true });
  };
}

/** Where the points of all sweeps can be tried. */
interface Hall {
  readonly folder: string;
  /** Runs each in a process of its own. */
  readonly forked: Launcher;
  /** Runs all in the same process. */
  readonly lasting: Launcher;
}

function benchFor({ isDeadly }: Sweep, { folder, forked, lasting }: Hall): Bench {
  return { main: build.main, attacked: isDeadly ? forked : lasting, launcher: lasting, folder };
}

async function inHall<T>(work: (hall: Hall) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'workbook-mirror-attack-'));
  const warmUp = warmUpIn(folder);
  const forked = await forkedNode(folder, warmUp);
  const lasting = await lastingNode(folder, warmUp);
  try {
    return await work({ folder, forked, lasting });
  } finally {
    await forked.close();
    await lasting.close();
    await rm(folder, { recursive: true, force: true });
  }
}

function tryAll(journal: Journal): (hall: Hall) => Promise<void> {
  return async (hall) => {
    for (const unit of shuffled(units, Math.random)) {
      if (isOver()) return;
      if (!journal.claim(unit.begin)) continue;
      journal.refresh();
      try {
        await tryUnit(unit, journal, hall);
      } catch (error) {
        tellUntried(unit, journal, error);
      } finally {
        journal.release(unit.begin);
      }
    }
  };
}

/** Counts a unit that cannot be prepared as violated, beside the points of it that are known. */
function tellUntried({ begin }: Unit, journal: Journal, error: unknown): void {
  const text = `it cannot be tried: ${error instanceof Error ? error.stack : String(error)}`;
  say(`violated: ${begin}${NO_ATTACK}\n    ${text}`);
  journal.keepNames(begin, [...new Set([...(journal.names(begin) ?? []), NO_ATTACK])]);
  journal.record(`${begin}${NO_ATTACK}`, { isReached: true, violations: [text] });
}

/** Tries the points of a unit that are left. */
async function tryUnit(unit: Unit, journal: Journal, hall: Hall): Promise<void> {
  const { sweep, cell, begin } = unit;
  const names = journal.names(begin);
  const isDone = names?.some((name) => isLeft(unit, journal, name)) === false;
  if (isDone || journal.isWhole(begin) || !sweep.isPossible()) return;
  const prepared = await prepare(cell, benchFor(sweep, hall));
  try {
    const attacker = sweep.open(hall.folder, 1);
    try {
      // What could not be tried without an attack may have other points now.
      if (names === null || names.includes(NO_ATTACK)) journal.keepNames(begin, namesOn(attacker, prepared));
      await tryLeft(unit, attacker, prepared, journal);
    } finally {
      await attacker.close();
    }
  } finally {
    await prepared.close();
  }
}

function isLeft({ begin }: Unit, journal: Journal, name: string): boolean {
  if (!name.includes(options.with)) return false;
  const result = journal.result(`${begin}${name}`);
  return result === undefined || (options.triesAgain && result.violations.length > 0);
}

async function tryLeft(unit: Unit, attacker: Attacker, prepared: Prepared, journal: Journal): Promise<void> {
  for (const name of journal.names(unit.begin) ?? []) {
    if (isOver()) return;
    if (!isLeft(unit, journal, name)) continue;
    const point = pointOf(unit.sweep, attacker, prepared, name);
    const attacked = await attempt(point, LANE);
    journal.record(point.id, attacked);
    if (attacked.violations.length > 0)
      say(`violated: ${point.id}\n    ${attacked.violations.join('\n    ')}`);
  }
}

/** Says how much was tried of this build. @returns the exit code: 1 where something was violated */
function tellFigures(journal: Journal): number {
  say(`build ${build.digest}, journal ${journal.folder}`);
  let isViolated = false;
  for (const sweep of SWEEPS) {
    const figures = sweep.cells.map((cell) => journal.figures(beginOf(sweep, cell)));
    const found = figures.filter((each) => each !== null);
    const sum = (of: 'exist' | 'tried' | 'reached'): number =>
      found.reduce((total, each) => total + each[of], 0);
    const violated = found.flatMap((each) => each.violated);
    const unknown = figures.length - found.length;
    say(
      `${sweep.name}: ${sum('exist')} points exist${unknown === 0 ? '' : ` in ${found.length} of ${figures.length} scenarios`}, ` +
        `${sum('tried')} tried (${sum('reached')} reached), ${sum('exist') - sum('tried')} left, ${violated.length} violated`,
    );
    for (const { id } of violated) say(`  node test/attack/main.ts --point ${id}`);
    isViolated ||= violated.length > 0;
  }
  return isViolated ? 1 : 0;
}
