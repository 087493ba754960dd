import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import { FakeService } from '../support/fake-service.ts';
import { type NodeProgram, type RunEnded, runNode } from '../support/launcher.ts';
import { type Injection, runInjected, traceCalls, type TracedCall } from '../support/strace.ts';
import { inLanes } from '../support/sweep.ts';
import { copyFolder, copyKilled } from './copies.ts';
import { type Expectation, convergenceFaults, historyFaults } from './invariants.ts';
import { type Place, placeWith, type Restore, syncIn } from './program.ts';
import type { Cell, Mode, Scenario } from './scenarios.ts';
import { isSameTree, readTree, type Tree, treeOf } from './trees.ts';

/** The calls that open, list or lock files, that change them, that flush them, and that change names or facts. */
const CALLS = [
  'openat,getdents64,read,pread64,flock',
  'write,writev,pwrite64,pwritev,copy_file_range,sendfile,ioctl,ftruncate,fallocate',
  'fsync,fdatasync,syncfs',
  'rename,renameat,renameat2,link,linkat,symlink,unlink,unlinkat,mkdir,mkdirat,rmdir',
  'utimensat,chmod,fchmod,fchmodat,fchown',
].join(',');

/** The surroundings of attacks. */
export interface Bench {
  /** The compiled program's main file. */
  readonly main: string;
  /** The folder for the attacks. */
  readonly folder: string;
}

/** Contents by the paths of their targets. */
type Trees = ReadonlyMap<string, Tree>;

/** A scenario in a mode, ready for any number of attacks. */
export type Prepared = Awaited<ReturnType<typeof prepare>>;

/** Prepares cells, several at the same time. */
export function prepareAll(cells: readonly Cell[], bench: Bench): Promise<Prepared[]> {
  return inLanes(cells, (cell) => prepare(cell, bench));
}

/** Makes the old state of a scenario in a mode, and records an undisturbed run. */
export async function prepare(cell: Cell, bench: Bench) {
  const service = await FakeService.start();
  const folder = join(bench.folder, cell.id);
  const close = async (): Promise<void> => {
    await service.close();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    return { ...(await prepareOn(service, cell, bench.main, folder)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function prepareOn(service: FakeService, cell: Cell, main: string, folder: string) {
  const { scenario, mode } = cell;
  const { shards, startsEmpty, isInterrupted } = scenario;
  const programOf = (place: Place, share: string | undefined): NodeProgram => {
    const shard: Record<string, string> = share === undefined ? {} : { SHARD: share };
    return syncIn(main, place, service.baseUrl, { PUBLISH: mode, ...shard, ...scenario.settings });
  };
  const program: Trial['program'] = (place) => programOf(place, shards?.attacked);
  /** Runs the other instance of the directory; null without one. */
  const runOther: Trial['runOther'] =
    shards === null ? null : (place) => runNode(programOf(place, shards.other));
  const before = await placeWith(join(folder, 'before'), () => scenario.fill(service));
  if (!startsEmpty) expectOk(await runNode(program(before)), `preparing ${cell.id}`);
  if (runOther !== null) expectOk(await runOther(before), `preparing ${cell.id} by the other instance`);
  const mirrored = startsEmpty ? [] : Object.keys(service.expectedTrees());
  scenario.change(service);
  // A tree is retired when two lists in a row lack it. The first list comes now, so that the attacked run retires it.
  if (scenario.retired !== null) expectOk(await runNode(program(before)), `missing in ${cell.id}`);
  if (!startsEmpty) await scenario.tamper(before.directory);
  const old = await readTrees(before.directory, mirrored);
  const expected: Trees = new Map(
    Object.entries(service.expectedTrees()).map(([path, files]) => [path, treeOf(files)]),
  );
  const restoreOld = (place: Place): void => {
    if (!startsEmpty) copyFolder(before.directory, place.directory);
  };
  /** The faults after a successful pass. */
  const endFaults = async (place: Place): Promise<string[]> => {
    const faults = await convergenceFaults(place, expected);
    for (const target of [scenario.retired, scenario.kept]) {
      const tree = target === null ? undefined : old.get(target);
      if (target !== null && tree !== undefined)
        faults.push(...(await historyFaults(place.directory, target, tree)));
    }
    return faults;
  };
  const trial = { root: join(folder, 'trial'), program, runOther, endFaults };
  let restore: Restore = restoreOld;
  if (isInterrupted) {
    const interrupted: Trial['program'] = (place) => programOf(place, shards?.other);
    const { calls } = await watch({ ...trial, program: interrupted }, restoreOld);
    const killed = join(folder, 'killed');
    restore = await restoreKilled(killed, restoreOld, interrupted, interruptionOf(calls, cell));
  }
  return {
    cell,
    ...(await watch(trial, restore)),
    /** The contents that must exist at the end. */
    expected,
    /** The contents that must exist if the attacked run succeeded: all, except those that the other instance must complete. */
    promised:
      shards === null || !isInterrupted
        ? expected
        : new Map([...expected].filter(([target, tree]) => isSameTree(old.get(target) ?? null, tree))),
    expectation: {
      allowed: allowedOf(scenario, mode, old, expected),
      promise: mode === 'rename' ? 'whole-files' : 'whole-trees',
      preserved: preservedOf(scenario),
    } satisfies Expectation,
    /** Puts the state before the attack into an empty place. */
    restore,
    run: (place: Place) => runNode(program(place)),
    runOther,
    /** Runs the program, and disturbs one of its calls. */
    runInjected: (place: Place, injection: Injection, traceFile: string) =>
      runInjected(program(place), injection, place.directory, traceFile),
    endFaults,
  };
}

function expectOk({ exitCode, stderr }: RunEnded, doing: string): void {
  if (exitCode !== 0) throw new Error(`${doing}: exit code ${exitCode}\n${stderr}`);
}

async function readTrees(directory: string, targets: readonly string[]): Promise<Trees> {
  const trees = new Map<string, Tree>();
  for (const target of targets) {
    const tree = await readTree(join(directory, 'mirror', target));
    if (tree !== null) trees.set(target, tree);
  }
  return trees;
}

/** The needs of a recorded run. */
interface Trial {
  readonly root: string;
  readonly program: (place: Place) => NodeProgram;
  readonly runOther: ((place: Place) => Promise<RunEnded>) | null;
  readonly endFaults: (place: Place) => Promise<string[]>;
}

/**
 * Runs the program without an attack, and the other instance after it.
 * @returns its calls in order, and its failures, with which attacks prove nothing
 */
async function watch({ root, program, runOther, endFaults }: Trial, restore: Restore) {
  // Before the calls are counted, a first run does one-time work, such as loading code.
  await runNode(program(await placeWith(join(root, 'first'), restore)));
  const place = await placeWith(join(root, 'place'), restore);
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
  restore: Restore,
  program: Trial['program'],
  injection: Injection,
): Promise<Restore> {
  for (let tried = 1; tried <= INTERRUPTIONS; tried += 1) {
    const place = await placeWith(root, restore);
    const trace = join(root, 'trace');
    const { isReached } = await runInjected(program(place), injection, place.directory, trace);
    if (isReached) return (other) => copyKilled(place.directory, other.directory);
  }
  throw new Error('the run that was to be interrupted was not');
}

function allowedOf({ moved }: Scenario, mode: Mode, old: Trees, expected: Trees): Expectation['allowed'] {
  const targets = [...new Set([...old.keys(), ...expected.keys()])];
  return new Map(
    targets.map((target) => {
      const from = moved?.to === target ? old.get(moved.from) : null;
      // A reader keeps the folder that it opened, and that gets the new files after the move.
      const to = moved?.from === target && mode === 'rename' ? expected.get(moved.to) : null;
      return [target, [old.get(target) ?? null, from ?? [], to ?? [], expected.get(target) ?? null].flat()];
    }),
  );
}

function preservedOf({ moved, retired, startsEmpty }: Scenario): Expectation['preserved'] {
  if (startsEmpty) return [];
  return [
    ...(moved === null ? [] : [{ from: `mirror/${moved.from}`, to: `mirror/${moved.to}` }]),
    ...(retired === null ? [] : [{ from: `mirror/${retired}`, to: `history/${retired}` }]),
  ];
}
