import { readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { layoutOf } from '../../src/mirror/store/layout.ts';
import { otherInstances } from '../../src/mirror/store/shards.ts';
import { readTargetList } from '../../src/mirror/store/documents.ts';
import type { Place } from './program.ts';
import {
  describeTree,
  ifThere,
  isSameTree,
  leavesBelow,
  manifestFaults,
  readTree,
  type Tree,
} from './trees.ts';

/** The laws for published trees at every moment. */
export interface Expectation {
  /** The allowed trees of each target's path. */
  readonly allowed: ReadonlyMap<string, readonly (Tree | null)[]>;
  /** The promise to readers: whole trees or, with `publish: rename`, whole files. */
  readonly promise: 'whole-trees' | 'whole-files';
  /** Contents that must be in at least one of two places: a tree that moves, or is retired to the history. */
  readonly preserved: readonly { readonly from: string; readonly to: string }[];
}

/** The violations of these laws. */
export async function treeFaults(directory: string, expectation: Expectation): Promise<string[]> {
  const faults: string[] = [];
  for (const [target, states] of expectation.allowed) {
    const tree = await readTree(join(directory, 'mirror', target));
    const fits =
      expectation.promise === 'whole-trees'
        ? states.some((state) => isSameTree(state, tree))
        : isPiecewise(tree, states);
    if (!fits) {
      faults.push(`${target} is ${describeTree(tree)}; allowed: ${states.map(describeTree).join(' | ')}`);
    }
  }
  return faults;
}

/** Whether every file belongs to some state, and the files of all states are there. */
function isPiecewise(tree: Tree | null, states: readonly (Tree | null)[]): boolean {
  if (tree === null) return states.includes(null);
  const known = states.filter((state) => state !== null);
  const isKnown = [...tree].every(([path, digest]) => known.some((state) => state.get(path) === digest));
  const [first, ...others] = known;
  const lasting = [...(first?.keys() ?? [])].filter((path) => others.every((state) => state.has(path)));
  return isKnown && lasting.every((path) => tree.has(path));
}

/** The lost contents: neither at their old nor at their new path. */
export async function lostTrees(directory: string, { preserved }: Expectation): Promise<string[]> {
  const lost: string[] = [];
  for (const { from, to } of preserved) {
    const places = await Promise.all([from, to].map((path) => leavesBelow(join(directory, path))));
    if (places.every((leaves) => leaves.length === 0)) lost.push(`neither ${from} nor ${to} is there`);
  }
  return lost;
}

/** Files below `mirror/` that belong to no known target. */
export async function strayFiles(directory: string, { allowed }: Expectation): Promise<string[]> {
  const targets = [...allowed.keys()].map((target) => `${target}/`);
  const leaves = await leavesBelow(join(directory, 'mirror'));
  return leaves
    .filter((path) => !targets.some((target) => path.startsWith(target) || target.startsWith(`${path}/`)))
    .map((path) => `mirror/${path} belongs to no target`);
}

/** Least pause of the reader, which also pauses as long as it read, so that it does not slow the program down. */
const READER_PAUSE_MS = 20;

/** Starts a reader beside the program, which repeatedly lists and reads every published tree. */
export function startReader(directory: string, expectation: Expectation) {
  const seen = new Set<string>();
  const over = new AbortController();
  const reading = (async () => {
    while (!over.signal.aborted) {
      const startMs = performance.now();
      for (const fault of await treeFaults(directory, expectation)) seen.add(`a reader saw: ${fault}`);
      await sleep(Math.max(READER_PAUSE_MS, performance.now() - startMs));
    }
  })();
  /** Ends it. @returns each violation once */
  const stop = async (): Promise<string[]> => {
    over.abort();
    await reading;
    return [...seen];
  };
  return { stop, [Symbol.asyncDispose]: async () => void (await stop()) };
}

/** The differences between mirror and service after a successful pass. */
export async function convergenceFaults(
  place: Place,
  expected: ReadonlyMap<string, Tree>,
): Promise<string[]> {
  const { directory } = place;
  const targets = [...expected.keys()];
  const faults: string[] = [];
  for (const [target, tree] of expected) {
    const found = await readTree(join(directory, 'mirror', target));
    if (!isSameTree(found, tree))
      faults.push(`${target} is ${describeTree(found)}, not ${describeTree(tree)}`);
    faults.push(...(await manifestFaults(directory, target)));
  }
  const { state, targets: listed } = await readTargetList(layoutOf(directory));
  const named = listed.map(({ path }) => path).join(', ');
  if (state !== 'ok') faults.push(`the inventory is ${state}`);
  if (named !== targets.sort().join(', ')) faults.push(`the inventory names ${named}`);
  return [...faults, ...(await leftovers(place, targets))];
}

/** The entries of a mirror's directory (manual, "On disk"); a separate file system has one more. */
const KNOWN_ENTRIES: ReadonlySet<string> = new Set([
  'mirror',
  'manifests',
  'history',
  'trees',
  'inventory.json',
  '.workbook-mirror',
  'lost+found',
]);

/** Leftovers: outside of the directory, in the staging area, of targets that are gone, and unknown entries. */
async function leftovers({ root, directory, scratch }: Place, targets: readonly string[]): Promise<string[]> {
  const published = (await leavesBelow(join(directory, 'mirror'))).filter(
    (path) => !targets.some((target) => path === target || path.startsWith(`${target}/`)),
  );
  const manifests = (await leavesBelow(join(directory, 'manifests'))).filter(
    (path) => !targets.some((target) => path === `${target}.json`),
  );
  const strangers = (await readdir(directory)).filter((name) => !KNOWN_ENTRIES.has(name));
  const outside = (await readdir(root)).filter(
    (name) => ![directory, scratch].includes(join(root, name)) && name !== 'lost+found',
  );
  return [
    ...published.map((path) => `mirror/${path} is left over`),
    ...manifests.map((path) => `manifests/${path} is left over`),
    ...strangers.map((name) => `${name} is left over`),
    ...(await stagesLeft(directory)),
    ...[...outside, ...(await leavesBelow(scratch))].map((name) => `${name} was written outside`),
  ];
}

/** Leftover stages of any instance. */
export async function stagesLeft(directory: string): Promise<string[]> {
  const layout = layoutOf(directory);
  const staged = [layout, ...(await otherInstances(layout))].map(async ({ staging }) =>
    ((await ifThere(readdir(staging))) ?? []).map(
      (name) => `${relative(directory, join(staging, name))} is left over`,
    ),
  );
  return (await Promise.all(staged)).flat();
}

/** The faults in the history of a target of which one state left the mirror: in its manifest, or in files that are no longer published. */
export async function historyFaults(directory: string, target: string, tree: Tree): Promise<string[]> {
  const folder = join(directory, 'history', target);
  const names = ((await ifThere(readdir(folder))) ?? []).sort();
  const [name = ''] = names;
  if (names.length !== 2 || names[1] !== `${name}.json`)
    return [`history/${target} holds ${names.join(', ') || 'nothing'}`];
  const kept = await readTree(join(folder, name));
  const published = (await readTree(join(directory, 'mirror', target))) ?? new Map();
  const unchanged = [...published].filter(([path]) => tree.has(path) && kept?.has(path) !== true);
  const found = kept === null ? null : new Map([...unchanged, ...kept]);
  return isSameTree(found, tree) ? [] : [`history/${target}/${name} is ${describeTree(found)}`];
}
