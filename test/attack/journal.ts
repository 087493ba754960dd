import {
  appendFileSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';

import type { Attacked } from '../support/sweep.ts';
import type { WholeScenarios } from './whole.ts';

/** The result of a point, a line of JSON in a journal. */
interface Result extends Attacked {
  readonly id: string;
  readonly edition: string;
  readonly atMs: number;
}

/** How much of something was tried. */
export interface Figures {
  readonly exist: number;
  readonly tried: number;
  readonly reached: number;
  readonly violated: readonly Result[];
}

/**
 * What was tried of one build, in a folder that several processes use at once: each writes its results to a file of its own,
 * and claims what it works on.
 */
export class Journal {
  readonly folder: string;
  /** Lists of points and their results are of this. */
  readonly #edition: string;
  readonly #results = new Map<string, Result>();
  readonly #whole: WholeScenarios;

  /**
   * @param edition tells the attacks from those of other versions: what these found counts no more
   * @param whole what was tried elsewhere
   */
  constructor(folder: string, edition: string, whole: WholeScenarios) {
    this.folder = folder;
    this.#edition = edition;
    this.#whole = whole;
    for (const name of ['results', 'points', 'claims']) mkdirSync(join(folder, name), { recursive: true });
    this.refresh();
  }

  /** Reads what others have tried meanwhile. */
  refresh(): void {
    for (const file of globSync(join(this.folder, 'results/*.jsonl'))) {
      for (const line of readFileSync(file, 'utf8').split('\n')) {
        if (line !== '') this.#take(JSON.parse(line) as Result);
      }
    }
  }

  #take(result: Result): void {
    if (result.edition !== this.#edition) return;
    if ((this.#results.get(result.id)?.atMs ?? 0) <= result.atMs) this.#results.set(result.id, result);
  }

  result(id: string): Attacked | undefined {
    return this.#results.get(id);
  }

  record(id: string, attacked: Attacked): void {
    const result: Result = { id, edition: this.#edition, atMs: Date.now(), ...attacked };
    appendFileSync(join(this.folder, `results/${process.pid}.jsonl`), `${JSON.stringify(result)}\n`);
    this.#take(result);
  }

  #listOf(begin: string): string {
    return join(this.folder, 'points', `${fileNameOf(begin)}-${this.#edition}.json`);
  }

  /** The names of the points whose ids begin so; null where nobody has found them yet. */
  names(begin: string): readonly string[] | null {
    const file = this.#listOf(begin);
    return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as string[]) : null;
  }

  keepNames(begin: string, names: readonly string[]): void {
    writeFileSync(this.#listOf(begin), JSON.stringify(names));
  }

  /** Takes points for this process alone. @returns whether nobody else has them */
  claim(begin: string): boolean {
    const file = join(this.folder, 'claims', fileNameOf(begin));
    if (existsSync(file) && !isAlive(Number(readFileSync(file, 'utf8')))) rmSync(file, { force: true });
    try {
      writeFileSync(file, String(process.pid), { flag: 'wx' });
      return true;
    } catch {
      return false;
    }
  }

  release(begin: string): void {
    rmSync(join(this.folder, 'claims', fileNameOf(begin)), { force: true });
  }

  /** Whether all points whose ids begin so were tried elsewhere and held. */
  isWhole(begin: string): boolean {
    return this.#whole.has(begin);
  }

  /** Adds up the points whose ids begin so; null where nobody has found them yet. */
  figures(begin: string): Figures | null {
    const whole = this.#whole.get(begin);
    if (whole !== undefined)
      return { exist: whole.points, tried: whole.points, reached: whole.reached, violated: [] };
    const names = this.names(begin);
    if (names === null) return null;
    const results = names.flatMap((name) => this.#results.get(`${begin}${name}`) ?? []);
    return {
      exist: names.length,
      tried: results.length,
      reached: results.filter(({ isReached }) => isReached).length,
      violated: results.filter(({ violations }) => violations.length > 0),
    };
  }

  /** Those of which all points were tried and held, here or elsewhere. @param begins what the ids of their points begin with */
  whole(begins: readonly string[]): WholeScenarios {
    return new Map(
      begins.flatMap((begin) => {
        const figures = this.figures(begin);
        if (figures === null || figures.tried < figures.exist || figures.violated.length > 0) return [];
        return [[begin, { points: figures.exist, reached: figures.reached }]];
      }),
    );
  }
}

function fileNameOf(begin: string): string {
  return begin.replaceAll('/', '.');
}

function isAlive(pid: number): boolean {
  return existsSync(`/proc/${pid}`);
}
