import { access, lstat, readdir, rename, rm, unlink } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';

import { systemCode, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { ensureFolder, removeEmptyFolders, renameIfThere, syncDirectory } from '../../../lib/disk/durable.ts';
import { type Intent, STAGED } from './intent.ts';
import { type DirectoryLayout, manifestPath, treePath } from '../layout.ts';
import { readManifest } from '../manifest-file.ts';
import type { NativeCalls } from '../../../lib/native/file-calls.ts';

/** Everything that is needed to carry out an intent, during a publish or in recovery. */
export interface IntentContext {
  readonly layout: DirectoryLayout;
  readonly native: NativeCalls;
  /** The names of the stages that are in use, which recovery leaves alone. */
  readonly inUse: Set<string>;
  /** When the remains of a stage may be removed, in milliseconds since the epoch. */
  readonly trashUntilMs: () => number;
}

/** Takes an intent's decisive step: before it nothing is visible, after it everything is. */
export async function applyIntent(context: IntentContext, stage: string, intent: Intent): Promise<void> {
  const published = treePath(context.layout, intent.path);
  const staged = join(stage, STAGED.tree);
  switch (intent.how) {
    case 'first':
      await ensureFolder(dirname(published));
      return rename(staged, published);
    case 'exchange':
      return context.native.exchange(staged, published);
    case 'in-place':
      return intent.isRemoval
        ? rm(join(published, intent.file), { force: true })
        : rename(join(staged, intent.file), join(published, intent.file));
    case 'rename':
    case 'manifest':
    case 'relocate':
  }
}

/** Whether an intent's decisive step was taken before the program was cut off. */
export async function isApplied(context: IntentContext, stage: string, intent: Intent): Promise<boolean> {
  const published = treePath(context.layout, intent.path);
  const staged = join(stage, STAGED.tree);
  switch (intent.how) {
    case 'first':
      return !(await exists(staged)) && exists(published);
    case 'exchange':
      return (await unlessMissing(lstat(published)))?.ino === intent.stagedInode;
    case 'in-place':
      return !(await exists(intent.isRemoval ? join(published, intent.file) : join(staged, intent.file)));
    case 'rename':
    case 'manifest':
    case 'relocate':
      return true;
  }
}

/** Does the work that follows the decisive step. Can be repeated after it was cut off anywhere. */
export async function finishIntent(context: IntentContext, stage: string, intent: Intent): Promise<void> {
  const { layout } = context;
  const published = treePath(layout, intent.path);
  const stagedManifest = join(stage, STAGED.manifest);
  if (intent.how === 'relocate') {
    await relocate(layout, stage, intent);
  } else {
    if (intent.how === 'rename') await renameFiles(join(stage, STAGED.tree), published, intent.removed);
    if (await exists(published)) await syncDirectory(dirname(published));
    if (intent.how === 'in-place') await syncDirectory(dirname(join(published, intent.file)));
    if (intent.how === 'exchange' && intent.displacedTo !== null && (await exists(stagedManifest))) {
      const displacedTo = join(layout.root, intent.displacedTo);
      await renameIfThere(manifestPath(layout, intent.path), `${displacedTo}.json`);
      await renameIfThere(join(stage, STAGED.tree), displacedTo);
    }
    if (intent.how === 'rename' && intent.keptTo !== null) {
      const keptTo = join(layout.root, intent.keptTo);
      await renameIfThere(join(stage, STAGED.keptManifest), `${keptTo}.json`);
      await renameIfThere(join(stage, STAGED.kept), keptTo);
    }
    await renameIfThere(stagedManifest, manifestPath(layout, intent.path));
  }
  await removeStage(context, stage);
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
  if (tree !== null && tree.ino === intent.treeInode)
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

/** Brings a published tree to its new state file by file. What is already done is passed over. */
async function renameFiles(staged: string, published: string, removed: readonly string[]): Promise<void> {
  const folders = new Set<string>();
  for (const file of removed) {
    const folder = dirname(join(published, file));
    await unlink(join(published, file)).catch(ignoreDone);
    await removeEmptyFolders(join(published, file), published);
    folders.add(folder);
  }
  const entries = await unlessMissing(readdir(staged, { recursive: true, withFileTypes: true }));
  for (const entry of entries ?? []) {
    if (!entry.isFile()) continue;
    const folder = join(published, relative(staged, entry.parentPath));
    await ensureFolder(folder);
    await takePlace(join(entry.parentPath, entry.name), join(folder, entry.name));
    folders.add(folder);
  }
  for (const folder of folders) if (await exists(folder)) await syncDirectory(folder);
}

/** Renames a file to where someone may have put a folder. */
async function takePlace(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    if (systemCode(error) !== 'EISDIR') throw error;
    await rm(to, { recursive: true });
    await rename(from, to);
  }
}

/** The file is gone already, or a folder stands in its place, or a file where its folder was: an earlier try did it. */
function ignoreDone(error: unknown): void {
  const code = systemCode(error);
  if (code !== 'ENOENT' && code !== 'ENOTDIR' && code !== 'EISDIR') throw error;
}

/** Removes a stage's remains; a replaced tree in it stays whole for a while, for readers that entered it. */
async function removeStage(context: IntentContext, stage: string): Promise<void> {
  if (await exists(join(stage, STAGED.tree))) {
    await rename(stage, join(context.layout.trash, `${context.trashUntilMs()}-${basename(stage)}`));
  } else {
    await rm(stage, { recursive: true, force: true });
  }
}

async function exists(path: string): Promise<boolean> {
  return (await unlessMissing(access(path).then(() => true))) ?? false;
}
