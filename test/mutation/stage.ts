import { mkdtempSync } from 'node:fs';
import { join, relative } from 'node:path';
import { inspect } from 'node:util';

import type { TestCase, TestModule, TestSpecification, Vitest } from 'vitest/node';
import { createVitest } from 'vitest/node';

import { linesOf } from './notes.ts';

/** Limit of the total time of test files for a change: every file reaches `lib/errors/errors.ts`. */
const PATIENCE_MS = 15_000;

/** Runs the files in the given order: tests near to the source come first, not the longest. */
class InOrder {
  shard = (files: TestSpecification[]): TestSpecification[] => files;
  sort = (files: TestSpecification[]): TestSpecification[] => files;
}

/** The duration of a test file, and the changes that it reaches. */
interface Known {
  readonly tookMs: number;
  readonly ids: Set<number>;
}

/** Tests of some projects, repeated in one process. */
export class Stage {
  readonly #copy: string;
  readonly #hits: string;
  readonly #noticed: string;
  readonly #tried: string;
  readonly #vitest: Vitest;
  readonly #known = new Map<TestSpecification, Known>();
  /** Tests that fail without a change say nothing about changes. */
  readonly #unreliable = new Set<string>();
  #failures: string[] = [];
  #bails = false;

  private constructor(copy: string, hits: string, vitest: Vitest) {
    this.#copy = copy;
    this.#hits = hits;
    this.#noticed = join(copy, 'noticed');
    this.#tried = join(hits, 'tried');
    this.#vitest = vitest;
  }

  /**
   * Runs all tests of the projects once, and repeats each for the changes that it reaches, see `runner.ts`.
   * @param copy the project with all changes
   */
  static async open(copy: string, projects: readonly string[]): Promise<Stage> {
    const hits = mkdtempSync(join(copy, 'hits-'));
    const vitest = await createVitest({
      root: join(copy, 'test'),
      config: join(copy, 'test/vitest.config.ts'),
      project: [...projects],
      watch: false,
      maxWorkers: 1,
      sequence: { sequencer: InOrder },
      reporters: [
        {
          onTestCaseResult: (test) => {
            if (!test.ok()) stage.#fail(test, test.result().errors?.[0]?.message);
          },
          onTestModuleEnd: (file) => {
            for (const { message } of file.errors()) stage.#fail(file, message);
          },
        },
      ],
    });
    const stage: Stage = new Stage(copy, hits, vitest);
    await stage.#learn();
    return stage;
  }

  close(): Promise<void> {
    return this.#vitest.close();
  }

  /** Describes it in one line. */
  describe(): string {
    const names = [...this.#unreliable].map((name) => `; fails without a change: ${name}`);
    return `${this.#known.size} files of tests${names.join('')}`;
  }

  /** Finds a test that notices a change. @returns null if there is none */
  async noticedBy(id: number, file: string): Promise<string | null> {
    const noticed = this.#noticedInPassing().find(([each]) => each === String(id));
    if (noticed !== undefined) return noticed.slice(1).join(': ');
    // The tests that reached it have tried it. The rest are changes of decisions during loading.
    if (linesOf(this.#tried).includes(String(id))) return null;
    const near = [...this.#known]
      .filter(([each, { ids }]) => ids.has(id) || this.#distance(file, each) === 0)
      .sort(
        ([a, left], [b, right]) =>
          this.#distance(file, a) - this.#distance(file, b) || left.tookMs - right.tookMs,
      );
    let tookMs = 0;
    const chosen = near.filter(([, each], index) => (tookMs += each.tookMs) < PATIENCE_MS || index < 2);
    this.#bails = true;
    await this.#run(
      chosen.map(([specification]) => specification),
      { MUTATION: String(id) },
    );
    return this.#failures[0] ?? null;
  }

  #noticedInPassing(): string[][] {
    return linesOf(this.#noticed).map((line) => line.split('\t'));
  }

  async #learn(): Promise<void> {
    const all = await this.#vitest.globTestSpecifications();
    for (const { config } of this.#vitest.projects)
      config.runner = join(this.#copy, 'test/mutation/runner.ts');
    await this.#run(all, {
      MUTATION_HITS: this.#hits,
      MUTATION_NOTICED: this.#noticed,
      MUTATION_TRIED: this.#tried,
    });
    for (const { config } of this.#vitest.projects) delete config.runner;
    for (const name of this.#failures) this.#unreliable.add(name);
    for (const [id, name] of this.#noticedInPassing())
      if (id === '0' && name !== undefined) this.#unreliable.add(name);
    for (const specification of all) {
      const name = relative(this.#copy, specification.moduleId).replaceAll('/', '+');
      const ids = linesOf(join(this.#hits, name)).map((line) => line.split(' ')[0]);
      const tookMs = specification.testModule?.diagnostic().duration ?? 0;
      this.#known.set(specification, { tookMs, ids: new Set(ids.map(Number)) });
    }
  }

  async #run(files: TestSpecification[], env: Record<string, string>): Promise<void> {
    this.#failures = [];
    if (files.length === 0) return;
    for (const { config } of this.#vitest.projects)
      config.env = { ...config.env, MUTATION: '', MUTATION_ROOT: this.#copy, ...env };
    const { unhandledErrors } = await this.#vitest.runTestSpecifications(files);
    if (this.#failures.length === 0 && unhandledErrors.length > 0)
      this.#failures.push(`no test, but ${inspect(unhandledErrors[0]).split('\n')[0]}`);
  }

  #fail(test: TestCase | TestModule, message = ''): void {
    const file = test.type === 'test' ? test.module : test;
    const name = `${relative(this.#copy, file.moduleId)}${test.type === 'test' ? ` > ${test.name}` : ''}`;
    if (this.#unreliable.has(name)) return;
    if (!this.#bails) {
      this.#failures.push(name);
      return;
    }
    this.#failures.push(`${name}: ${message.split('\n')[0]}`);
    void this.#vitest.cancelCurrentRun('test-failure');
  }

  /** The distance of a test file from a source. */
  #distance(source: string, { moduleId }: TestSpecification): number {
    const from = source.replace(/\.ts$/, '').split('/').slice(1);
    const to = relative(this.#copy, moduleId)
      .replace(/(?:\.long)?\.test\.ts$/, '')
      .split('/')
      .slice(2);
    const shared = from.findIndex((part, index) => part !== to[index]);
    return shared < 0 ? 0 : from.length - shared + to.length - shared;
  }
}
