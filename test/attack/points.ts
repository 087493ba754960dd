import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { RunEnded } from '../support/launcher.ts';
import type { Injection, TracedCall } from '../support/strace.ts';
import type { Attacked } from '../support/sweep.ts';
import { lostTrees, stagesLeft, startReader, strayFiles, treeFaults } from './invariants.ts';
import type { Prepared } from './prepare.ts';
import { type Place, placeAt } from './program.ts';
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
export type Opening = (folder: string, lanes: number) => Attacker;

/** The errors that a disk, a quota, a mount or a limit can give a call. */
const ERRORS: Readonly<Record<string, readonly string[]>> = {
  openat: ['EIO', 'EMFILE', 'EACCES', 'ENOSPC', 'EROFS'],
  getdents64: ['EIO'],
  read: ['EIO'],
  pread64: ['EIO'],
  write: ['EIO', 'ENOSPC', 'EDQUOT'],
  fsync: ['EIO', 'ENOSPC', 'EDQUOT'],
  fdatasync: ['EIO', 'ENOSPC', 'EDQUOT'],
  syncfs: ['EIO', 'ENOSPC', 'EDQUOT'],
  ftruncate: ['EIO', 'EROFS'],
  fallocate: ['EIO', 'ENOSPC'],
  pwrite64: ['EIO', 'ENOSPC', 'EDQUOT'],
  unlink: ['EIO', 'EROFS', 'EACCES'],
  rmdir: ['EIO', 'EROFS', 'EACCES'],
  utimensat: ['EIO', 'EROFS', 'EACCES'],
  rename: ['EIO', 'ENOSPC', 'EDQUOT', 'EROFS', 'EACCES'],
  renameat2: ['EIO', 'ENOSPC', 'EDQUOT', 'EROFS', 'EACCES'],
  link: ['EIO', 'ENOSPC', 'EDQUOT', 'EROFS', 'EMLINK', 'EACCES'],
  mkdir: ['EIO', 'ENOSPC', 'EDQUOT', 'EROFS', 'EACCES'],
  fchown: ['EIO', 'EROFS'],
  flock: ['EIO', 'ENOLCK'],
};

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
  const errors = ERRORS[call] ?? [];
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
  await rm(root, { recursive: true, force: true });
  await mkdir(root, { recursive: true });
  const place = await placeAt(join(root, 'place'));
  await prepared.restore(place);
  const reader = startReader(place.directory, prepared.expectation);
  const violations: string[] = [];
  try {
    const trace = join(root, `trace-${injection.call}`);
    const { ended, isReached, isStray } = await prepared.runInjected(place, injection, trace);
    // Another call may be one that no disk makes fail, and whose failure ends the process.
    if (!isStray && (!isReached || injection.fault !== 'KILL'))
      violations.push(...(await endingFaults(prepared, place, ended)));
    violations.push(...(await momentFaults(prepared, place)), ...(await recoveryFaults(prepared, place)));
    if (violations.length > 0) violations.push(`it said: ${ended.stderr.trim()}`);
    violations.push(...(await reader.stop()));
    return isStray && violations.length === 0 ? null : { isReached, violations };
  } finally {
    await reader.stop();
  }
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

/** The faults of the run after an attack, and of its result. */
export async function recoveryFaults(prepared: Prepared, place: Place): Promise<string[]> {
  const other = await otherFaults(prepared, place);
  const ended = await prepared.run(place);
  const faults = await prepared.endFaults(place);
  const isSame = ended.exitCode === prepared.exitCode;
  const exit = isSame
    ? []
    : [`the next run ends with ${ended.exitCode ?? String(ended.signal)}: ${ended.stderr}`];
  const reset = /damaged|defect/.test(ended.stderr) ? [`the next run says: ${ended.stderr}`] : [];
  return [
    ...other,
    ...exit,
    ...reset,
    ...(ended.isHung ? ['the next run hangs'] : []),
    ...faults.map((fault) => `after the next run: ${fault}`),
  ];
}

/** The faults of a run by the other instance of the directory, which completes or undoes the work of the attacked one. */
async function otherFaults(prepared: Prepared, place: Place): Promise<string[]> {
  if (prepared.runOther === null) return [];
  const ended = await prepared.runOther(place);
  const { exitCode, signal, stderr } = ended;
  const faults = [...(await momentFaults(prepared, place)), ...(await stagesLeft(place.directory))];
  return [
    ...(exitCode === 0 ? [] : [`the other instance ends with ${exitCode ?? String(signal)}: ${stderr}`]),
    ...(ended.isHung ? ['the other instance hangs'] : []),
    ...faults.map((fault) => `after the other instance: ${fault}`),
  ];
}
