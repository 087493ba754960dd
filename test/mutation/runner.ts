import { appendFileSync } from 'node:fs';
import { relative } from 'node:path';

import { type RunnerTestCase, TestRunner } from 'vitest';

import { linesOf } from './notes.ts';

/** Repeats each test for each change that it reaches, and records the changes that make it fail. */

const { MUTATION_ROOT = '', MUTATION_NOTICED = '', MUTATION_TRIED = '' } = process.env;
/** More than any test reaches. */
const ATTEMPTS = 500;
/** Longer tests run in a separate process, and no more time is spent on one change here, in milliseconds. */
const LONG_MS = 20_000;
const SPENT_MS = 60_000;
/** Tests of other wings try a change only if they are not longer. Tests of the whole program are of every wing. */
const FAR_MS = 500;
/** A test that takes this many times as long, and at least this long, waits for something that the change prevents: it noticed. */
const HANGS_TIMES = 6;
const HANGS_MS = 15_000;
/** The real timer and clock, even if a test replaces them. */
const after = setTimeout;
const now = performance.now.bind(performance);

const spentMs = new Map<string, number>();

function makeChange(id: string): void {
  const file = process.env['MUTATION_HIT_FILE'];
  process.env['MUTATION'] = id;
  Object.assign(globalThis, { mutation: { on: Number(id), file, seen: new Set(), calls: 0 } });
}

async function failureOf(test: () => Promise<unknown>, limitMs: number): Promise<string | null> {
  const hangs = Promise.withResolvers<never>();
  const timer = after(() => hangs.reject(new Error('it hangs')), limitMs);
  try {
    await Promise.race([test(), hangs.promise]);
    return null;
  } catch (error) {
    return String(error).split('\n')[0] ?? '';
  } finally {
    clearTimeout(timer);
  }
}

/** The attempts of one test follow each other, each with its hooks: first without a change, then with each change. */
export default class MutationRunner extends TestRunner {
  #left: string[] | null = null;
  #limitMs = HANGS_MS;
  #suspect: { readonly id: string; readonly why: string } | null = null;

  override async onBeforeRunTask(test: RunnerTestCase): Promise<void> {
    await super.onBeforeRunTask(test);
    test.retry = ATTEMPTS;
    this.#left = null;
    this.#suspect = null;
  }

  async runTask(test: RunnerTestCase): Promise<void> {
    const run = TestRunner.getTestFn(test) as () => Promise<unknown>;
    const name = `${relative(MUTATION_ROOT, test.file.filepath)} > ${test.name}`;
    if (this.#left === null) this.#left = await this.#changesOf(run, name);
    else if (this.#suspect === null) await this.#tryNext(run);
    else await this.#confirm(run, name);
    if (this.#suspect !== null || this.#left.length > 0) throw new Error('one attempt more');
  }

  /** The changes that a test reaches. */
  async #changesOf(run: () => Promise<unknown>, name: string): Promise<string[]> {
    const file = process.env['MUTATION_HIT_FILE'] ?? '';
    const before = linesOf(file).length;
    makeChange('0');
    const startedAtMs = now();
    const why = await failureOf(run, LONG_MS);
    if (why !== null) appendFileSync(MUTATION_NOTICED, `0\t${name}\t${why}\n`);
    const tookMs = now() - startedAtMs;
    this.#limitMs = Math.max(HANGS_MS, HANGS_TIMES * tookMs);
    if (why !== null) return [];
    const noticed = new Set(linesOf(MUTATION_NOTICED).map((line) => line.split('\t')[0]));
    const wing = /^test\/\w+\/(\w+)\//.exec(name)?.[1];
    const near = new Set([wing, 'app', 'config', 'lib']);
    return [...new Set(linesOf(file).slice(before))].flatMap((line) => {
      const [id = '', source = ''] = line.split(' ');
      const isNear = wing === undefined || near.has(source.split('/')[1]) || tookMs < FAR_MS;
      const isTried = isNear && !noticed.has(id);
      return isTried && (spentMs.get(id) ?? 0) < SPENT_MS ? [id] : [];
    });
  }

  async #tryNext(run: () => Promise<unknown>): Promise<void> {
    const id = this.#left?.pop() ?? '0';
    if (!spentMs.has(id)) appendFileSync(MUTATION_TRIED, `${id}\n`);
    const startedAtMs = now();
    makeChange(id);
    const why = await failureOf(run, this.#limitMs);
    makeChange('0');
    spentMs.set(id, (spentMs.get(id) ?? 0) + now() - startedAtMs);
    if (why !== null) this.#suspect = { id, why };
  }

  /** Only a test that passes again without the change has noticed it. */
  async #confirm(run: () => Promise<unknown>, name: string): Promise<void> {
    const isSound = (await failureOf(run, this.#limitMs)) === null;
    if (isSound) appendFileSync(MUTATION_NOTICED, `${this.#suspect?.id}\t${name}\t${this.#suspect?.why}\n`);
    else this.#left = [];
    this.#suspect = null;
  }
}
