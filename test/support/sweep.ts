import { availableParallelism } from 'node:os';

/** One possible attack. */
export interface AttackPoint {
  /** Its name, with which it can be repeated alone: `ATTACK_POINT`. */
  readonly id: string;
  /** A sample takes equally from every stratum. */
  readonly stratum: string;
  /** @param lane the number of the worker, from 0; attacks of one lane never overlap */
  readonly attack: (lane: number) => Promise<Attacked>;
}

/** The result of an attack. */
export interface Attacked {
  /** Whether the program reached the point: its calls vary a little between runs. */
  readonly isReached: boolean;
  /** The violations, one per line. */
  readonly violations: readonly string[];
}

/** The number of concurrent attacks. */
export const LANES = Math.max(1, Math.min(4, availableParallelism()));

/** `all`, or a number of points for each sweep; by default, each sweep takes its own small sample. */
const asked = process.env['ATTACK'];
const isWhole = asked !== undefined;
const askedSize = asked === undefined || asked === 'all' ? null : wholeNumber('ATTACK', asked);

/** The seed of the sample. */
const seed = wholeNumber('ATTACK_SEED', process.env['ATTACK_SEED'] ?? String(Date.now() % 1_000_000_000));

function wholeNumber(name: string, text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new Error(`${name} takes a whole number, not ${JSON.stringify(text)}`);
  return Number(text);
}

/** The id of one point; with a slash at the end, the beginning of several ids. */
const onlyPoint = process.env['ATTACK_POINT'];

function isAskedFor(id: string, only: string): boolean {
  return id === only || (only.endsWith('/') && id.startsWith(only));
}

/** Pseudo-random numbers from 0 up to 1 (mulberry32). */
export function randomOf(seedNumber: number): () => number {
  let state = seedNumber >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The items in random order (Fisher and Yates). */
export function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const all = [...items];
  for (let last = all.length - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1));
    [all[last], all[other]] = [all[other] as T, all[last] as T];
  }
  return all;
}

/** A sample of points, from all strata in turn. */
function sampleOf(points: readonly AttackPoint[], count: number): AttackPoint[] {
  const random = randomOf(seed);
  const strata = Map.groupBy(shuffled(points, random), ({ stratum }) => stratum);
  const queues = shuffled([...strata.values()], random);
  const rounds = Math.max(0, ...queues.map((queue) => queue.length));
  return Array.from({ length: rounds }, (_, round) => queues.flatMap((queue) => queue[round] ?? []))
    .flat()
    .slice(0, count);
}

/** The points to try now: the requested one, all, or a sample. */
function chosenPoints(points: readonly AttackPoint[], sampleSize: number): readonly AttackPoint[] {
  if (onlyPoint !== undefined) return points.filter(({ id }) => isAskedFor(id, onlyPoint));
  return asked === 'all' ? points : sampleOf(points, askedSize ?? sampleSize);
}

/** The cells whose points are tried now: that of the requested point, all, or a sample. */
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

/** Maps items concurrently, up to a limit. Results are in the order of the items. */
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
 * Tries points and prints one line about the result.
 * @throws Error with the violated points, and how to repeat one
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

/** Attacks. An attack that cannot be made counts as a violation. */
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
