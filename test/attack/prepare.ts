import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { FakeService } from '../support/fake-service.ts';
import { type NodeProgram, type RunEnded, runNode } from '../support/launcher.ts';
import { type Injection, runInjected, traceCalls, type TracedCall } from '../support/strace.ts';
import { inLanes } from '../support/sweep.ts';
import { copyFolder, copyKilled } from './copies.ts';
import { type Expectation, convergenceFaults, historyFaults } from './invariants.ts';
import { type Place, placeAt, syncIn } from './program.ts';
import type { Cell, Scenario } from './scenarios.ts';
import { isSameTree, readTree, type Tree, treeOf } from './trees.ts';

/** The calls that change files or flush them, and those that open or list them. */
const CALLS = [
  'rename',
  'renameat',
  'renameat2',
  'link',
  'linkat',
  'symlink',
  'unlink',
  'unlinkat',
  'mkdir',
  'mkdirat',
  'rmdir',
  'openat',
  'getdents64',
  'fsync',
  'fdatasync',
  'syncfs',
  'ftruncate',
  'fallocate',
  'read',
  'pread64',
  'write',
  'writev',
  'pwrite64',
  'pwritev',
  'copy_file_range',
  'sendfile',
  'ioctl',
  'utimensat',
  'chmod',
  'fchmod',
  'fchmodat',
  'fchown',
  'flock',
];

/** The surroundings of attacks. */
export interface Bench {
  /** The compiled program's main file. */
  readonly main: string;
  /** The folder for the attacks. */
  readonly folder: string;
}

/** A scenario in a mode, ready for any number of attacks. */
export interface Prepared {
  readonly cell: Cell;
  /** The calls of an undisturbed run, in order. */
  readonly calls: readonly TracedCall[];
  /** The failures of that run; with failures, attacks prove nothing. */
  readonly flaws: readonly string[];
  /** The end of that run. */
  readonly exitCode: number;
  readonly expectation: Expectation;
  /** The contents that must exist at the end. */
  readonly expected: ReadonlyMap<string, Tree>;
  /** The contents that must exist if the attacked run succeeded. */
  readonly promised: ReadonlyMap<string, Tree>;
  /** Puts the state before the attack into an empty place. */
  readonly restore: (place: Place) => Promise<void>;
  /** Runs the program in a place. */
  readonly run: (place: Place) => Promise<RunEnded>;
  /** Runs the other instance of the directory; null without one. */
  readonly runOther: ((place: Place) => Promise<RunEnded>) | null;
  /** Runs the program, and disturbs one of its calls. */
  readonly runInjected: (
    place: Place,
    injection: Injection,
    traceFile: string,
  ) => ReturnType<typeof runInjected>;
  /** The faults after a successful pass. */
  readonly endFaults: (place: Place) => Promise<string[]>;
  readonly close: () => Promise<void>;
}

/** Prepares cells, several at the same time. */
export function prepareAll(cells: readonly Cell[], bench: Bench): Promise<Prepared[]> {
  return inLanes(cells, (cell) => prepare(cell, bench));
}

/** Makes the old state of a scenario in a mode, and records an undisturbed run. */
export async function prepare(cell: Cell, bench: Bench): Promise<Prepared> {
  const service = await FakeService.start();
  const close = async (): Promise<void> => {
    await service.close();
    await rm(join(bench.folder, cell.id), { recursive: true, force: true });
  };
  try {
    return { ...(await prepareOn(service, cell, bench)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function prepareOn(
  service: FakeService,
  cell: Cell,
  { main, folder }: Bench,
): Promise<Omit<Prepared, 'close'>> {
  const { scenario, mode } = cell;
  scenario.fill(service);
  const before = await placeAt(join(folder, cell.id, 'before'));
  const { shards } = scenario;
  const programOf = (place: Place, share: string | undefined): NodeProgram => {
    const shard: Record<string, string> = share === undefined ? {} : { SHARD: share };
    return syncIn(main, place, service.baseUrl, { PUBLISH: mode, ...shard, ...scenario.settings });
  };
  const program = (place: Place): NodeProgram => programOf(place, shards?.attacked);
  const runOther = shards === null ? null : (place: Place) => runNode(programOf(place, shards.other));
  if (!scenario.startsEmpty) expectOk(await runNode(program(before)), `preparing ${cell.id}`);
  if (runOther !== null) expectOk(await runOther(before), `preparing ${cell.id} by the other instance`);
  const mirrored = scenario.startsEmpty ? [] : Object.keys(service.expectedTrees());
  scenario.change(service);
  // A tree is retired when two lists in a row lack it. The first list comes now, so that the attacked run retires it.
  if (scenario.retired !== null) expectOk(await runNode(program(before)), `missing in ${cell.id}`);
  if (!scenario.startsEmpty) await scenario.tamper(before.directory);
  const old = await readTrees(before.directory, mirrored);
  const expected = new Map(
    Object.entries(service.expectedTrees()).map(([path, files]) => [path, treeOf(files)]),
  );
  const restoreOld = async (place: Place): Promise<void> => {
    if (!scenario.startsEmpty) copyFolder(before.directory, place.directory);
  };
  const endFaults = async (place: Place): Promise<string[]> => {
    const faults = await convergenceFaults(place, expected);
    for (const target of [scenario.retired, scenario.kept]) {
      const tree = target === null ? undefined : old.get(target);
      if (target !== null && tree !== undefined)
        faults.push(...(await historyFaults(place.directory, target, tree)));
    }
    return faults;
  };
  const trial = { root: join(folder, cell.id, 'trial'), program, runOther, endFaults };
  const interruptedTrial = { ...trial, program: (place: Place) => programOf(place, shards?.other) };
  const first = await watch(scenario.isInterrupted ? interruptedTrial : trial, restoreOld);
  const restore = scenario.isInterrupted
    ? await restoreKilled(
        join(folder, cell.id, 'killed'),
        restoreOld,
        interruptedTrial,
        interruptionOf(first.calls, cell),
      )
    : restoreOld;
  const watched = scenario.isInterrupted ? await watch(trial, restore) : first;
  return {
    cell,
    ...watched,
    expected,
    promised: promisedOf(scenario, old, expected),
    expectation: {
      allowed: allowedOf(scenario, old, expected),
      promise: mode === 'rename' ? 'whole-files' : 'whole-trees',
      preserved: preservedOf(scenario),
    },
    restore,
    run: (place) => runNode(program(place)),
    runOther,
    runInjected: (place, injection, traceFile) =>
      runInjected(program(place), injection, place.directory, traceFile),
    endFaults,
  };
}

function expectOk({ exitCode, stderr }: RunEnded, doing: string): void {
  if (exitCode !== 0) throw new Error(`${doing}: exit code ${exitCode}\n${stderr}`);
}

async function readTrees(directory: string, targets: readonly string[]): Promise<Map<string, Tree>> {
  const trees = new Map<string, Tree>();
  for (const target of targets) {
    const tree = await readTree(join(directory, 'mirror', target));
    if (tree !== null) trees.set(target, tree);
  }
  return trees;
}

/** The calls of a run without an attack. */
type Watched = Pick<Prepared, 'calls' | 'exitCode' | 'flaws'>;

/** The needs of a recorded run. */
interface Trial {
  readonly root: string;
  readonly program: (place: Place) => NodeProgram;
  readonly runOther: Prepared['runOther'];
  readonly endFaults: (place: Place) => Promise<string[]>;
}

/** Runs the program without an attack, and the other instance after it. */
async function watch(
  { root, program, runOther, endFaults }: Trial,
  restore: (place: Place) => Promise<void>,
): Promise<Watched> {
  await rm(root, { recursive: true, force: true });
  await mkdir(root, { recursive: true });
  // Before the calls are counted, a first run does one-time work, such as loading code.
  const first = await placeAt(join(root, 'first'));
  await restore(first);
  await runNode(program(first));
  const place = await placeAt(join(root, 'place'));
  await restore(place);
  const trace = join(root, 'trace');
  const { ended, traced } = await traceCalls(program(place), CALLS, place.directory, trace);
  if (traced.length === 0) throw new Error('the trace of the run is empty');
  const ending = ended.exitCode === 0 ? [] : [`exit code ${ended.exitCode}: ${ended.stderr}`];
  if (runOther !== null) expectOk(await runOther(place), 'running the other instance');
  const flaws = [...ending, ...(await endFaults(place))];
  await rm(root, { recursive: true, force: true });
  return { calls: traced, exitCode: ended.exitCode ?? -1, flaws };
}

/** The call to kill a run at so that it leaves something to recover: just after it began to change the mirror. */
function interruptionOf(calls: readonly TracedCall[], cell: Cell): Injection {
  const changing = new Set(['rename', 'renameat2', 'unlink']);
  const steps = calls.flatMap(({ call, args }, index) =>
    changing.has(call) && args.includes('/mirrored/mirror/') ? [index] : [],
  );
  const step = (cell.mode === 'rename' ? steps[1] : undefined) ?? steps[0] ?? -1;
  const next = calls.slice(step + 1).find(({ thread }) => thread === 'pool');
  if (step === -1 || next === undefined) throw new Error(`${cell.id} publishes nothing`);
  return { ...next, fault: 'KILL' };
}

/** Attempts to interrupt a run at the right call: concurrent calls vary in number. */
const INTERRUPTIONS = 5;

/** Kills a run once. Attacks begin with the state that it leaves. @param root of that state */
async function restoreKilled(
  root: string,
  restore: (place: Place) => Promise<void>,
  { program }: Pick<Trial, 'program'>,
  injection: Injection,
): Promise<(place: Place) => Promise<void>> {
  for (let tried = 1; tried <= INTERRUPTIONS; tried += 1) {
    const place = await placeAt(join(root, String(tried)));
    await restore(place);
    const trace = join(place.root, 'trace');
    const { isReached } = await runInjected(program(place), injection, place.directory, trace);
    if (isReached) return (other) => copyKilled(place.directory, other.directory);
  }
  throw new Error('the run that was to be interrupted was not');
}

function allowedOf(
  { moved }: Scenario,
  old: ReadonlyMap<string, Tree>,
  expected: ReadonlyMap<string, Tree>,
): Expectation['allowed'] {
  const targets = [...new Set([...old.keys(), ...expected.keys()])];
  return new Map(
    targets.map((target) => {
      const between = moved?.to === target ? [old.get(moved.from) ?? null] : [];
      return [target, [old.get(target) ?? null, ...between, expected.get(target) ?? null]];
    }),
  );
}

/** All files, except those that the other instance must complete. */
function promisedOf(
  { shards, isInterrupted }: Scenario,
  old: ReadonlyMap<string, Tree>,
  expected: ReadonlyMap<string, Tree>,
): Prepared['promised'] {
  if (shards === null || !isInterrupted) return expected;
  return new Map([...expected].filter(([target, tree]) => isSameTree(old.get(target) ?? null, tree)));
}

function preservedOf({ moved, retired, startsEmpty }: Scenario): Expectation['preserved'] {
  if (startsEmpty) return [];
  return [
    ...(moved === null ? [] : [{ from: `mirror/${moved.from}`, to: `mirror/${moved.to}` }]),
    ...(retired === null ? [] : [{ from: `mirror/${retired}`, to: `history/${retired}` }]),
  ];
}
