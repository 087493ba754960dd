import { spawnSync } from 'node:child_process';
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';

import { randomOf, shuffled } from '../support/sweep.ts';
import { type Mutation, mutated, mutationsOf } from './mutations.ts';

/**
 * Changes operators and conditions of the sources, one at a time, at random places chosen by a seed. Runs the tests of each file, and lists the
 * changes that no test noticed. Works on a copy below TMPDIR.
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

const VITEST = join(ROOT, 'node_modules/.bin/vitest');
const OPTIONS = '--run --config test/vitest.config.ts --bail 1 --passWithNoTests --reporter dot'.split(' ');
const PROJECTS = ['unit*', 'integration', 'long'].flatMap((name) => ['--project', name]);
/** A change that makes tests run without end is noticed, too. */
const TIMEOUT_MS = 10 * 60_000;

/** Runs tests of the copy. @returns the first test that fails, or null if all pass */
function firstFailure(copy: string, args: readonly string[]): string | null {
  const { status, stderr } = spawnSync(VITEST, [...args, ...OPTIONS, ...PROJECTS], {
    cwd: copy,
    timeout: TIMEOUT_MS,
    killSignal: 'SIGKILL',
    encoding: 'utf8',
    env: { ...process.env, PROPERTY_SEED: '1', NO_COLOR: '1', FORCE_COLOR: '0' },
  });
  if (status === 0) return null;
  return /FAIL +(.*)/.exec(stderr)?.[1] ?? `no test, but vitest ended with ${status}`;
}

/** The test that notices a change: one of its folder, or else one that imports the file; null if none does. */
function noticedBy(copy: string, { file, mutation }: Place): string | null {
  const path = join(copy, file);
  const source = readFileSync(path, 'utf8');
  writeFileSync(path, mutated(source, mutation));
  try {
    const folder = `${dirname(file).replace(/^src\//, '')}/`;
    return firstFailure(copy, ['run', folder]) ?? firstFailure(copy, ['related', file]);
  } finally {
    writeFileSync(path, source);
  }
}

function copyProject(): string {
  const copy = mkdtempSync(join(tmpdir(), 'workbook-mirror-mutation-'));
  process.once('exit', () => rmSync(copy, { recursive: true, force: true }));
  const { stdout } = spawnSync('git', ['ls-files', '-z'], { cwd: ROOT, encoding: 'utf8' });
  for (const file of stdout.split('\0').filter((name) => name !== ''))
    cpSync(join(ROOT, file), join(copy, file));
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  return copy;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
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
const copy = copyProject();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
const survivors: string[] = [];
for (const place of chosen) {
  const text = describePlace(place);
  const by = noticedBy(copy, place);
  if (by === null) survivors.push(text);
  say(by === null ? `survived ${text}` : `noticed ${text}  by ${by}`);
}
say(`${chosen.length} tried, ${chosen.length - survivors.length} noticed, ${survivors.length} survived`);
for (const text of survivors) say(`  ${text}`);
