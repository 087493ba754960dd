import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { type Injection, type RunEnded, runInjected, runNode, type TracedCall } from '../support/strace.ts';
import type { Attacked, AttackPoint } from '../support/sweep.ts';
import { lostTrees, startReader, strayFiles, treeFaults } from './invariants.ts';
import type { Prepared } from './prepare.ts';
import { type Place, placeAt } from './program.ts';
import { isSameTree, readTree } from './trees.ts';

/** Which errors a call can be made to fail with: those that a disk, a quota, a mount or a limit gives it. */
const ERRORS: Readonly<Record<string, readonly string[]>> = {
  openat: ['EIO', 'EMFILE', 'EACCES', 'ENOSPC', 'EROFS'],
  getdents64: ['EIO'],
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

/** Calls that change nothing: being killed before one is the same as being killed before the next. */
const READING = new Set(['getdents64', 'flock']);

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

/** Makes points of injections; where the program fails without any, that is the only one. */
export function pointsOf(
  prepared: readonly Prepared[],
  injectionsOf: (prepared: Prepared) => readonly Injection[],
  pointOf: (prepared: Prepared, injection: Injection, id: string) => AttackPoint,
): AttackPoint[] {
  return prepared.flatMap((each) =>
    each.flaws.length > 0
      ? [flawOf(each)]
      : injectionsOf(each).map((injection) => pointOf(each, injection, idOf(each, injection))),
  );
}

function idOf({ cell }: Prepared, { thread, call, ordinal, fault }: Injection): string {
  return `${cell.id}/${thread}/${call}/${ordinal}/${fault}`;
}

function flawOf({ cell, flaws }: Prepared): AttackPoint {
  const attacked = { isReached: true, violations: flaws };
  return { id: `${cell.id}/no-attack`, stratum: cell.id, attack: () => Promise.resolve(attacked) };
}

/** Points that strike while a reader reads. @param folder where lanes have their places */
export function strikesOf(
  prepared: readonly Prepared[],
  injectionsOf: (prepared: Prepared) => readonly Injection[],
  folder: string,
): AttackPoint[] {
  return pointsOf(prepared, injectionsOf, (each, injection, id) => ({
    id,
    stratum: each.cell.id,
    attack: (lane) => strike(each, injection, join(folder, `lane-${lane}`)),
  }));
}

async function strike(prepared: Prepared, injection: Injection, root: string): Promise<Attacked> {
  await rm(root, { recursive: true, force: true });
  await mkdir(root, { recursive: true });
  const place = await placeAt(join(root, 'place'));
  await prepared.restore(place);
  const reader = startReader(place.directory, prepared.expectation);
  const violations: string[] = [];
  try {
    const { ended, isReached } = await runInjected(
      prepared.program(place),
      injection,
      join(root, `trace-${injection.call}`),
    );
    if (!isReached || injection.fault !== 'KILL')
      violations.push(...(await endingFaults(prepared, place, ended)));
    violations.push(...(await momentFaults(prepared, place)), ...(await recoveryFaults(prepared, place)));
    if (violations.length > 0) violations.push(`it said: ${ended.stderr.trim()}`);
    return { isReached, violations: [...violations, ...(await reader.stop())] };
  } finally {
    await reader.stop();
  }
}

/** What must hold at every moment, also when the program lies dead. */
export async function momentFaults({ expectation }: Prepared, { directory }: Place): Promise<string[]> {
  return [
    ...(await treeFaults(directory, expectation)),
    ...(await lostTrees(directory, expectation)),
    ...(await strayFiles(directory, expectation)),
  ];
}

/** What is wrong with how a run ended whose calls failed: codes as documented, and a reason. */
export async function endingFaults(
  { expected }: Prepared,
  place: Place,
  { exitCode, signal, stderr, isHung }: RunEnded,
): Promise<string[]> {
  if (isHung) return ['it hangs'];
  if (exitCode === 0) {
    const faults: string[] = [];
    for (const [target, tree] of expected) {
      const found = await readTree(join(place.directory, 'mirror', target));
      if (!isSameTree(found, tree)) faults.push(`it ended with 0, and ${target} is not what the service has`);
    }
    return faults;
  }
  const isReasoned =
    exitCode === 1 ? /\S/.test(stderr) : exitCode === 2 && stderr.includes('directory: cannot write in');
  return isReasoned ? [] : [`it ended with ${exitCode ?? String(signal)}`];
}

/** What is wrong with the run after an attack, and with what it leaves. */
export async function recoveryFaults(prepared: Prepared, place: Place): Promise<string[]> {
  const ended = await runNode(prepared.program(place));
  const faults = await prepared.endFaults(place);
  const isSame = ended.exitCode === prepared.exitCode;
  const exit = isSame
    ? []
    : [`the next run ends with ${ended.exitCode ?? String(ended.signal)}: ${ended.stderr}`];
  const reset = /damaged|defect/.test(ended.stderr) ? [`the next run says: ${ended.stderr}`] : [];
  return [...exit, ...reset, ...faults.map((fault) => `after the next run: ${fault}`)];
}
