import { lstat, symlink, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import type { HistoryKind } from '../../plan/retention.ts';
import type { Disk } from '../disk.ts';
import { type DirectoryLayout, historyName, manifestPath, treePath } from '../layout.ts';
import { formatManifest } from '../manifest-text.ts';
import type { Manifest } from '../manifest.ts';
import { linkText, treeAt } from '../published-tree.ts';
import { commit, discardStage, inodeAt, refuseUnfinished } from './journal.ts';
import { type LeavingFacts, type Move, type Occupant, renameMoves, retireMoves, STAGED } from './moves.ts';
import { keepPublished, openStage, type Stage } from './stage.ts';

/** Changes what is published, in the directory that was locked. @param signal ends the wait for the lock on publishing */
export async function throughGate<T>(
  { gate, lock }: Pick<Disk, 'gate' | 'lock'>,
  step: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  await lock.check();
  return gate.pass(step, signal);
}

/** Moves a tree and its manifest, if it has one, from the mirror to the dated history. */
export function retireTree(disk: Disk, path: string, signal?: AbortSignal): Promise<void> {
  return throughGate(disk, () => retireBehindGate(disk, path), signal);
}

async function retireBehindGate(disk: Disk, path: string): Promise<void> {
  refuseUnfinished(disk, path);
  await inStage(disk, path, [path], async (stage) => {
    const place = await freeHistoryPath(disk, path, 'retired');
    if ('name' in treeAt(disk.layout, path))
      await keepPublished(stage, stage.published, 'all', disk.onProgress);
    const keptInode = inodeAt(join(stage.folder, STAGED.kept));
    return retireMoves(await leavingFacts(disk, path), place, keptInode);
  });
}

/** Moves a tree to the path of its renamed repository, and makes its manifest say so. */
export function moveTree(
  disk: Disk,
  from: string,
  to: string,
  manifest: Manifest,
  signal?: AbortSignal,
): Promise<void> {
  return throughGate(disk, () => moveBehindGate(disk, from, to, manifest), signal);
}

async function moveBehindGate(disk: Disk, from: string, to: string, manifest: Manifest): Promise<void> {
  const { layout } = disk;
  for (const path of [from, to]) refuseUnfinished(disk, path);
  if (from !== to && (await unlessMissing(lstat(treePath(layout, to)))) !== null)
    await retireBehindGate(disk, to);
  await inStage(disk, from, [...new Set([from, to])], async (stage) => {
    const staged = join(stage.folder, STAGED.manifest);
    await writeFile(staged, formatManifest(manifest), { flag: 'wx' });
    const facts = await leavingFacts(disk, from);
    const { ino } = await lstat(staged);
    if (from === to)
      return renameMoves({ ...facts, occupant: null }, to, { manifestInode: ino, linkInode: null });
    return renameMoves(facts, to, {
      manifestInode: ino,
      linkInode: await stageLink(disk, stage, from, to),
    });
  });
}

/** Makes another link to the tree that a link leads to. @returns its inode; null where the tree itself is at its place */
async function stageLink(disk: Disk, stage: Stage, from: string, to: string): Promise<number | null> {
  const place = treeAt(disk.layout, from);
  if (!('name' in place)) return null;
  const link = join(stage.folder, STAGED.link);
  disk.linked.set(place.name, to);
  await symlink(linkText(to, place.name), link);
  return inodeAt(link);
}

async function leavingFacts({ layout }: Disk, path: string): Promise<LeavingFacts> {
  return {
    target: path,
    occupant: await occupantAt(layout, path),
    manifestInode: inodeAt(manifestPath(layout, path)),
  };
}

/** Carries out moves that need a stage only for what they replace. @param planned gives the moves, once the stage is there */
async function inStage(
  disk: Disk,
  path: string,
  targets: readonly string[],
  planned: (stage: Stage) => Promise<Move[]>,
): Promise<void> {
  await disk.lock.check();
  await onDisk(`moving ${path}`, async () => {
    const stage = await openStage(disk, path);
    try {
      await commit(disk, stage, { targets, moves: await planned(stage) });
    } finally {
      await discardStage(disk, stage);
    }
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
