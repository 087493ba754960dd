import { lstat, readdir, rename, rm, rmdir, unlink } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';

import { linkNow } from '../../../lib/disk/read.ts';
import { systemCode, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { makeFolders, removeEmptyFolders } from '../../../lib/disk/durable.ts';
import { type Intent, isRepeated, removeIntent, STAGED } from './intent.ts';
import { type DirectoryLayout, manifestPath, treePath } from '../layout.ts';
import { readManifest } from '../manifest-file.ts';
import { isLinkedTo, linkText, treeAt, treeNameOf } from '../published-tree.ts';
import { removeTree } from '../unlinked-trees.ts';
import { exists, renameIfThere, renameInto, takePlace } from './renames.ts';
import type { NativeCalls } from '../../../lib/native/file-calls.ts';

/** Everything that is needed to carry out an intent, during a publish or in recovery. */
export interface IntentContext {
  readonly layout: DirectoryLayout;
  readonly native: NativeCalls;
  /** Whether the file system exchanges two names in one step. */
  readonly canExchange: boolean;
  /** The names of the stages that are in use, which recovery leaves alone. */
  readonly inUse: Set<string>;
  /** When the remains of a stage may be removed, in milliseconds since the epoch. */
  readonly trashUntilMs: () => number;
}

/** Takes an intent's decisive step: before it nothing is visible, after it everything is. Flushes nothing. */
export async function applyIntent(context: IntentContext, stage: string, intent: Intent): Promise<void> {
  const published = treePath(context.layout, intent.path);
  const staged = join(stage, STAGED.tree);
  switch (intent.how) {
    case 'first':
      return renameInto(staged, published);
    case 'exchange':
      return takeWholePlace(context, stage, staged, published);
    case 'link':
      return placeLink(context, stage, intent.path);
    case 'in-place':
      return intent.isRemoval
        ? rm(join(published, intent.file), { force: true })
        : rename(join(staged, intent.file), join(published, intent.file));
    case 'rename':
    case 'manifest':
    case 'relocate':
  }
}

/** A link is put over another one, or where nothing stands, by one rename; anything else changes places with it. */
async function placeLink(context: IntentContext, stage: string, path: string): Promise<void> {
  const published = treePath(context.layout, path);
  const link = join(stage, STAGED.link);
  const { kind } = treeAt(context.layout, path);
  if (kind === 'folder' || kind === 'other') return takeWholePlace(context, stage, link, published);
  return renameInto(link, published);
}

/** Where the file system cannot exchange two names there is nothing at the place for an instant. */
async function takeWholePlace(
  { native, canExchange }: IntentContext,
  stage: string,
  staged: string,
  published: string,
): Promise<void> {
  if (canExchange) return native.exchange(staged, published);
  const displaced = join(stage, STAGED.displaced);
  const isDisplaced = await renameIfThere(published, displaced);
  try {
    await renameInto(staged, published);
  } catch (error) {
    if (isDisplaced) await rename(displaced, published);
    throw error;
  }
}

/**
 * Whether an intent that was found may have changed anything already, so that it must be brought to its end. If not, its stage may
 * be torn.
 */
export async function isApplied(context: IntentContext, stage: string, intent: Intent): Promise<boolean> {
  return (
    isRepeated(intent) ||
    (await isManifestInPlace(context, intent)) ||
    (await isStepTaken(context, stage, intent))
  );
}

async function isManifestInPlace({ layout }: IntentContext, intent: Intent): Promise<boolean> {
  if (!('manifestInode' in intent) || intent.manifestInode === undefined) return false;
  return (await inodeOf(manifestPath(layout, intent.path))) === intent.manifestInode;
}

async function isStepTaken({ layout }: IntentContext, stage: string, intent: Intent): Promise<boolean> {
  const published = treePath(layout, intent.path);
  const staged = join(stage, STAGED.tree);
  switch (intent.how) {
    case 'first':
      if (intent.stagedInode === undefined) return !(await exists(staged)) && exists(published);
      return (await inodeOf(published)) === intent.stagedInode;
    case 'exchange':
      return (await inodeOf(published)) === intent.stagedInode || exists(join(stage, STAGED.displaced));
    case 'link':
      return isLinkedTo(layout, intent.path, intent.linked) || isDisplaced(layout, stage, intent.displacedTo);
    case 'in-place':
      return isFileReplaced(stage, published, intent);
    case 'manifest':
    case 'rename':
    case 'relocate':
      return false;
  }
}

/** Whether what stood at the place of a tree was moved away, to where nothing was before. */
async function isDisplaced(layout: DirectoryLayout, stage: string, to: string | null): Promise<boolean> {
  return (await exists(join(stage, STAGED.displaced))) || (to !== null && exists(join(layout.root, to)));
}

async function isFileReplaced(
  stage: string,
  published: string,
  intent: Extract<Intent, { how: 'in-place' }>,
): Promise<boolean> {
  const [place, source] = [join(published, intent.file), join(stage, STAGED.tree, intent.file)];
  if (intent.manifestInode === undefined) return !(await exists(intent.isRemoval ? place : source));
  const isDone = intent.isRemoval ? !(await exists(place)) : (await inodeOf(place)) === intent.stagedInode;
  // Somebody else may have removed the file, or linked it to the staged one: then the manifest may be torn.
  return isDone && (await readManifest(join(stage, STAGED.manifest))) !== null;
}

/** Brings an intent to its end that is applied, wherever it was cut off. Flushes nothing, and leaves the stage. */
export async function completeIntent(context: IntentContext, stage: string, intent: Intent): Promise<void> {
  // A file system that does not keep the order of renames may have the manifest in its place and the tree in the stage.
  if (await isStepOpen(stage, intent)) await applyIntent(context, stage, intent);
  await finishIntent(context, stage, intent);
}

/** Whether a stage still holds what the decisive step of its intent takes from there. */
async function isStepOpen(stage: string, intent: Intent): Promise<boolean> {
  if (intent.how === 'link')
    return linkNow(join(stage, STAGED.link)) === linkText(intent.path, intent.linked);
  if (!('stagedInode' in intent) || intent.stagedInode === undefined) return false;
  const staged = join(stage, STAGED.tree, intent.how === 'in-place' ? intent.file : '');
  return (await inodeOf(staged)) === intent.stagedInode;
}

/**
 * Does the work that follows the decisive step. Can be repeated after it was cut off anywhere. Flushes nothing, and leaves the
 * stage, which may go once all this is durable.
 */
export async function finishIntent(
  { layout }: Pick<IntentContext, 'layout'>,
  stage: string,
  intent: Intent,
): Promise<void> {
  const published = treePath(layout, intent.path);
  const stagedManifest = join(stage, STAGED.manifest);
  if (intent.how === 'relocate') {
    await relocate(layout, stage, intent);
  } else {
    if (intent.how === 'rename') await renameFiles(join(stage, STAGED.tree), published, intent.removed);
    if ((intent.how === 'exchange' || intent.how === 'link') && intent.displacedTo !== null) {
      const displacedTo = join(layout.root, intent.displacedTo);
      // Once the new manifest is in its place, it is the one that stands there.
      if (await exists(stagedManifest))
        await renameIfThere(manifestPath(layout, intent.path), `${displacedTo}.json`);
      const exchanged = intent.how === 'link' ? STAGED.link : STAGED.tree;
      for (const name of [STAGED.displaced, exchanged]) await renameIfThere(join(stage, name), displacedTo);
    }
    if ('keptTo' in intent && intent.keptTo !== null) {
      const keptTo = join(layout.root, intent.keptTo);
      await renameIfThere(join(stage, STAGED.keptManifest), `${keptTo}.json`);
      await renameIfThere(join(stage, STAGED.kept), keptTo);
    }
    await renameIfThere(stagedManifest, manifestPath(layout, intent.path));
  }
}

async function relocate(
  layout: DirectoryLayout,
  stage: string,
  intent: Extract<Intent, { how: 'relocate' }>,
): Promise<void> {
  const treeFrom = treePath(layout, intent.path);
  const manifestFrom = manifestPath(layout, intent.path);
  const manifestTo = join(layout.root, intent.manifestTo);
  const tree = await unlessMissing(lstat(treeFrom));
  if (intent.linked !== null) await relocateLink(layout, stage, intent, intent.linked);
  else if (tree !== null && tree.ino === intent.treeInode)
    await renameIfThere(treeFrom, join(layout.root, intent.treeTo));
  const isMeant = (await readManifest(manifestFrom))?.repository.id === intent.repositoryId;
  const isRewritten = await renameIfThere(join(stage, STAGED.manifest), manifestTo);
  if (isMeant && manifestFrom !== manifestTo) {
    if (isRewritten || (await exists(manifestTo))) await rm(manifestFrom, { force: true });
    else await renameIfThere(manifestFrom, manifestTo);
  }
  await removeEmptyFolders(dirname(treeFrom), layout.mirror);
  await removeEmptyFolders(dirname(manifestFrom), layout.manifests);
}

/** The tree stays where it is: another link leads there, or links to its files go to the history. */
async function relocateLink(
  layout: DirectoryLayout,
  stage: string,
  { path, treeTo }: Extract<Intent, { how: 'relocate' }>,
  linked: string,
): Promise<void> {
  for (const name of [STAGED.link, STAGED.kept])
    await renameIfThere(join(stage, name), join(layout.root, treeTo));
  if (isLinkedTo(layout, path, linked) && treeTo !== `mirror/${path}`) await unlink(treePath(layout, path));
}

/** Brings a published tree to its new state file by file. What is already done is passed over. */
async function renameFiles(staged: string, published: string, removed: readonly string[]): Promise<void> {
  for (const file of removed) {
    await unlink(join(published, file)).catch(ignoreDone);
    await removeEmptyFolders(join(published, file), published);
  }
  const entries = await unlessMissing(readdir(staged, { recursive: true, withFileTypes: true }));
  for (const entry of entries ?? []) {
    if (!entry.isFile()) continue;
    const folder = join(published, relative(staged, entry.parentPath));
    await makeFolders(folder);
    await takePlace(join(entry.parentPath, entry.name), join(folder, entry.name));
  }
}

/** The file is gone already, or a folder stands in its place, or a file where its folder was: an earlier try did it. */
function ignoreDone(error: unknown): void {
  const code = systemCode(error);
  if (code !== 'ENOENT' && code !== 'ENOTDIR' && code !== 'EISDIR') throw error;
}

/** Removes what remains of a stage with its intent; a replaced tree in it stays whole for a while, for readers that entered it. */
export async function removeStage(
  { layout, trashUntilMs }: IntentContext,
  stage: string,
  intent: Intent,
): Promise<void> {
  if (leavesTree(intent) !== null || (intent.how !== 'first' && (await holdsTree(stage)))) {
    await rename(stage, join(layout.trash, `${trashUntilMs()}-${basename(stage)}`));
    return;
  }
  await removeIntent(stage);
  await rmdir(stage).catch(() => rm(stage, { recursive: true, force: true }));
}

/** The tree that no link leads to any more when an intent is done; null for none. */
export function leavesTree(intent: Intent): string | null {
  if (intent.how === 'exchange' || intent.how === 'link') return intent.unlinked;
  return intent.how === 'relocate' && !intent.treeTo.startsWith('mirror/') ? intent.linked : null;
}

async function holdsTree(stage: string): Promise<boolean> {
  for (const name of [STAGED.tree, STAGED.link, STAGED.displaced])
    if ((await unlessMissing(lstat(join(stage, name))))?.isDirectory() === true) return true;
  return false;
}

/** Removes a stage of which nothing was published, and the tree that was to be linked to. */
export async function removeUnpublished(layout: DirectoryLayout, stage: string): Promise<void> {
  // Once the link has left the stage, a reader may be at its tree, whatever became of the intent.
  const name = treeNameOf(stage);
  if (linkNow(join(stage, STAGED.link))?.endsWith(`/${name}`) === true) await removeTree(layout, name);
  await rm(stage, { recursive: true, force: true });
}

async function inodeOf(path: string): Promise<number | undefined> {
  return (await unlessMissing(lstat(path)))?.ino;
}
