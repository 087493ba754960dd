import { lstat, rename, rm } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';

import { unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import type { HistoryKind } from '../../plan/retention.ts';
import type { Disk } from '../disk.ts';
import { type DirectoryLayout, historyName, treePath } from '../layout.ts';
import { LeasedError } from '../leases/lease.ts';
import { restartAge, treeAt } from '../published-tree.ts';
import { isAnyMade, type Journal, makeMoves, refuseLinksOf, removeJournal, writeJournal } from './journal.ts';
import { type Occupant, STAGED } from './moves.ts';
import type { Stage } from './stage.ts';

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
  const end = disk.activity.begin(journal.targets);
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
  } finally {
    end();
  }
}

/** Makes the age of the trees start now that the links of a journal's targets lead to, as these may leave them. */
export async function restartAges(
  { layout, now }: Pick<Disk, 'layout' | 'now'>,
  { targets }: Journal,
): Promise<void> {
  for (const target of targets) {
    const place = treeAt(layout, target);
    if ('name' in place) await restartAge(layout, place.name, now());
  }
}

/** Removes what remains of a stage whose moves are made; a tree that gave way stays whole for a while, for readers that entered it. */
export async function removeStage(
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
