import { randomUUID } from 'node:crypto';
import { access, lstat, readdir, rename, rm, unlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';

import { z } from 'zod';

import { removeEmptyFolders } from '../../../lib/disk/durable.ts';
import { readOwnFile, readOwnText } from '../../../lib/disk/own-file.ts';
import { linkNow } from '../../../lib/disk/read.ts';
import type { FlushMark } from '../../../lib/disk/shared-flush.ts';
import { onDisk, systemCode, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { isTargetPath, leadsBelow } from '../../../lib/paths/file-name.ts';
import type { Disk } from '../disk.ts';
import { type DirectoryLayout, layoutOf } from '../layout.ts';
import { removeIfFree, tryToPass } from '../leases/gate.ts';
import { LeasedError } from '../leases/lease.ts';
import { refuseLinks, removeTree, restartAge, treeAt, treeNameOf } from '../published-tree.ts';
import { namesIn, withCommonLock } from '../shards.ts';
import { type Move, STAGED } from './moves.ts';
import { renameInto } from './renames.ts';

/**
 * The list of moves that bring targets from one state to the next. It is written into the stage and flushed together with all that it
 * moves, before the first move is made. So one move that was made proves that the list and everything in the stage are whole: the
 * rest is made, too. As long as none was made the stage can be thrown away.
 */
interface Journal {
  /** The targets that change, as below `mirror/`. */
  readonly targets: readonly string[];
  readonly moves: readonly Move[];
}

const JOURNAL_FILE = 'journal.json';

/** Room for the names of all the files that are published file by file. */
const MAX_JOURNAL_BYTES = 512 * 1024 ** 2;

/** The beginning of places in the stage, wherever that is: stages of other instances are moved. */
const STAGE = 'stage/';

/** Places within a stage, and of trees, manifests and history below the directory. */
const place = z
  .string()
  .refine((path) => leadsBelow(path) && /^(?:stage|mirror|manifests|history)\/./.test(path));

const journalSchema = z.strictObject({
  targets: z.array(z.string().refine(isTargetPath)).readonly(),
  moves: z
    .array(z.strictObject({ from: place, to: place, inode: z.number(), swaps: z.literal(true).optional() }))
    .readonly(),
});

/** Writes a stage's journal, and does not flush it. @param stage absolute */
async function writeJournal(stage: string, journal: Journal): Promise<void> {
  await writeFile(join(stage, JOURNAL_FILE), JSON.stringify(journal), { flag: 'wx' });
}

/** Takes back a journal of which no move was made. */
async function removeJournal(stage: string): Promise<void> {
  await unlessMissing(unlink(join(stage, JOURNAL_FILE)));
}

/** Whether a stage has a journal, whole or not: then recovery alone may touch it. */
async function hasJournal(stage: string): Promise<boolean> {
  return (await unlessMissing(access(join(stage, JOURNAL_FILE)).then(() => true))) ?? false;
}

/**
 * Reads a stage's journal; null where none was written whole, and so no move was made.
 * @param stage absolute
 */
export async function readJournal(stage: string): Promise<Journal | null> {
  const found = await readOwnFile(join(stage, JOURNAL_FILE), MAX_JOURNAL_BYTES);
  if (found.kind !== 'text') return null;
  try {
    return journalSchema.parse(JSON.parse(found.text));
  } catch {
    return null;
  }
}

/** The absolute place of one end of a move. */
function placeOf({ root }: Pick<DirectoryLayout, 'root'>, stage: string, path: string): string {
  return path.startsWith(STAGE) ? join(stage, path.slice(STAGE.length)) : join(root, path);
}

/** Makes sure that no move leads through a link that someone put there. @throws MirrorError `disk.changed` */
function refuseLinksOf(layout: DirectoryLayout, stage: string, { moves }: Journal): Promise<void> {
  const places = moves.flatMap(({ from, to }) => [from, to]);
  const folders = new Set(places.map((path) => dirname(placeOf(layout, stage, path))));
  return refuseLinks(
    layout,
    [...folders].map((folder) => relative(layout.root, folder)),
  );
}

/**
 * Makes all moves that were not made yet, and removes the folders that they left empty. Flushes nothing.
 * @param stage absolute; receives folders that stand where a file goes
 */
async function makeMoves(
  { layout, native }: Pick<Disk, 'layout' | 'native'>,
  stage: string,
  { targets, moves }: Journal,
): Promise<void> {
  for (const { from, to, inode, swaps } of moves) {
    const [source, destination] = [placeOf(layout, stage, from), placeOf(layout, stage, to)];
    if ((await inodeAt(source)) !== inode) continue;
    // Again, as an earlier move of a journal that someone else wrote may have put a link there.
    await refuseLinksOf(layout, stage, { targets, moves: [{ from, to, inode }] });
    if (swaps === true && (await inodeAt(destination)) !== null) native.exchange(source, destination);
    else await takePlace(source, destination, stage);
  }
  // Not before: a folder that the next move fills again would lose the permissions that someone gave it.
  for (const folder of new Set(moves.map(({ from }) => dirname(from))))
    await removeLeftFolders(layout, targets, folder);
}

/** Renames a file also to where someone put a folder, which goes to the stage. */
async function takePlace(source: string, destination: string, stage: string): Promise<void> {
  try {
    await renameInto(source, destination);
  } catch (error) {
    if (systemCode(error) !== 'EISDIR') throw error;
    await rename(destination, join(stage, `obstacle-${randomUUID()}`));
    await rename(source, destination);
  }
}

/** Removes empty folders from one upwards: those within a tree, but not the tree, or those around trees and manifests. */
async function removeLeftFolders(
  { root }: DirectoryLayout,
  targets: readonly string[],
  folder: string,
): Promise<void> {
  const [top = ''] = folder.split('/', 1);
  if (top !== 'mirror' && top !== 'manifests') return;
  const trees = targets.map((target) => `mirror/${target}`);
  const around = trees.find((tree) => folder === tree || folder.startsWith(`${tree}/`)) ?? top;
  await removeEmptyFolders(join(root, folder), join(root, around));
}

/** Whether any move of a journal was made: then all of it must be. */
async function isAnyMade(
  { layout }: Pick<Disk, 'layout'>,
  stage: string,
  { moves }: Journal,
): Promise<boolean> {
  for (const { to, inode } of moves) {
    if ((await inodeAt(placeOf(layout, stage, to))) === inode) return true;
  }
  return false;
}

/** The inode of whatever stands at a path, be it a link; null for nothing. @throws system errors */
export async function inodeAt(path: string): Promise<number | null> {
  return (await unlessMissing(lstat(path)))?.ino ?? null;
}

/**
 * Makes the stage durable with its journal, makes the moves, makes these durable, and removes the stage. An error before the first move
 * takes the journal back; after it the stage stays, to be brought to its end before anything else happens to the targets. Many may do
 * this at once: they share the flushes. Only who has passed the gate may call this.
 * @throws MirrorError `directory.replaced`, `disk.*`
 */
export async function commit(
  disk: Disk,
  { folder, flushMark }: { readonly folder: string; readonly flushMark: FlushMark },
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

/** A stage that is made ready. */
interface StageInUse {
  readonly folder: string;
  /** Whether it holds hard links to published files. */
  readonly hasLinks: boolean;
}

/** Removes a stage, unless its publishing was begun: then recovery brings it to its end. Links wait for the end of a lease. */
export async function discardStage(
  { layout, inUse, gate }: Pick<Disk, 'layout' | 'inUse' | 'gate'>,
  stage: StageInUse,
): Promise<void> {
  const discard = (): Promise<void> => discardBehindGate({ layout, inUse }, stage);
  try {
    if (stage.hasLinks && (await isLeft(stage))) await removeIfFree(gate, discard);
    else await discard();
  } finally {
    inUse.delete(treeNameOf(stage.folder));
  }
}

/** As {@link discardStage}, for those who have passed the gate. */
export async function discardBehindGate(
  { layout, inUse }: Pick<Disk, 'layout' | 'inUse'>,
  stage: StageInUse,
): Promise<void> {
  try {
    await onDisk('removing a stage', async () => {
      if (await isLeft(stage)) await removeUnpublished(layout, stage.folder);
    });
  } finally {
    inUse.delete(treeNameOf(stage.folder));
  }
}

/** Whether a stage is there and nothing of it was published. */
async function isLeft({ folder }: StageInUse): Promise<boolean> {
  return (await unlessMissing(lstat(folder))) !== null && !(await hasJournal(folder));
}

/** Removes a stage of which nothing was published, and the tree that was to be linked to. */
async function removeUnpublished(layout: DirectoryLayout, stage: string): Promise<void> {
  // Once the link has left the stage, a reader may be at its tree, whatever became of the journal.
  const name = treeNameOf(stage);
  if (linkNow(join(stage, STAGED.link))?.endsWith(`/${name}`) === true) await removeTree(layout, name);
  await rm(stage, { recursive: true, force: true });
}
