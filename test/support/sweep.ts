import { availableParallelism } from 'node:os';

/** One attack that can be tried: where it strikes, and what then did not hold. */
export interface AttackPoint {
  /** Names the attack, so that it can be repeated alone: `ATTACK_POINT`. */
  readonly id: string;
  /** A sample takes from every stratum alike. */
  readonly stratum: string;
  /** @param lane the number of the worker, from 0; attacks of one lane never overlap */
  readonly attack: (lane: number) => Promise<Attacked>;
}

/** The result of an attack. */
export interface Attacked {
  /** Whether the program came to the point at all: what it does varies a little from run to run. */
  readonly isReached: boolean;
  /** The violations, one per line. */
  readonly violations: readonly string[];
}

/** How many attacks run at once. */
export const LANES = Math.max(1, Math.min(4, availableParallelism()));

/** How much is tried: `all`, or so many points of each sweep; otherwise each takes the small sample that it names. */
const asked = process.env['ATTACK'];
const isWhole = asked !== undefined;
const askedSize = asked === undefined || asked === 'all' ? null : wholeNumber('ATTACK', asked);

/** The choice of the sample. */
const seed = wholeNumber('ATTACK_SEED', process.env['ATTACK_SEED'] ?? String(Date.now() % 1_000_000_000));

function wholeNumber(name: string, text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new Error(`${name} takes a whole number, not ${JSON.stringify(text)}`);
  return Number(text);
}

/** One point, by its id; or all whose ids begin so, where it ends with a slash. */
const onlyPoint = process.env['ATTACK_POINT'];

function isAskedFor(id: string, only: string): boolean {
  return id === only || (only.endsWith('/') && id.startsWith(only));
}

/** Numbers from 0 up to 1 that a seed decides (mulberry32). */
export function randomOf(seedNumber: number): () => number {
  let state = seedNumber >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The same items in an order that the numbers decide (Fisher and Yates). */
export function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const all = [...items];
  for (let last = all.length - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1));
    [all[last], all[other]] = [all[other] as T, all[last] as T];
  }
  return all;
}

/** A sample of so many points, from all strata in turn. */
export function sampleOf<Point extends Pick<AttackPoint, 'stratum'>>(
  points: readonly Point[],
  count: number,
  seedNumber: number,
): Point[] {
  const random = randomOf(seedNumber);
  const strata = new Map<string, Point[]>();
  for (const point of shuffled(points, random)) {
    strata.set(point.stratum, [...(strata.get(point.stratum) ?? []), point]);
  }
  const queues = shuffled([...strata.values()], random);
  const rounds = Math.max(0, ...queues.map((queue) => queue.length));
  const chosen: Point[] = [];
  for (let round = 0; round < rounds; round += 1) {
    chosen.push(...queues.flatMap((queue) => queue.slice(round, round + 1)));
  }
  return chosen.slice(0, count);
}

/** The points that are tried now: one that was asked for, all, or a sample. */
export function chosenPoints<Point extends Pick<AttackPoint, 'id' | 'stratum'>>(
  points: readonly Point[],
  sampleSize: number,
): readonly Point[] {
  if (onlyPoint !== undefined) return points.filter(({ id }) => isAskedFor(id, onlyPoint));
  return asked === 'all' ? points : sampleOf(points, askedSize ?? sampleSize, seed);
}

/** The cells of a sweep whose points are looked at now: that of the one point that was asked for, all, or a sample. */
export function chosenCells<Cell extends { readonly id: string }>(
  sweepName: string,
  cells: readonly Cell[],
  sampleSize: number,
): readonly Cell[] {
  if (onlyPoint !== undefined)
    return cells.filter(({ id }) => {
      const begin = `${sweepName}/${id}/`;
      return onlyPoint.startsWith(begin) || begin.startsWith(onlyPoint);
    });
  return isWhole ? cells : shuffled(cells, randomOf(seed)).slice(0, sampleSize);
}

/** Does something for each item, so many at once; the results are in the items' order. */
export async function inLanes<Item, Result>(
  items: readonly Item[],
  work: (item: Item, lane: number) => Promise<Result>,
  lanes = LANES,
): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  const run = async (lane: number): Promise<void> => {
    for (let index = next++; index < items.length; index = next++) {
      results[index] = await work(items[index] as Item, lane);
    }
  };
  await Promise.all(Array.from({ length: lanes }, (_, lane) => run(lane)));
  return results;
}

/**
 * Tries points and says in one line how that went.
 * @throws Error when anything did not hold: which points, and how to repeat one
 */
export async function sweep(
  name: string,
  points: readonly AttackPoint[],
  sampleSize: number,
  lanes = LANES,
): Promise<void> {
  const chosen = chosenPoints(points, sampleSize);
  const failures: string[] = [];
  let done = 0;
  let reached = 0;
  const work = async (point: AttackPoint, lane: number): Promise<void> => {
    const { isReached, violations } = await attempt(point, lane);
    done += 1;
    if (isReached) reached += 1;
    if (violations.length > 0) failures.push(`${point.id}\n    ${violations.join('\n    ')}`);
    if (isWhole && violations.length > 0) say(`${name}: violated ${failures.at(-1)}`);
    if (done % 100 === 0) say(`${name}: ${done} of ${chosen.length} so far, ${failures.length} violated`);
  };
  await inLanes(chosen, work, lanes);
  say(
    `${name}: ${points.length} points exist, ${chosen.length} tried (${reached} reached), ${failures.length} violated; ATTACK_SEED=${seed}`,
  );
  if (failures.length === 0) return;
  throw new Error(
    `${failures.length} of ${chosen.length} attacks succeeded:\n  ${failures.join('\n  ')}\n` +
      `Repeat one with ATTACK_POINT=<its first line> npx vitest run --config test/vitest.config.ts <this file>`,
  );
}

/** Attacks; an attack that cannot be made counts as violated. */
export async function attempt(point: Pick<AttackPoint, 'attack'>, lane: number): Promise<Attacked> {
  try {
    return await point.attack(lane);
  } catch (error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { isReached: true, violations: [`the attack itself failed: ${text}`] };
  }
}

/** Prints a line past the test runner's own output. */
export function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
