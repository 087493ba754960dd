import { lstat, unlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { setTimeApart } from '../../../lib/disk/durable.ts';
import { onDisk } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { type Manifest, type TreeChanges, treeChanges } from '../manifest.ts';
import { choosePublishMethod, type PublishMethod } from './publishing.ts';
import { commit, freeHistoryPath, type PublishContext, refuseUnrecovered } from './commit.ts';
import { examinePublished } from '../verify/examine.ts';
import { type Intent, STAGED } from './intent.ts';
import { manifestPath, treePath } from '../layout.ts';
import { readManifest } from '../manifest-file.ts';
import { formatManifest } from '../manifest-text.ts';
import { refuseLinks } from '../links.ts';
import { type TreePlace, treeAt } from '../published-tree.ts';
import { changedMeanwhile, refuseIncomplete, refuseNested, refuseOtherTree } from './refusals.ts';
import { retireTree } from './relocate.ts';
import type { Stage } from './stage.ts';

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
 */
export async function publishStage(
  context: PublishContext,
  stage: Stage,
  path: string,
  manifest: Manifest,
  { rewritten, isDamaged, isApprovedDeletion = false }: Repair,
): Promise<PublishResult> {
  return onDisk(`publishing ${path}`, async () => {
    refuseUnrecovered(context, path);
    await refuseLinks(context.layout, [join('mirror', path)], path);
    const { place, present, isOurs, treePresent, before } = await lookAtPlace(context, path, manifest);
    refuseOtherTree(context.layout, stage, path, place);
    const isLinked = place.kind === 'link';
    const differences = treeChanges(before, manifest.files);
    const changes = { ...differences, changed: [...new Set([...differences.changed, ...rewritten])] };
    refuseIncomplete(stage, path, changes);
    if (treePresent && !isOurs) await refuseNested(context.layout, path);
    const isPublished = isOurs && treePresent;
    const isEmptied = before.length > 0 && manifest.files.length === 0;
    // A repair alone replaces no state: what someone wrote into the tree is none.
    const isNewState = differences.added.length + differences.changed.length + differences.removed.length > 0;
    const isReplaced = isPublished && (context.keepsReplaced || isApprovedDeletion) && isNewState;
    const method = choosePublishMethod({
      mode: context.mode,
      canExchange: context.canExchange,
      isPublished,
      isOccupied: treePresent && !isOurs,
      isLinked,
      changes,
      isDamaged,
      keepsOld: isReplaced || isEmptied,
      files: manifest.files,
    });
    const isRetired = !isOurs || isEmptied || isApprovedDeletion;
    const keptTo = treePresent ? await placeForOld(context, path, method, { isRetired, isReplaced }) : null;
    await prepareStage(context, stage, path, {
      method,
      changes,
      manifest,
      present,
      place,
      keptTo,
    });
    const foreign = isDamaged && method.kind === 'rename' ? await foreignPaths(context, path, manifest) : [];
    const removed = [...changes.removed, ...foreign];
    const intent = await intentFor({ method, path, stage, removed, keptTo, place });
    const staged = join(stage.folder, STAGED.manifest);
    await writeFile(staged, formatManifest(manifest), { flag: 'wx' });
    await setTimeApart(staged, manifestPath(context.layout, path));
    await commit(context, stage, intent);
    return { method: method.kind };
  });
}

/** Whether a method puts a tree of its own in the place of the one before. */
function isWhole({ kind }: PublishMethod): boolean {
  return kind === 'exchange' || kind === 'link';
}

/** Looks at the place where a tree is to be published: its manifest, its tree, and whose they are. */
async function lookAtPlace(
  { layout }: PublishContext,
  path: string,
  { repository, branch }: Manifest,
): Promise<{
  readonly place: TreePlace;
  readonly present: Manifest | null;
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
  return { place, present, isOurs, treePresent, before: isOurs && treePresent ? present.files : [] };
}

/** The place in the history for the replaced tree; null if it is not to be kept. */
async function placeForOld(
  context: PublishContext,
  path: string,
  { kind }: PublishMethod,
  { isRetired, isReplaced }: Readonly<Record<'isRetired' | 'isReplaced', boolean>>,
): Promise<string | null> {
  if (kind !== 'exchange' && kind !== 'link' && kind !== 'rename') return null;
  if (isRetired) return freeHistoryPath(context, path, 'retired');
  return isReplaced ? freeHistoryPath(context, path, 'replaced') : null;
}

/** Paths that someone else added to a published tree. @throws MirrorError `disk.failed` where a part of it cannot be read */
async function foreignPaths(
  { layout }: PublishContext,
  path: string,
  { files }: Manifest,
): Promise<readonly string[]> {
  const { signal } = new AbortController();
  const { differences } = await examinePublished(layout, path, files, { depth: 'facts', signal });
  const unreadable = differences.find((each) => each.kind === 'unreadable');
  if (unreadable !== undefined) {
    const where = JSON.stringify(join('mirror', path, unreadable.path));
    throw new MirrorError('disk.failed', `What stands at ${where} cannot be read: ${unreadable.problem}.`, {
      hint: 'Check the file system of the setting directory, and the permissions there.',
    });
  }
  return differences.filter(({ kind }) => kind === 'added').map((each) => each.path);
}

/** Prepares everything that a method needs besides the staged files. */
async function prepareStage(
  context: PublishContext,
  stage: Stage,
  path: string,
  wanted: {
    readonly method: PublishMethod;
    readonly changes: TreeChanges;
    readonly manifest: Manifest;
    readonly present: Manifest | null;
    readonly place: TreePlace;
    readonly keptTo: string | null;
  },
): Promise<void> {
  const { method, changes, manifest, present, place, keptTo } = wanted;
  // Of the tree that such a link led to nothing is left.
  if (place.kind === 'dangling') await unlink(treePath(context.layout, path));
  else if (method.kind === 'first' && place.kind !== 'gone') await retireTree(context, path);
  if (isWhole(method)) await linkUnchanged(stage, path, manifest, changes);
  if (method.kind === 'in-place' || method.kind === 'rename') {
    const { added, changed, removed } = changes;
    const folders = [...added, ...changed, ...removed].map((file) => dirname(join('mirror', path, file)));
    await refuseLinks(context.layout, folders);
  }
  const isKeptByLinks =
    keptTo !== null && (method.kind === 'rename' || (isWhole(method) && place.kind === 'link'));
  if (!isKeptByLinks) return;
  await stage.keepPublished();
  if (present !== null)
    await writeFile(join(stage.folder, STAGED.keptManifest), formatManifest(present), { flag: 'wx' });
}

/** Someone may have changed meanwhile what is linked. */
async function linkUnchanged(
  stage: Stage,
  path: string,
  manifest: Manifest,
  changes: { added: readonly string[]; changed: readonly string[] },
): Promise<void> {
  const staged = new Set([...changes.added, ...changes.changed]);
  const modified = await stage.linkPublished(manifest.files.filter((file) => !staged.has(file.path)));
  if (modified !== null) throw changedMeanwhile(modified, path);
}

async function intentFor({
  method,
  path,
  stage,
  removed,
  keptTo,
  place,
}: {
  readonly method: PublishMethod;
  readonly path: string;
  readonly stage: Stage;
  readonly removed: readonly string[];
  readonly keptTo: string | null;
  readonly place: TreePlace;
}): Promise<Intent> {
  const replaced =
    place.kind === 'link'
      ? { displacedTo: null, keptTo, unlinked: place.name }
      : { displacedTo: keptTo, keptTo: null, unlinked: null };
  switch (method.kind) {
    case 'manifest':
      return { how: 'manifest', path };
    case 'first':
      return { how: 'first', path, stagedInode: await inodeOf(join(stage.folder, STAGED.tree)) };
    case 'in-place': {
      const { file, isRemoval } = method;
      const staged = isRemoval ? {} : { stagedInode: await inodeOf(stage.placeOf(file)) };
      return { how: 'in-place', path, file, isRemoval, ...staged };
    }
    case 'exchange':
      return {
        how: 'exchange',
        path,
        stagedInode: await inodeOf(join(stage.folder, STAGED.tree)),
        ...replaced,
      };
    case 'link':
      return { how: 'link', path, linked: await stage.link(path), ...replaced };
    case 'rename':
      return { how: 'rename', path, removed, keptTo };
  }
}

async function inodeOf(staged: string): Promise<number> {
  return (await lstat(staged)).ino;
}
