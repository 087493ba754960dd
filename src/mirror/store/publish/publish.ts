import { lstat, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { setTimeApart } from '../../../lib/disk/durable.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { ownCommand } from '../../../lib/text/own-command.ts';
import type { Disk } from '../disk.ts';
import { readHistory } from '../history/history.ts';
import { readManifest } from '../inventory.ts';
import { type DirectoryLayout, manifestPath } from '../layout.ts';
import { folderAt, linkOrCopy, refuseLinks, treeAt, treeNameOf, type TreePlace } from '../published-tree.ts';
import { formatManifest } from '../manifest-text.ts';
import { type Manifest, type TreeChanges, treeChanges } from '../manifest.ts';
import { examinePublished } from '../verify/examine.ts';
import { commit, inodeAt, refuseUnfinished } from './journal.ts';
import { choosePublishMethod, type HistoryFacts, type PublishMethod, publishMoves, STAGED } from './moves.ts';
import { freeHistoryPath, occupantAt, throughGate } from './relocate.ts';
import { keepPublished, linkPublished, makeTreeLink, type Stage } from './stage.ts';

/** How the step from what is published to a new state is special. */
export interface Repair {
  /** Paths whose published copy is to be replaced, because someone changed it. */
  readonly rewritten: readonly string[];
  /** Whether the tree holds anything else than its manifest says: then it is replaced as a whole. */
  readonly isDamaged: boolean;
  /** Whether a person approved what it deletes: then the tree before is kept as what is gone from the service is. */
  readonly isApprovedDeletion?: boolean;
}

/** The method by which a publish was done. */
export interface PublishResult {
  readonly method: PublishMethod['kind'];
}

/**
 * Makes a stage the published state of a target: first everything is made durable, then one step makes it visible, then
 * the manifest follows. Readers see the state before or the state after, never anything between (manual, "On disk").
 * @param path where the tree belongs, `<repository>/<branch>`
 * @param repair what of the published tree is to be replaced although the inventory did not change
 * @param signal ends the wait for the lock on publishing; a publish that was begun goes on
 */
export function publishStage(
  disk: Disk,
  stage: Stage,
  path: string,
  manifest: Manifest,
  repair: Repair,
  signal?: AbortSignal,
): Promise<PublishResult> {
  return throughGate(disk, () => publishBehindGate(disk, stage, path, manifest, repair), signal);
}

async function publishBehindGate(
  disk: Disk,
  stage: Stage,
  path: string,
  manifest: Manifest,
  repair: Repair,
): Promise<PublishResult> {
  return onDisk(`publishing ${path}`, async () => {
    refuseUnfinished(disk, path);
    await refuseLinks(disk.layout, [join('mirror', path)], path);
    const step = await planStep(disk, stage, path, manifest, repair);
    await stageManifest(disk, stage, path, manifest);
    await linkUnchanged(disk, stage, path, manifest, step);
    const history = await stageHistory(disk, stage, path, step);
    const { layout, canExchange } = disk;
    const { method, removed } = step;
    const moves = publishMoves({
      target: path,
      method: method.kind,
      canExchange,
      manifestInode: await inodeOf(join(stage.folder, STAGED.manifest)),
      sourceInode: await stageSource(disk, stage, method),
      files: await inodesOf(stage.tree, movedFiles(step)),
      removed: await inodesOf(stage.published, removed),
      occupant: await occupantAt(layout, path),
      history,
    });
    await commit(disk, stage, { targets: [path], moves });
    if (method.kind === 'link') disk.linked.set(treeNameOf(stage.folder), path);
    return { method: method.kind };
  });
}

/** The step from what stands at the place of a tree to a new state. */
interface Step {
  readonly method: PublishMethod;
  readonly changes: TreeChanges;
  /** Files that are removed one by one, those that someone else put there among them. */
  readonly removed: readonly string[];
  /** What the history takes; null for nothing. */
  readonly kept: Kept | null;
}

interface Kept {
  readonly kind: 'retired' | 'replaced';
  /** Files of the published tree, `all` that is in it, or null where the folder itself goes. */
  readonly files: readonly string[] | 'all' | null;
}

/** Decides how a new state is published. @throws MirrorError `disk.changed`, `internal.defect` */
async function planStep(
  disk: Disk,
  stage: Stage,
  path: string,
  manifest: Manifest,
  { rewritten, isDamaged, isApprovedDeletion = false }: Repair,
): Promise<Step> {
  const { place, isOurs, treePresent, before } = await lookAtPlace(disk, path, manifest);
  refuseOtherTree(disk.layout, stage, path, place);
  const differences = treeChanges(before, manifest.files);
  const changes = { ...differences, changed: [...new Set([...differences.changed, ...rewritten])] };
  refuseIncomplete(stage, path, changes);
  if (treePresent && !isOurs) await refuseNested(disk.layout, path);
  const method = choosePublishMethod({
    mode: disk.mode,
    canExchange: disk.canExchange,
    isPublished: isOurs && treePresent,
    isOccupied: treePresent && !isOurs,
    isLinked: place.kind === 'link',
    changes,
    isDamaged,
    files: manifest.files,
  });
  const foreign = isDamaged && method.kind === 'rename' ? await foreignPaths(disk, path, manifest) : [];
  const isByFile = method.kind === 'in-place' || method.kind === 'rename';
  const removed = isByFile ? [...changes.removed, ...foreign] : [];
  if (!treePresent) return { method, changes, removed, kept: null };
  const files = place.kind === 'link' ? 'all' : null;
  const kept: Kept | null = isOurs
    ? await keptOf(disk, path, differences, isApprovedDeletion || manifest.files.length === 0)
    : { kind: 'retired', files };
  return { method, changes, removed, kept };
}

/**
 * What the history takes of a target's state that a newer one replaces; null for nothing. A repair alone replaces no state: what
 * someone wrote into the tree is none.
 * @param isDeletion whether it is kept as what is gone from the service is
 */
async function keptOf(
  disk: Disk,
  path: string,
  { added, changed, removed }: TreeChanges,
  isDeletion: boolean,
): Promise<Kept | null> {
  const files = [...changed, ...removed];
  if (files.length + added.length === 0) return null;
  if (isDeletion) return { kind: 'retired', files };
  const isKept = disk.retention.replaced.kind !== 'off' || (await isNeededByHistory(disk, path));
  return isKept ? { kind: 'replaced', files } : null;
}

/** Whether the history keeps an older state of a target, whose unchanged files are those of the published tree. */
async function isNeededByHistory({ layout }: Disk, path: string): Promise<boolean> {
  return (await readHistory(layout, path)).some((entry) => entry.path === path);
}

/** Looks at the place where a tree is to be published: its manifest, its tree, and whose they are. */
async function lookAtPlace(
  { layout }: Disk,
  path: string,
  { repository, branch }: Manifest,
): Promise<{
  readonly place: TreePlace;
  /** Whether it belongs to the same target. */
  readonly isOurs: boolean;
  readonly treePresent: boolean;
  /** The files that are published there. */
  readonly before: Manifest['files'];
}> {
  const present = await readManifest(manifestPath(layout, path));
  const isOurs = present?.repository.id === repository.id && present.branch === branch;
  const place = treeAt(layout, path);
  const treePresent = place.kind !== 'gone' && place.kind !== 'dangling';
  return { place, isOurs, treePresent, before: isOurs && treePresent ? present.files : [] };
}

/** Paths that someone else added to a published tree. @throws MirrorError `disk.failed` where a part of it cannot be read */
async function foreignPaths({ layout }: Disk, path: string, { files }: Manifest): Promise<readonly string[]> {
  const { signal } = new AbortController();
  const differences = await examinePublished(layout, path, files, { depth: 'facts', signal });
  const unreadable = differences.find((each) => each.kind === 'unreadable');
  if (unreadable !== undefined) {
    const where = JSON.stringify(join('mirror', path, unreadable.path));
    throw new MirrorError('disk.failed', `What stands at ${where} cannot be read: ${unreadable.problem}.`, {
      hint: 'Check the file system of the setting directory, and the permissions there.',
    });
  }
  return differences.filter(({ kind }) => kind === 'added').map((each) => each.path);
}

/** Writes the new manifest into the stage. */
async function stageManifest(
  { layout }: Disk,
  stage: Stage,
  path: string,
  manifest: Manifest,
): Promise<void> {
  const staged = join(stage.folder, STAGED.manifest);
  await writeFile(staged, formatManifest(manifest), { flag: 'wx' });
  await setTimeApart(staged, manifestPath(layout, path));
}

/** Completes a new tree with links to what did not change. @throws MirrorError `disk.changed` where someone changed what is linked */
async function linkUnchanged(
  { onProgress }: Disk,
  stage: Stage,
  path: string,
  manifest: Manifest,
  { method, changes }: Step,
): Promise<void> {
  if (method.kind !== 'exchange' && method.kind !== 'link') return;
  const staged = new Set([...changes.added, ...changes.changed]);
  const unchanged = manifest.files.filter((file) => !staged.has(file.path));
  const modified = await linkPublished(stage, unchanged, onProgress);
  if (modified !== null) throw changedMeanwhile(modified, path);
}

/** Links into the stage what the history takes. @returns null for nothing */
async function stageHistory(
  disk: Disk,
  stage: Stage,
  path: string,
  { kept }: Step,
): Promise<HistoryFacts | null> {
  if (kept === null) return null;
  const { layout } = disk;
  if (kept.files !== null) await keepPublished(stage, stage.published, kept.files, disk.onProgress);
  const keptManifest = join(stage.folder, STAGED.keptManifest);
  // The manifest before stays where it is until the new one takes its place: it is never absent.
  if (inodeAt(manifestPath(layout, path)) !== null)
    await linkOrCopy(manifestPath(layout, path), keptManifest);
  return {
    place: await freeHistoryPath(disk, path, kept.kind),
    keptInode: inodeAt(join(stage.folder, STAGED.kept)),
    manifestInode: inodeAt(keptManifest),
  };
}

/** Makes the tree or link ready that takes the place of the tree. @returns its inode; null where neither does */
async function stageSource({ layout }: Disk, stage: Stage, { kind }: PublishMethod): Promise<number | null> {
  if (kind === 'link') {
    await makeTreeLink(layout, stage);
    return inodeOf(join(stage.folder, STAGED.link));
  }
  return kind === 'first' || kind === 'exchange' ? inodeOf(join(stage.folder, STAGED.tree)) : null;
}

/** The staged files that are moved one by one. */
function movedFiles({ method, changes }: Step): readonly string[] {
  return method.kind === 'in-place' || method.kind === 'rename' ? [...changes.added, ...changes.changed] : [];
}

/** The inodes of those of some files that are there, by their paths. @param folder absolute */
async function inodesOf(folder: string, paths: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  for (const path of paths) {
    const inode = inodeAt(join(folder, path));
    if (inode !== null) found.set(path, inode);
  }
  return found;
}

async function inodeOf(staged: string): Promise<number> {
  return (await lstat(staged)).ino;
}

/**
 * Makes sure that what stands at a path is the tree that a stage was compared with: the files that the stage lacks are taken from it.
 * @throws MirrorError `disk.changed` where someone put something else there meanwhile; `internal.defect` for another path
 */
function refuseOtherTree(
  layout: DirectoryLayout,
  { target, published }: Pick<Stage, 'target' | 'published'>,
  path: string,
  place: TreePlace,
): void {
  if (target !== path)
    throw new MirrorError('internal.defect', `A stage of ${target} was to be published as ${path}.`);
  if (folderAt(layout, path, place) !== published) throw replacedMeanwhile(path);
}

/**
 * Makes sure that a stage holds all files that the published tree does not, and no others: with links to the rest, of which each is
 * made or fails, it is exactly the new tree. It is not where the published tree is gone since the stage was compared with it.
 * @throws MirrorError `disk.changed`
 */
function refuseIncomplete(
  { staged }: Pick<Stage, 'staged'>,
  path: string,
  { added, changed }: TreeChanges,
): void {
  const wanted = new Set([...added, ...changed]);
  if (wanted.size === staged.size && [...wanted].every((file) => staged.has(file))) return;
  throw replacedMeanwhile(path);
}

/** Refuses to take the place of a folder in which other targets are published. */
async function refuseNested(layout: DirectoryLayout, path: string): Promise<void> {
  const below = (await unlessMissing(readdir(join(layout.manifests, path), { recursive: true }))) ?? [];
  const nested = below.find((name) => name.endsWith('.json'));
  if (nested === undefined) return;
  throw new MirrorError(
    'disk.changed',
    `mirror/${path} holds another target, ${path}/${nested.slice(0, -5)}.`,
    {
      hint: `Move one of them away; \`${ownCommand('status')}\` lists all targets.`,
    },
  );
}

function changedMeanwhile(file: string, path: string): MirrorError {
  return new MirrorError(
    'disk.changed',
    `Someone changed ${JSON.stringify(file)} of ${path} while the new tree was made ready.`,
    { hint: 'Nothing was published.' },
  );
}

function replacedMeanwhile(path: string): MirrorError {
  return new MirrorError(
    'disk.changed',
    `Someone removed or replaced mirror/${path} while the new tree was made ready.`,
    { hint: 'Nothing was published.' },
  );
}
