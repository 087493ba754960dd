import { randomUUID } from 'node:crypto';
import { access, lstat, rename, unlink, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';

import { z } from 'zod';

import { removeEmptyFolders } from '../../../lib/disk/durable.ts';
import { readOwnFile } from '../../../lib/disk/own-file.ts';
import { systemCode, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { isTargetPath, leadsBelow } from '../../../lib/paths/file-name.ts';
import type { Disk } from '../disk.ts';
import type { DirectoryLayout } from '../layout.ts';
import { refuseLinks } from '../published-tree.ts';
import type { Move } from './moves.ts';
import { renameInto } from './renames.ts';

/**
 * The list of moves that bring targets from one state to the next. It is written into the stage and flushed together with all that it
 * moves, before the first move is made. So one move that was made proves that the list and everything in the stage are whole: the
 * rest is made, too. As long as none was made the stage can be thrown away.
 */
export interface Journal {
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
export async function writeJournal(stage: string, journal: Journal): Promise<void> {
  await writeFile(join(stage, JOURNAL_FILE), JSON.stringify(journal), { flag: 'wx' });
}

/** Takes back a journal of which no move was made. */
export async function removeJournal(stage: string): Promise<void> {
  await unlessMissing(unlink(join(stage, JOURNAL_FILE)));
}

/** Whether a stage has a journal, whole or not: then recovery alone may touch it. */
export async function hasJournal(stage: string): Promise<boolean> {
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
export function refuseLinksOf(layout: DirectoryLayout, stage: string, { moves }: Journal): Promise<void> {
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
export async function makeMoves(
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
export async function isAnyMade(
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
