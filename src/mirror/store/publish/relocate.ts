import { lstat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import type { Disk } from '../disk.ts';
import { manifestPath, treePath } from '../layout.ts';
import { formatManifest } from '../manifest-text.ts';
import type { Manifest } from '../manifest.ts';
import { linkText, treeAt } from '../published-tree.ts';
import { commit, freeHistoryPath, occupantAt, refuseUnfinished, throughGate } from './commit.ts';
import { inodeAt } from './journal.ts';
import { type LeavingFacts, type Move, renameMoves, retireMoves, STAGED } from './moves.ts';
import { discardBehindGate, keepPublished, openStage, type Stage } from './stage.ts';

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
    const keptInode = await inodeAt(join(stage.folder, STAGED.kept));
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
    manifestInode: await inodeAt(manifestPath(layout, path)),
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
      await discardBehindGate(disk, stage);
    }
  });
}
