import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Attacked } from '../support/sweep.ts';

/** A line of the file: the points of a scenario, or what became of one. */
type Line =
  | { readonly begin: string; readonly names: readonly string[] }
  | { readonly id: string; readonly attacked: Attacked };

/** How much of something was tried. */
interface Figures {
  readonly exist: number;
  readonly tried: number;
  readonly reached: number;
  /** The ids of the points that were violated when they were last tried. */
  readonly violated: readonly string[];
}

/** Keeps which points there are and what became of them, so that a sweep continues where it stopped. */
export class Journal {
  readonly #file: string;
  readonly #names = new Map<string, readonly string[]>();
  readonly #results = new Map<string, Attacked>();

  /** @param folder is about one version of the program and of the attacks */
  constructor(folder: string) {
    mkdirSync(folder, { recursive: true });
    this.#file = join(folder, 'journal.jsonl');
    if (!existsSync(this.#file)) return;
    // The last line was cut off where the sweep was killed.
    const lines = readFileSync(this.#file, 'utf8').split('\n').slice(0, -1);
    for (const line of lines) this.#take(JSON.parse(line) as Line);
  }

  #take(line: Line): void {
    if ('begin' in line) this.#names.set(line.begin, line.names);
    else this.#results.set(line.id, line.attacked);
  }

  #add(line: Line): void {
    appendFileSync(this.#file, `${JSON.stringify(line)}\n`);
    this.#take(line);
  }

  result(id: string): Attacked | undefined {
    return this.#results.get(id);
  }

  record(id: string, attacked: Attacked): void {
    this.#add({ id, attacked });
  }

  /** The names of the points whose ids begin so; null where they were not looked for yet. */
  names(begin: string): readonly string[] | null {
    return this.#names.get(begin) ?? null;
  }

  keepNames(begin: string, names: readonly string[]): void {
    this.#add({ begin, names });
  }

  /** Adds up the points whose ids begin so; null where they were not looked for yet. */
  figures(begin: string): Figures | null {
    const names = this.names(begin);
    if (names === null) return null;
    const found = names.flatMap((name) => {
      const attacked = this.#results.get(`${begin}${name}`);
      return attacked === undefined ? [] : [{ id: `${begin}${name}`, ...attacked }];
    });
    return {
      exist: names.length,
      tried: found.length,
      reached: found.filter(({ isReached }) => isReached).length,
      violated: found.filter(({ violations }) => violations.length > 0).map(({ id }) => id),
    };
  }
}
