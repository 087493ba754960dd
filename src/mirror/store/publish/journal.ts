import { lstat, readdir, rename, rm, unlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';

import { z } from 'zod';

import { readOwnDocument } from '../../../lib/disk/own-file.ts';
import { linkNow, statsNow } from '../../../lib/disk/read.ts';
import { ensureFolder } from '../../../lib/disk/durable.ts';
import type { FlushMark } from '../../../lib/disk/shared-flush.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { isTargetPath, leadsBelow } from '../../../lib/paths/file-name.ts';
import type { Disk } from '../disk.ts';
import type { DirectoryLayout } from '../layout.ts';
import { prepareGate } from '../leases.ts';
import {
  refuseLinks,
  removeLeftFolders,
  removeTree,
  restartAge,
  takePlace,
  treeAt,
} from '../published-tree.ts';
import { onDiskOfAll, otherInstances } from '../shards.ts';
import { guardedMoves, type Move, type Rename, STAGED } from './moves.ts';

const JOURNAL_FILE = 'journal.json';

/** Room for the names of all the files that are published file by file. */
const MAX_JOURNAL_BYTES = 512 * 1024 ** 2;

/** The prefix of places in the stage: stages of other instances are moved, so they have no fixed path. */
const STAGE = 'stage/';

/** Places within a stage, or below the directory for trees, manifests and history. */
const place = z
  .string()
  .refine((path) => leadsBelow(path) && /^(?:stage|mirror|manifests|history)\/./.test(path));

const journalSchema = z.strictObject({
  /** The targets that change, as paths below `mirror/`. */
  targets: z.array(z.string().refine(isTargetPath)).readonly(),
  moves: z
    .array(z.strictObject({ from: place, to: place, inode: z.number(), swaps: z.literal(true).optional() }))
    .readonly(),
});

/**
 * The list of moves that bring targets from one state to the next. It is written into the stage and flushed together with everything
 * that moves, before the first move. So once one move is made, the list and everything in the stage are whole, and the
 * rest is made, too. As long as no move is made the stage can be thrown away.
 */
type Journal = Readonly<z.infer<typeof journalSchema>>;

/**
 * Reads a stage's journal; null if none was written whole: then no move was made.
 * @param stage absolute
 */
function readJournal(stage: string): Promise<Journal | null> {
  return readOwnDocument(join(stage, JOURNAL_FILE), MAX_JOURNAL_BYTES, journalSchema);
}

/**
 * Makes renames together: the stage with its journal is flushed, the renames are made and flushed, and the stage is
 * removed. An error before the first rename withdraws the journal; after it the stage stays, to be completed before any other change
 * to the targets. Many calls may run at once and share the flushes. Only call this behind the gate.
 * @throws MirrorError `directory.replaced`, `disk.*`
 */
export async function commit(
  disk: Disk,
  { folder, flushMark }: { readonly folder: string; readonly flushMark: FlushMark },
  targets: readonly string[],
  renames: readonly Rename[],
): Promise<void> {
  const moves = guardedMoves(renames, (path) => inodeAt(placeOf(disk.layout, folder, path)));
  const journal = { targets, moves };
  try {
    await writeFile(join(folder, JOURNAL_FILE), JSON.stringify(journal), { flag: 'wx' });
    await carryOut(disk, folder, journal, flushMark);
  } catch (error) {
    if (mayBeMade(disk, folder, journal)) for (const path of targets) disk.unfinished.set(path, error);
    else await unlessMissing(unlink(join(folder, JOURNAL_FILE)));
    throw error;
  }
}

/** Makes the remaining moves of a journal, and removes its stage. @param mark taken before anything was written to the stage */
async function carryOut(disk: Disk, stage: string, journal: Journal, mark: FlushMark): Promise<void> {
  const { layout, flush, serially, now } = disk;
  for (const target of journal.targets) {
    // The tree may lose its link now: its age starts.
    const { name } = treeAt(layout, target);
    if (name !== null) await restartAge(layout, name, now());
  }
  await flush.since(mark);
  await serially(async () => {
    await disk.lock.check();
    await refuseLinksOf(layout, stage, journal.moves);
    await makeMoves(disk, stage, journal);
  });
  await flush.since(mark);
  await removeStage(disk, stage, journal);
}

/** Removes what remains of a completed stage; a replaced tree stays whole for a while, for readers that entered it. */
async function removeStage(
  { layout, now, readerGraceMs }: Disk,
  stage: string,
  { moves }: Journal,
): Promise<void> {
  const gaveWay = moves.some(({ to, swaps }) => swaps === true || basename(to) === STAGED.displaced);
  if (gaveWay) await rename(stage, join(layout.trash, `${now() + readerGraceMs}-${basename(stage)}`));
  else await rm(stage, { recursive: true, force: true });
}

/** The absolute place of one end of a move. */
function placeOf({ root }: DirectoryLayout, stage: string, path: string): string {
  return path.startsWith(STAGE) ? join(stage, path.slice(STAGE.length)) : join(root, path);
}

/** The inode of an entry at a path (of a link itself, not its target); null for none. @throws system errors */
function inodeAt(path: string): number | null {
  return statsNow(path)?.ino ?? null;
}

/** Makes sure that no move leads through a link that someone put there. @throws MirrorError `disk.changed` */
function refuseLinksOf(layout: DirectoryLayout, stage: string, moves: readonly Move[]): Promise<void> {
  const folders = moves.flatMap(({ from, to }) =>
    [from, to].map((path) => dirname(placeOf(layout, stage, path))),
  );
  return refuseLinks(
    layout,
    [...new Set(folders)].map((folder) => relative(layout.root, folder)),
  );
}

/** Makes all remaining moves, and removes the folders that they left empty. Flushes nothing. */
async function makeMoves(
  { layout, native }: Pick<Disk, 'layout' | 'native'>,
  stage: string,
  { targets, moves }: Journal,
): Promise<void> {
  for (const move of moves) {
    const [from, to] = [placeOf(layout, stage, move.from), placeOf(layout, stage, move.to)];
    if (inodeAt(from) !== move.inode) continue;
    // Again, as an earlier move of a journal that someone else wrote may have put a link there.
    await refuseLinksOf(layout, stage, [move]);
    if (move.swaps === true && inodeAt(to) !== null) native.exchange(from, to);
    else await takePlace(from, to, stage);
  }
  // Not earlier: a folder that the next move fills again would lose its permissions.
  for (const folder of new Set(moves.map(({ from }) => dirname(from))))
    removeLeftFolders(layout, targets, folder);
}

/** Whether any move of a journal was made, or may have been: then all of them must be made. */
function mayBeMade({ layout }: Pick<Disk, 'layout'>, stage: string, { moves }: Journal): boolean {
  try {
    return moves.some(({ to, inode }) => inodeAt(placeOf(layout, stage, to)) === inode);
  } catch {
    return true;
  }
}

/** Refuses another publish of a target whose last one must still be completed. @throws MirrorError `publish.leased`, `disk.failed` */
export function refuseUnfinished(disk: Disk, path: string): void {
  const cause = disk.unfinished.get(path);
  if (cause === undefined) return;
  if (cause instanceof MirrorError && cause.code === 'publish.leased') throw cause;
  const why = cause instanceof Error ? cause.message : 'for an unknown reason';
  throw new MirrorError('disk.failed', `An earlier publish of ${path} could not be completed: ${why}.`, {
    cause,
    hint: 'It is tried again at every pass. Check the file system of the setting directory.',
  });
}

/** The outcome for a leftover stage: the targets of its journal, and why it could not be completed; null if it was. */
interface Recovered {
  readonly targets: readonly string[];
  readonly obstacle: unknown;
}

/**
 * Completes or undoes everything that a crash or an error interrupted; returns the targets that it completed. While a lease holds,
 * or another process has the lock on publishing, it waits, and so do the next publishes of these targets.
 */
export function recover(disk: Disk, signal?: AbortSignal): Promise<readonly string[]> {
  return onDisk('recovering interrupted work', async () => {
    await disk.lock.check();
    // Someone may have removed them: every publish would fail until the next start.
    const { staging, trash, leases, gate } = disk.layout;
    for (const folder of [staging, trash, leases]) await ensureFolder(folder);
    if (statsNow(gate) === null) await prepareGate(disk.layout);
    // A parallel publish may note its own failure: keep that.
    const known = [...disk.unfinished.keys()];
    const recovered = (await onDiskOfAll(disk, 'staging', (each) => recoverOn(each, signal))).flat();
    for (const path of known) disk.unfinished.delete(path);
    for (const { targets, obstacle } of recovered)
      if (obstacle !== null) for (const path of targets) disk.unfinished.set(path, obstacle);
    return recovered.flatMap(({ targets, obstacle }) => (obstacle === null ? targets.slice(0, 1) : []));
  });
}

async function recoverOn(disk: Disk, signal?: AbortSignal): Promise<readonly Recovered[]> {
  const mark = disk.flush.mark();
  const left = (await stagesIn(disk.layout)).filter((folder) => !disk.inUse.has(basename(folder)));
  const journals = await Promise.all(left.map(readJournal));
  for (const folder of left) refuseIntent(folder);
  // They share the flushes.
  return Promise.all(
    left.map((folder, at) => recoverStage(disk, folder, journals[at] ?? null, mark, signal)),
  );
}

/** A stage that cannot be completed now stays for the next time, and stops nothing else. */
async function recoverStage(
  disk: Disk,
  folder: string,
  journal: Journal | null,
  mark: FlushMark,
  signal: AbortSignal | undefined,
): Promise<Recovered> {
  const begun = journal !== null && mayBeMade(disk, folder, journal) ? journal : null;
  // After a kill the journal may not be on the disk yet. The next start must find it if the power fails between two moves.
  const end = (): Promise<void> =>
    begun === null ? removeUnpublished(disk.layout, folder) : carryOut(disk, folder, begun, mark);
  try {
    await disk.gate.pass(end, signal);
    return { targets: begun?.targets ?? [], obstacle: null };
  } catch (obstacle) {
    return { targets: journal?.targets ?? [basename(folder)], obstacle };
  }
}

/** Refuses the unfinished work of version 0.1.0, which has another format. @throws MirrorError `directory.unusable` */
function refuseIntent(stage: string): void {
  if (statsNow(join(stage, 'intent.json')) === null) return;
  throw new MirrorError(
    'directory.unusable',
    `The stage ${basename(stage)} holds a change that an earlier version did not finish.`,
    { hint: 'Run `sync` once with version 0.1.0, which finishes it; then start this version.' },
  );
}

/**
 * Finds the publishes of all instances that are going on, or were interrupted.
 * @returns their targets, by path, and whether this user, or the disk, hides none of them
 * @throws MirrorError `disk.*`
 */
export async function unfinishedPublishes(
  layout: DirectoryLayout,
): Promise<{ readonly targets: ReadonlySet<string>; readonly isComplete: boolean }> {
  const targets = new Set<string>();
  let isComplete = true;
  const hide = (): null => {
    isComplete = false;
    return null;
  };
  for (const instance of [layout, ...(await otherInstances(layout))])
    for (const stage of (await stagesIn(instance).catch(hide)) ?? [])
      for (const target of (await readJournal(stage).catch(hide))?.targets ?? []) targets.add(target);
  return { targets, isComplete };
}

async function stagesIn({ staging }: DirectoryLayout): Promise<string[]> {
  return ((await unlessMissing(readdir(staging))) ?? []).map((name) => join(staging, name));
}

/** How long the removal of a stage waits for the lock on publishing, in milliseconds. */
const REMOVAL_PATIENCE_MS = 500;

/** Removes a stage, unless its publishing has begun: then recovery completes it. Links wait for the end of a lease. */
export async function discardStage(
  { layout, inUse, gate }: Pick<Disk, 'layout' | 'inUse' | 'gate'>,
  { folder, hasLinks }: { readonly folder: string; readonly hasLinks: boolean },
): Promise<void> {
  try {
    await onDisk('removing a stage', async () => {
      if ((await unlessMissing(lstat(folder))) === null) return;
      if ((await unlessMissing(lstat(join(folder, JOURNAL_FILE)))) !== null) return;
      const remove = (): Promise<void> => removeUnpublished(layout, folder);
      if (!hasLinks) return remove();
      // If that is not possible now, recovery does it before the next pass.
      await gate.pass(remove, AbortSignal.timeout(REMOVAL_PATIENCE_MS)).catch(() => {});
    });
  } finally {
    inUse.delete(basename(folder));
  }
}

/** Removes a stage that published nothing, and the tree that a link should lead to. */
async function removeUnpublished(layout: DirectoryLayout, stage: string): Promise<void> {
  // Once the link has left the stage, a reader may be in its tree, even without a journal.
  const name = basename(stage);
  if (linkNow(join(stage, STAGED.link))?.endsWith(`/${name}`) === true) await removeTree(layout, name);
  await rm(stage, { recursive: true, force: true });
}
