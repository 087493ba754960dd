import { symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';

import { setTimeApart } from '../../../lib/disk/durable.ts';
import { statsNow } from '../../../lib/disk/read.ts';
import { onDisk } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import type { Disk } from '../disk.ts';
import { freeHistoryPath, type ReplacedState, stageHistory, stageKeptManifest } from '../history/history.ts';
import { manifestPath, treePath } from '../layout.ts';
import { formatManifest } from '../manifest-text.ts';
import { type Manifest, type TreeChanges, treeChanges } from '../manifest.ts';
import { isTreeAt, linkText, refuseLinks, treeAt, type TreePlace } from '../published-tree.ts';
import { commit, discardStage, refuseUnfinished } from './journal.ts';
import {
  choosePublishMethod,
  moveRenames,
  type PublishMethod,
  publishRenames,
  type Rename,
  retireRenames,
  STAGED,
} from './moves.ts';
import {
  changedSinceStaged,
  keepPublished,
  linkUnchanged,
  makeTreeLink,
  openStage,
  type Stage,
} from './stage.ts';

/** The change from the published state to a new one. */
export interface NextState extends ReplacedState {
  /** Paths whose published copy must be replaced, because someone changed it. */
  readonly rewritten?: readonly string[];
  /** Whether the tree holds anything that its manifest does not list: then it is replaced as a whole. */
  readonly isDamaged?: boolean;
  /** Paths that someone added to the tree. They are removed if it cannot be replaced as a whole. Null if they are unknown. */
  readonly foreign?: readonly string[] | null;
}

/**
 * Makes a stage the published state of its target: first everything is made durable, then one step makes it visible, then
 * the manifest follows. Readers see the old or the new state, never anything between (manual, "On disk").
 * @param signal ends the wait for the lock on publishing; a publish that has begun goes on
 * @returns how it was published
 * @throws MirrorError `publish.leased`; `disk.changed` if the published tree is not the one that the stage was compared with; `disk.*`
 */
export function publishStage(
  disk: Disk,
  stage: Stage,
  next: NextState,
  signal?: AbortSignal,
): Promise<PublishMethod> {
  const publish = (): Promise<PublishMethod> => publishBehindGate(disk, stage, next);
  return throughGate(disk, [stage.target], `publishing ${stage.target}`, publish, signal);
}

async function publishBehindGate(disk: Disk, stage: Stage, next: NextState): Promise<PublishMethod> {
  const { layout, mode, canExchange } = disk;
  const { target } = stage;
  const { manifest, before, isDamaged = false } = next;
  await refuseLinks(layout, [`mirror/${target}`], target);
  const place = treeAt(layout, target);
  const isThere = isTreeAt(place);
  const differences = treeChanges(isThere ? (before?.files ?? []) : [], manifest.files);
  // Without a tree, all files are new.
  const rewritten = isThere ? (next.rewritten ?? []) : [];
  // The history takes only the differences: a rewritten file has the same bytes as before.
  const changes = { ...differences, changed: [...new Set([...differences.changed, ...rewritten])] };
  refuseOther(disk, stage, place, changes);
  const facts = {
    mode,
    canExchange,
    place: place.kind,
    // If someone left a file in the place of the tree, nothing can be put into it.
    isOwn: before !== null && place.kind !== 'other',
    changes,
    isDamaged,
    files: manifest.files,
  };
  const method = choosePublishMethod(facts);
  const foreign = method === 'rename' ? foreignOf(next, target) : [];
  await stageManifest(disk, stage, manifest);
  if (method === 'exchange' || method === 'link') await linkUnchanged(stage, manifest.files, disk.onProgress);
  const keeping = await stageHistory(disk, stage, place, next, differences);
  if (method === 'link') await makeTreeLink(layout, stage);
  await commit(disk, stage, [target], publishRenames(method, { ...facts, target, foreign, keeping }));
  if (method === 'link') disk.linked.set(basename(stage.folder), target);
  return method;
}

/** Added paths that a publish file by file also removes: it would leave unknown ones behind. */
function foreignOf({ foreign = [] }: NextState, target: string): readonly string[] {
  if (foreign !== null) return foreign;
  const message = `Not all of mirror/${target} can be looked into, so nothing was published.`;
  throw new MirrorError('disk.failed', message, {
    hint: 'Check the owner and mode of its folders, and the disk.',
  });
}

/** Changes published trees in the locked directory. @param targets those that change */
async function throughGate<T>(
  disk: Disk,
  targets: readonly string[],
  doing: string,
  change: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  await disk.lock.check();
  const begin = (): Promise<T> =>
    onDisk(doing, () => {
      for (const target of targets) refuseUnfinished(disk, target);
      return change();
    });
  return disk.gate.pass(begin, signal);
}

/**
 * Makes sure that the published tree is the one that a stage was compared with, and that the stage holds exactly the files that it lacks.
 * Then links to the rest complete the new tree; if one fails, nothing is published.
 * @throws MirrorError `disk.changed`
 */
function refuseOther(
  { layout }: Disk,
  { target, published, manifestInode, staged }: Stage,
  place: TreePlace,
  { added, changed }: TreeChanges,
): void {
  const isSameManifest = (statsNow(manifestPath(layout, target))?.ino ?? null) === manifestInode;
  const wanted = [...added, ...changed];
  const isComplete = wanted.length === staged.size && wanted.every((path) => staged.has(path));
  if (place.tree !== published || !isSameManifest || !isComplete)
    throw changedSinceStaged(`removed or replaced mirror/${target}, or its manifest,`);
}

/** Writes a new manifest into a stage. */
async function stageManifest({ layout }: Disk, stage: Stage, manifest: Manifest): Promise<void> {
  const staged = join(stage.folder, STAGED.manifest);
  await writeFile(staged, formatManifest(manifest), { flag: 'wx' });
  await setTimeApart(staged, manifestPath(layout, stage.target));
}

/**
 * Moves a tree and its manifest, if it has one, from the mirror to the dated history.
 * @param manifest as {@link marked} makes it for the history; null to keep the mirror's
 */
export function retireTree(
  disk: Disk,
  path: string,
  signal?: AbortSignal,
  manifest: Manifest | null = null,
): Promise<void> {
  return inStage(disk, [path], (stage) => retirement(disk, stage, path, manifest), signal);
}

async function retirement(
  disk: Disk,
  stage: Stage,
  path: string,
  manifest: Manifest | null,
): Promise<Rename[]> {
  const { layout, onProgress } = disk;
  const { name, tree } = treeAt(layout, path);
  if (name !== null) await keepPublished(stage, tree, 'all', onProgress);
  const isMarked = manifest !== null && (await stageKeptManifest(disk, stage, path, manifest));
  return retireRenames(path, await freeHistoryPath(disk, path, 'retired'), name !== null, isMarked);
}

/**
 * Moves a tree to the path of its renamed repository, and updates its manifest. An existing tree at that path is retired.
 * @param to the same path to change only the manifest
 */
export function moveTree(
  disk: Disk,
  from: string,
  to: string,
  manifest: Manifest,
  signal?: AbortSignal,
): Promise<void> {
  const { layout } = disk;
  const prepare = async (stage: Stage): Promise<Rename[]> => {
    await stageManifest(disk, stage, manifest);
    const isTaken = from !== to && statsNow(treePath(layout, to)) !== null;
    const retired = isTaken ? await retirement(disk, stage, to, null) : [];
    const { name } = treeAt(layout, from);
    if (name !== null && from !== to) {
      await symlink(linkText(to, name), join(stage.folder, STAGED.link));
      disk.linked.set(name, to);
    }
    return [...retired, ...moveRenames(from, to, name !== null)];
  };
  return inStage(disk, [...new Set([from, to])], prepare, signal);
}

/** Opens a stage, commits the renames that `prepare` returns, and removes the stage. No new files are staged. */
function inStage(
  disk: Disk,
  targets: readonly string[],
  prepare: (stage: Stage) => Promise<Rename[]>,
  signal?: AbortSignal,
): Promise<void> {
  const [first = ''] = targets;
  const change = async (): Promise<void> => {
    const stage = await openStage(disk, first);
    try {
      await commit(disk, stage, targets, await prepare(stage));
    } finally {
      await discardStage(disk, stage);
    }
  };
  return throughGate(disk, targets, `moving ${first}`, change, signal);
}
