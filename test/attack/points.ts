import { join } from 'node:path';

import type { RunEnded } from '../support/launcher.ts';
import type { Injection, TracedCall } from '../support/strace.ts';
import type { Attacked } from '../support/sweep.ts';
import { lostTrees, stagesLeft, startReader, strayFiles, treeFaults } from './invariants.ts';
import type { Prepared } from './prepare.ts';
import { type Place, placeWith } from './program.ts';
import { isSameTree, readTree } from './trees.ts';

/** A kind of attack. */
export interface Attacker {
  /** The attacks on a scenario. */
  readonly namesOn: (prepared: Prepared) => readonly string[];
  /** @param lane attacks of one lane never overlap */
  readonly attack: (prepared: Prepared, name: string, lane: number) => Promise<Attacked>;
  readonly close: () => Promise<void>;
}

/** Prepares a kind of attack. @param folder for the places of lanes */
export type Opening = (folder: string) => Attacker;

/** Calls, and the errors that a disk, a quota, a mount or a limit can give them. */
const ERRORS: readonly (readonly [calls: string, errors: string])[] = [
  ['openat', 'EIO EMFILE EACCES ENOSPC EROFS'],
  ['getdents64 read pread64', 'EIO'],
  ['write pwrite64 fsync fdatasync syncfs', 'EIO ENOSPC EDQUOT'],
  ['ftruncate fchown', 'EIO EROFS'],
  ['fallocate', 'EIO ENOSPC'],
  ['unlink rmdir utimensat', 'EIO EROFS EACCES'],
  ['rename renameat2 mkdir', 'EIO ENOSPC EDQUOT EROFS EACCES'],
  ['link', 'EIO ENOSPC EDQUOT EROFS EMLINK EACCES'],
  ['flock', 'EIO ENOLCK'],
];

/** Calls that change nothing: a kill before one is the same as a kill before the next call. */
const READING = new Set(['getdents64', 'flock', 'read', 'pread64']);

/** The kills before every call of a run. */
export function killsOf({ calls }: Pick<Prepared, 'calls'>): Injection[] {
  return calls
    .filter(({ call, args }) => !READING.has(call) && !(call === 'openat' && !args.includes('O_CREAT')))
    .map(({ thread, call, ordinal }) => ({ thread, call, ordinal, fault: 'KILL' }));
}

/** The errors of every call of a run. */
export function errorsOf({ calls }: Pick<Prepared, 'calls'>): Injection[] {
  return calls.flatMap(({ thread, call, ordinal, args }) =>
    errorsFor(call, args).map((fault) => ({ thread, call, ordinal, fault })),
  );
}

function errorsFor(call: TracedCall['call'], args: string): readonly string[] {
  const [, given] = ERRORS.find(([calls]) => calls.split(' ').includes(call)) ?? [];
  const errors = given?.split(' ') ?? [];
  const isReading = call === 'openat' && !args.includes('O_CREAT');
  return isReading ? errors.filter((error) => error !== 'ENOSPC' && error !== 'EROFS') : errors;
}

/** Names an injection among those of a scenario in a mode. */
export function nameOf({ thread, call, ordinal, fault }: Injection): string {
  return `${thread}/${call}/${ordinal}/${fault}`;
}

/** The injection of a name. */
export function injectionOf(name: string): Injection {
  const [thread = '', call = '', ordinal = '', fault = ''] = name.split('/');
  return { thread, call, ordinal: Number(ordinal), fault };
}

/** Attacks during a read. */
export function striking(injectionsOf: (prepared: Prepared) => readonly Injection[]): Opening {
  return (folder) => ({
    namesOn: (prepared) => injectionsOf(prepared).map(nameOf),
    attack: (prepared, name, lane) => strike(prepared, injectionOf(name), join(folder, `lane-${lane}`)),
    close: () => Promise.resolve(),
  });
}

/** Attempts to strike the intended call. */
const TRIES = 4;

async function strike(prepared: Prepared, injection: Injection, root: string): Promise<Attacked> {
  for (let tried = 1; tried <= TRIES; tried += 1) {
    const attacked = await strikeOnce(prepared, injection, root);
    if (attacked !== null) return attacked;
  }
  return { isReached: false, violations: [] };
}

/** @returns null if another call was struck instead, without a violation */
async function strikeOnce(prepared: Prepared, injection: Injection, root: string): Promise<Attacked | null> {
  const place = await placeWith(join(root, 'place'), prepared.restore);
  const trace = join(root, `trace-${injection.call}`);
  const { isStray, ...attacked } = await besideReader(prepared, place, async () => {
    const run = await prepared.runInjected(place, injection, trace);
    return { ...run, isKilled: run.isReached && injection.fault === 'KILL' };
  });
  return isStray && attacked.violations.length === 0 ? null : attacked;
}

/** An attacked run. If another call was struck, it may be one that no disk makes fail, and whose failure ends the process. */
interface AttackedRun {
  readonly ended: RunEnded;
  readonly isReached: boolean;
  readonly isStray: boolean;
  readonly isKilled: boolean;
}

/** Attacks a run beside a reader, and judges it and the next one. @param repair comes before the next run */
export async function besideReader(
  prepared: Prepared,
  place: Place,
  attack: () => Promise<AttackedRun>,
  repair: () => void = () => {},
) {
  await using reader = startReader(place.directory, prepared.expectation);
  const { ended, isReached, isStray, isKilled } = await attack();
  const violations = isStray || isKilled ? [] : await endingFaults(prepared, place, ended);
  violations.push(...(await momentFaults(prepared, place)));
  repair();
  violations.push(...(await recoveryFaults(prepared, place)));
  if (violations.length > 0) violations.push(`it said: ${ended.stderr.trim()}`);
  violations.push(...(await reader.stop()));
  return { isReached, isStray, violations };
}

/** The laws that hold at every moment, even after a kill. */
export async function momentFaults({ expectation }: Prepared, { directory }: Place): Promise<string[]> {
  return [
    ...(await treeFaults(directory, expectation)),
    ...(await lostTrees(directory, expectation)),
    ...(await strayFiles(directory, expectation)),
  ];
}

/** The faults in the end of a run with failed calls: it must have a documented exit code and a reason. */
export async function endingFaults({ promised }: Prepared, place: Place, ended: RunEnded): Promise<string[]> {
  const { exitCode, signal, stderr } = ended;
  if (ended.isHung) return ['it hangs'];
  if (exitCode === 0) {
    const faults: string[] = [];
    for (const [target, tree] of promised) {
      const found = await readTree(join(place.directory, 'mirror', target));
      if (!isSameTree(found, tree)) faults.push(`it ended with 0, and ${target} is not what the service has`);
    }
    return faults;
  }
  const isReasoned =
    exitCode === 1 ? /\S/.test(stderr) : exitCode === 2 && stderr.includes('directory: cannot write in');
  return isReasoned ? [] : [`it ended with ${exitCode ?? String(signal)}`];
}

/** The faults of the run after an attack, and of its result. The other instance completes or undoes the work of the attacked one first. */
export async function recoveryFaults(prepared: Prepared, place: Place): Promise<string[]> {
  const { run, runOther, exitCode } = prepared;
  const faults: string[] = [];
  if (runOther !== null) {
    const ended = await runOther(place);
    const found = [...(await momentFaults(prepared, place)), ...(await stagesLeft(place.directory))];
    faults.push(...runFaults('the other instance', ended, 0, found));
  }
  const ended = await run(place);
  faults.push(...runFaults('the next run', ended, exitCode, await prepared.endFaults(place)));
  if (/damaged|defect/.test(ended.stderr)) faults.push(`the next run says: ${ended.stderr}`);
  return faults;
}

function runFaults(who: string, ended: RunEnded, expectedCode: number, found: readonly string[]): string[] {
  const { exitCode, signal, stderr, isHung } = ended;
  return [
    ...(exitCode === expectedCode ? [] : [`${who} ends with ${exitCode ?? String(signal)}: ${stderr}`]),
    ...(isHung ? [`${who} hangs`] : []),
    ...found.map((fault) => `after ${who}: ${fault}`),
  ];
}
