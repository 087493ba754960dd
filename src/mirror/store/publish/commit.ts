import { lstat, readdir, rename, rm } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';

import { readOwnText } from '../../../lib/disk/own-file.ts';
import type { FlushMark } from '../../../lib/disk/shared-flush.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import type { HistoryKind } from '../../plan/retention.ts';
import type { Disk } from '../disk.ts';
import { type DirectoryLayout, historyName, layoutOf, treePath } from '../layout.ts';
import { LeasedError } from '../leases/lease.ts';
import { restartAge, treeAt } from '../published-tree.ts';
import { namesIn, withCommonLock } from '../shards.ts';
import { tryToPass } from '../leases/gate.ts';
import {
  isAnyMade,
  type Journal,
  makeMoves,
  readJournal,
  refuseLinksOf,
  removeJournal,
  writeJournal,
} from './journal.ts';
import { type Occupant, STAGED } from './moves.ts';
import { removeUnpublished, type Stage } from './stage.ts';

/** Changes what is published, in the directory that was locked. @param signal ends the wait for the lock on publishing */
export async function throughGate<T>(
  { gate, lock }: Pick<Disk, 'gate' | 'lock'>,
  step: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  await lock.check();
  return gate.pass(step, signal);
}

/**
 * Makes the stage durable with its journal, makes the moves, makes these durable, and removes the stage. An error before the first move
 * takes the journal back; after it the stage stays, to be brought to its end before anything else happens to the targets. Many may do
 * this at once: they share the flushes. Only who has passed the gate may call this.
 * @throws MirrorError `directory.replaced`, `disk.*`
 */
export async function commit(
  disk: Disk,
  { folder, flushMark }: Pick<Stage, 'folder' | 'flushMark'>,
  journal: Journal,
): Promise<void> {
  const progress = { isBegun: false };
  try {
    await restartAges(disk, journal);
    await writeJournal(folder, journal);
    await disk.flush.since(flushMark);
    await disk.serially(async () => {
      await disk.lock.check();
      await refuseLinksOf(disk.layout, folder, journal);
      progress.isBegun = true;
      await makeMoves(disk, folder, journal);
    });
    await disk.flush.since(flushMark);
    await removeStage(disk, folder, journal);
  } catch (error) {
    const isTaken = progress.isBegun && (await isAnyMade(disk, folder, journal).catch(() => true));
    if (isTaken) for (const path of journal.targets) disk.unfinished.set(path, error);
    else await removeJournal(folder);
    throw error;
  }
}

/** Makes the age of the trees start now that the links of a journal's targets lead to, as these may leave them. */
async function restartAges(
  { layout, now }: Pick<Disk, 'layout' | 'now'>,
  { targets }: Journal,
): Promise<void> {
  for (const target of targets) {
    const place = treeAt(layout, target);
    if ('name' in place) await restartAge(layout, place.name, now());
  }
}

/** Removes what remains of a stage whose moves are made; a tree that gave way stays whole for a while, for readers that entered it. */
async function removeStage(
  { layout, now, readerGraceMs }: Pick<Disk, 'layout' | 'now' | 'readerGraceMs'>,
  stage: string,
  { moves }: Journal,
): Promise<void> {
  const gaveWay = moves.some(({ to, swaps }) => swaps === true || basename(to) === STAGED.displaced);
  if (gaveWay) await rename(stage, join(layout.trash, `${now() + readerGraceMs}-${basename(stage)}`));
  else await rm(stage, { recursive: true, force: true });
}

/** A target whose last publish is still to be completed takes no other one. */
export function refuseUnfinished(disk: Disk, path: string): void {
  const cause = disk.unfinished.get(path);
  if (cause === undefined) return;
  if (cause instanceof LeasedError) throw cause;
  const why = cause instanceof Error ? cause.message : 'for an unknown reason';
  throw new MirrorError('disk.failed', `An earlier publish of ${path} could not be completed: ${why}.`, {
    cause,
    hint: 'It is tried again at every pass. Check the file system of the setting directory.',
  });
}

/** A place in the history that nothing holds yet, below the root: clocks go back, and are coarse. */
export async function freeHistoryPath(disk: Disk, path: string, kind: HistoryKind): Promise<string> {
  const { layout } = disk;
  for (let atMs = disk.now(); ; atMs += 1) {
    const place = join(layout.history, path, historyName(atMs, kind));
    const taken = await Promise.all([place, `${place}.json`].map((each) => unlessMissing(lstat(each))));
    if (taken.every((each) => each === null)) return relative(layout.root, place);
  }
}

/** Looks at what stands at the place of a target's tree; null for nothing. @throws system errors */
export async function occupantAt(layout: DirectoryLayout, path: string): Promise<Occupant | null> {
  const stats = await unlessMissing(lstat(treePath(layout, path)));
  return stats === null ? null : { inode: stats.ino, isLink: 'name' in treeAt(layout, path) };
}

/**
 * Brings to its end what was interrupted; gives the targets that it completed. While a lease holds, or another process has the lock on
 * publishing, it waits, and so does whatever else is to be published there.
 */
export function recover(disk: Disk, signal?: AbortSignal): Promise<readonly string[]> {
  return onDisk('recovering interrupted work', async () => {
    await disk.lock.check();
    // What a publish that goes on beside this leaves behind meanwhile stays as it says.
    const known = [...disk.unfinished.keys()];
    const own = await recoverBehindGate(disk, signal);
    const gathered = await recoverGathered(disk, signal);
    for (const path of known) disk.unfinished.delete(path);
    for (const { unfinished } of [own, gathered])
      for (const [path, error] of unfinished) disk.unfinished.set(path, error);
    return [...own.completed, ...gathered.completed];
  });
}

/**
 * Does the same with what earlier instances left, which the first one gathered: for instances that share the directory, one at a time.
 * Whatever of it stays unfinished, each of them publishes nothing at its place.
 */
async function recoverGathered(disk: Disk, signal?: AbortSignal): Promise<Recovered> {
  const { layout, native } = disk;
  const whole = layoutOf(layout.root);
  if (layout.shardIndex === null || (await namesIn(whole.staging)).length === 0) return NOTHING_RECOVERED;
  const theirs = { ...disk, layout: whole, inUse: new Set<string>() };
  return withCommonLock(layout, native, () => recoverBehindGate(theirs, signal));
}

async function recoverBehindGate(disk: Disk, signal?: AbortSignal): Promise<Recovered> {
  if ((await stagesLeft(disk)).length === 0) return NOTHING_RECOVERED;
  const recovered = await tryToPass(disk.gate, () => recoverStages(disk), signal);
  if ('done' in recovered) return recovered.done;
  const paths = await interruptedPublishes(disk);
  return { completed: [], unfinished: new Map(paths.map((path) => [path, recovered.obstacle])) };
}

/** The outcome of recovery, for stages that were left behind. */
interface Recovered {
  /** Paths of the targets whose interrupted publish was completed. */
  readonly completed: readonly string[];
  /** Paths of the targets whose interrupted publish cannot be completed yet, with why. */
  readonly unfinished: ReadonlyMap<string, unknown>;
}

const NOTHING_RECOVERED: Recovered = { completed: [], unfinished: new Map() };

/**
 * Brings to its end, or takes back, whatever a crash or an error interrupted. What cannot be finished now stays for the
 * next time, and stops nothing else.
 */
async function recoverStages(disk: Disk): Promise<Recovered> {
  const mark = disk.flush.mark();
  const completed: string[] = [];
  const unfinished = new Map<string, unknown>();
  const left = (await stagesLeft(disk)).map(async (name) => {
    const stage = join(disk.layout.staging, name);
    await refuseIntent(stage);
    const journal = await readJournal(stage);
    try {
      if (journal !== null && (await isAnyMade(disk, stage, journal))) {
        await complete(disk, stage, journal, mark);
        completed.push(...journal.targets.slice(0, 1));
      } else {
        await removeUnpublished(disk.layout, stage);
      }
    } catch (error) {
      for (const path of journal?.targets ?? [name]) unfinished.set(path, error);
    }
  });
  // They share the flushes.
  await Promise.all(left);
  return { completed, unfinished };
}

/** Makes the moves of a stage that a crash cut off. */
async function complete(disk: Disk, stage: string, journal: Journal, mark: FlushMark): Promise<void> {
  const { layout, flush, serially } = disk;
  // After a kill the journal may not be on the disk yet, where the next start must find it if the power fails between two moves.
  await flush.since(mark);
  await restartAges(disk, journal);
  await serially(async () => {
    await refuseLinksOf(layout, stage, journal);
    await makeMoves(disk, stage, journal);
  });
  await flush.since(mark);
  await removeStage(disk, stage, journal);
}

/** Room for what an earlier version wrote down. */
const MAX_INTENT_BYTES = 512 * 1024 ** 2;

/** Refuses the unfinished work of a version that wrote it down in another form. @throws MirrorError `directory.unusable` */
async function refuseIntent(stage: string): Promise<void> {
  const text = await readOwnText(join(stage, 'intent.json'), MAX_INTENT_BYTES);
  // One that is cut off was never begun.
  if (text === null || !isWholeJson(text)) return;
  throw new MirrorError(
    'directory.unusable',
    `The stage ${basename(stage)} holds a change that an earlier version of this program began and did not end.`,
    { hint: 'Run `sync` once with the version of commit 94fbe25, which ends it; then start this version.' },
  );
}

function isWholeJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The names of the stages that were left behind. */
async function stagesLeft({ layout, inUse }: Pick<Disk, 'layout' | 'inUse'>): Promise<string[]> {
  const names = (await unlessMissing(readdir(layout.staging))) ?? [];
  return names.filter((name) => !inUse.has(name));
}

/**
 * The targets that a publish touches which was begun and not completed: by a program that was killed, or that a disk failed. To be
 * called only where no publish is going on but those of the stages that are in use.
 */
export async function interruptedPublishes(disk: Pick<Disk, 'layout' | 'inUse'>): Promise<string[]> {
  const paths: string[] = [];
  for (const name of await stagesLeft(disk)) {
    const journal = await readJournal(join(disk.layout.staging, name));
    paths.push(...(journal?.targets ?? []));
  }
  return paths;
}
