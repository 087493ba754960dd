import { spawnSync } from 'node:child_process';
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { randomOf, say, shuffled } from '../support/sweep.ts';
import { type Mutation, mutated, mutationsOf, switched } from './mutations.ts';
import { Stage } from './stage.ts';

/**
 * Changes operators and conditions of the sources, one at a time, at random places chosen by a seed. Runs the tests that execute each place, and
 * lists the changes that no test noticed. All changes are in one copy of the sources, below TMPDIR, each behind a switch, so that the sources
 * are transformed, bundled and loaded only once.
 */

const USAGE = `Usage: npm run test:mutation -- [options]

  --places N   how many places are tried (default 300)
  --seed N     decides about the places (default 1)
  --only TEXT  places in files alone whose paths contain this

Exit codes: 0 tried, 2 usage.`;

const ROOT = join(import.meta.dirname, '../..');
/** Files that no test imports: their tests start the program. */
const LEFT_OUT = /\/page\/|\/main\.ts$|\.d\.ts$|^src\/server\/demo\//;

interface Place {
  readonly file: string;
  readonly mutation: Mutation;
}

function allPlaces(only: string): Place[] {
  return globSync('src/**/*.ts', { cwd: ROOT })
    .filter((file) => !LEFT_OUT.test(file) && file.includes(only))
    .sort()
    .flatMap((file) =>
      mutationsOf(readFileSync(join(ROOT, file), 'utf8')).map((mutation) => ({ file, mutation })),
    );
}

/** Describes a place: its position, and its line before and after. */
function describePlace({ file, mutation }: Place): string {
  const source = readFileSync(join(ROOT, file), 'utf8');
  const line = source.slice(0, mutation.start).split('\n').length;
  const lineOf = (text: string): string => text.split('\n')[line - 1]?.trim() ?? '';
  return `${file}:${line}  ${lineOf(source)}  ->  ${lineOf(mutated(source, mutation))}`;
}

/** The source of the switch of a file, which also notes the changes that are reached. */
function switchOf(file: string): string {
  return `
function mutationIsOn(id) {
  const state = (globalThis.mutation ??= {
    on: Number(process.env.MUTATION), file: process.env.MUTATION_HIT_FILE, seen: new Set(), calls: 0
  });
  if (state.file !== undefined && !state.seen.has(id)) {
    state.seen.add(id);
    try { process.getBuiltinModule('node:fs').appendFileSync(state.file, id + ' ${file}\\n'); } catch {}
  }
  if (state.on !== id) return false;
  if (++state.calls > 20_000_000) throw new Error('the change makes it run without end');
  return true;
}
`;
}

/** A copy of the project with these changes, numbered by their index. */
function copyProject(places: readonly Place[]): string {
  const copy = mkdtempSync(join(tmpdir(), 'workbook-mirror-mutation-'));
  process.once('exit', () => rmSync(copy, { recursive: true, force: true }));
  const { stdout } = spawnSync('git', ['ls-files', '-z'], { cwd: ROOT, encoding: 'utf8' });
  for (const file of stdout.split('\0').filter((name) => name !== ''))
    cpSync(join(ROOT, file), join(copy, file));
  for (const file of new Set(places.map((place) => place.file))) {
    const here = [...places.entries()].filter(([, place]) => place.file === file);
    const source = readFileSync(join(ROOT, file), 'utf8');
    const mutations = new Map(here.map(([id, { mutation }]) => [id + 1, mutation]));
    writeFileSync(join(copy, file), switched(source, mutations, 'mutationIsOn') + switchOf(file));
  }
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  return copy;
}

const { values } = parseArgs({
  options: {
    places: { type: 'string', default: '300' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string', default: '' },
  },
});
const [count, seed] = [values.places, values.seed].map(Number);
if ([count, seed].some((value) => Number.isNaN(value))) {
  process.stderr.write(`${USAGE}\n`);
  process.exit(2);
}
const existing = allPlaces(values.only);
const chosen = shuffled(existing, randomOf(seed ?? 1)).slice(0, count);
say(`${existing.length} places exist, ${chosen.length} are tried, seed ${seed}`);
const copy = copyProject(chosen);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
Object.assign(process.env, { MUTATION_ROOT: copy, PROPERTY_SEED: '1', NO_COLOR: '1', FORCE_COLOR: '0' });
/** The cheapest tests come first: others only get the changes that these do not notice. */
let left = chosen.map((place, index) => ({ id: index + 1, file: place.file, text: describePlace(place) }));
for (const projects of [['unit', 'unit-mocking'], ['integration', 'long'], ['e2e']]) {
  const stage = await Stage.open(copy, projects);
  say(`${projects.join(', ')}: ${stage.describe()}`);
  const passed: typeof left = [];
  for (const place of left) {
    const by = await stage.noticedBy(place.id, place.file);
    if (by === null) passed.push(place);
    else say(`noticed ${place.id} ${place.text}  by ${by}`);
  }
  left = passed;
  await stage.close();
}
say(`${chosen.length} tried, ${chosen.length - left.length} noticed, ${left.length} survived`);
for (const { id, text } of left) say(`  ${id} ${text}`);
