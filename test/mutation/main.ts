import { spawnSync } from 'node:child_process';
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';

import { randomOf, shuffled } from '../support/sweep.ts';
import { type Mutation, mutationsOf } from './mutations.ts';

/**
 * Changes one operator or condition of the sources after the other, at random places that a seed decides, runs the tests that import the
 * file, and lists the changes that no test noticed. Works on a copy below TMPDIR.
 */

const USAGE = `Usage: npm run test:mutation -- [options]

  --places N   how many places are tried (default 300)
  --skip N     leaves out the first N of them, which were tried before (default 0)
  --seed N     decides about the places (default 1)
  --only TEXT  places in files alone whose paths contain this
  --minutes N  begins no place after so many minutes

Exit codes: 0 tried, 2 usage.`;

const ROOT = join(import.meta.dirname, '../..');
/** A change that makes tests run without end is noticed. */
const TIMEOUT_MS = 10 * 60_000;
/** Files without tests that import them: these start the program in processes of their own. */
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

function mutated(source: string, { start, end, text }: Mutation): string {
  return source.slice(0, start) + text + source.slice(end);
}

/** The place in words: where it is, and the line before and after. */
function describePlace({ file, mutation }: Place, source: string): string {
  const line = source.slice(0, mutation.start).split('\n').length;
  const lineOf = (text: string): string => text.split('\n')[line - 1]?.trim() ?? '';
  return `${file}:${line}  ${lineOf(source)}  ->  ${lineOf(mutated(source, mutation))}`;
}

const WHICH = ['--project', 'unit*', '--project', 'integration', '--project', 'long'];
const HOW = [
  '--run',
  '--config',
  'test/vitest.config.ts',
  '--bail',
  '1',
  '--passWithNoTests',
  '--reporter',
  'dot',
];

/** Runs tests of the copy. @returns the first test that fails, or null where all pass */
function firstFailure(copy: string, args: readonly string[]): string | null {
  const { status, stderr } = spawnSync(join(ROOT, 'node_modules/.bin/vitest'), [...args, ...HOW, ...WHICH], {
    cwd: copy,
    timeout: TIMEOUT_MS,
    killSignal: 'SIGKILL',
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, PROPERTY_SEED: '1', NO_COLOR: '1', FORCE_COLOR: '0' },
  });
  if (status === 0) return null;
  return /FAIL +(.*)/.exec(stderr)?.[1] ?? `no test, but vitest ended with ${status}`;
}

/** What notices a change: the tests of its folder, or else one of those that import the file; null where nothing does. */
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
    skip: { type: 'string', default: '0' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string', default: '' },
    minutes: { type: 'string', default: 'Infinity' },
  },
});
const [count, skip, seed, minutes] = [values.places, values.skip, values.seed, values.minutes].map(Number);
if ([count, skip, seed, minutes].some((value) => Number.isNaN(value))) {
  process.stderr.write(`${USAGE}\n`);
  process.exit(2);
}
const all = allPlaces(values.only);
const chosen = shuffled(all, randomOf(seed ?? 1)).slice(skip, count);
say(`${all.length} places exist, ${chosen.length} are tried, seed ${seed}`);
const copy = copyProject();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
const endsAtMs = Date.now() + (minutes ?? Infinity) * 60_000;
const survivors: string[] = [];
let tried = 0;
for (const place of chosen) {
  if (Date.now() > endsAtMs) break;
  const text = describePlace(place, readFileSync(join(copy, place.file), 'utf8'));
  const by = noticedBy(copy, place);
  tried += 1;
  if (by === null) survivors.push(text);
  say(`${by === null ? 'SURVIVED' : 'noticed'} ${text}${by === null ? '' : `  by ${by}`}`);
}
say(`${tried} tried, ${tried - survivors.length} noticed, ${survivors.length} survived`);
for (const text of survivors) say(`  ${text}`);
