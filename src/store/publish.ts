import { lstat, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { MirrorError } from '../model/errors.ts';
import { type Manifest, treeChanges } from '../model/manifest.ts';
import { choosePublishMethod, type PublishMethod, type PublishMode } from '../model/publishing.ts';
import { onDisk, unlessMissing } from './disk-errors.ts';
import { ensureFolder, writeNewFile } from './durable.ts';
import { type Intent, STAGED, writeIntent } from './intent.ts';
import { historyPath, manifestPath, treePath } from './layout.ts';
import { formatManifest, readManifest } from './manifest-file.ts';
import { finishIntent, type SettleContext, takeStep } from './settle.ts';
import { openStage, type Stage } from './stage.ts';

/** What publishing works with. */
export interface PublishContext extends SettleContext {
  readonly mode: PublishMode;
  readonly canExchange: boolean;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Runs one at a time what makes and removes folders that several targets share. */
  readonly exclusively: (work: () => Promise<void>) => Promise<void>;
}

/** Makes a queue for {@link PublishContext.exclusively}. */
export function createExclusion(): PublishContext['exclusively'] {
  let last = Promise.resolve();
  return (work) => {
    const done = last.then(work);
    last = done.catch(() => {});
    return done;
  };
}

/** What a publish did. */
export interface PublishResult {
  readonly method: PublishMethod['kind'];
  readonly changedFiles: number;
}

/**
 * Makes a stage the published state of a target: first everything is made durable, then one step makes it visible, then
 * the manifest follows. Readers see the state before or the state after, never anything between (README, "On disk").
 * @param path where the tree belongs, `<repository>/<branch>`
 * @param rewritten paths whose published copy is to be replaced although its inventory did not change
 */
export async function publishStage(
  context: PublishContext,
  stage: Stage,
  path: string,
  manifest: Manifest,
  rewritten: readonly string[],
): Promise<PublishResult> {
  return onDisk(`publishing ${path}`, async () => {
    await refuseLinks(context.layout.mirror, path, []);
    const present = await readManifest(manifestPath(context.layout, path));
    const isOurs = present?.repository.id === manifest.repository.id && present.branch === manifest.branch;
    const treePresent = (await unlessMissing(lstat(treePath(context.layout, path)))) !== null;
    const before = isOurs && treePresent ? present.files : [];
    const differences = treeChanges(before, manifest.files);
    const changes = { ...differences, changed: [...new Set([...differences.changed, ...rewritten])] };
    const method = choosePublishMethod({
      mode: context.mode,
      canExchange: context.canExchange,
      isPublished: isOurs && treePresent,
      isOccupied: treePresent && !isOurs,
      changes,
      files: manifest.files,
    });
    if (method.kind === 'first' && treePresent) await retireTree(context, path);
    if (method.kind === 'exchange') await linkUnchanged(stage, manifest, changes);
    if (method.kind === 'in-place' || method.kind === 'rename') {
      await refuseLinks(context.layout.mirror, path, [
        ...changes.added,
        ...changes.changed,
        ...changes.removed,
      ]);
    }
    const isEmptied = before.length > 0 && manifest.files.length === 0;
    const displacedTo = isOurs && !isEmptied ? null : relativeHistoryPath(context, path);
    const intent = await intentFor(method, path, stage, changes.removed, displacedTo);
    await writeNewFile(join(stage.folder, STAGED.manifest), formatManifest(manifest));
    await commit(context, stage.folder, intent);
    const changedFiles = changes.added.length + changes.changed.length + changes.removed.length;
    return { method: method.kind, changedFiles };
  });
}

/**
 * Refuses to work through symbolic links: someone put them there, and they may lead out of the directory.
 * @param files paths below the tree that are about to be renamed in place
 */
async function refuseLinks(root: string, path: string, files: readonly string[]): Promise<void> {
  const folders = new Set<string>();
  for (const file of [path, ...files.map((each) => dirname(join(path, each)))]) {
    for (let folder = file; folder !== '.' && !folders.has(folder); folder = dirname(folder))
      folders.add(folder);
  }
  for (const folder of folders) {
    const found = await unlessMissing(lstat(join(root, folder)));
    if (found?.isSymbolicLink() !== true) continue;
    throw new MirrorError('disk.changed', `mirror/${folder} is a symbolic link, where a folder belongs.`, {
      hint: 'Remove the link: the mirror is made of real folders, and nothing is written through links.',
    });
  }
}

/** Writes the intent, makes the stage durable, and carries the intent out. */
async function commit(context: PublishContext, stage: string, intent: Intent): Promise<void> {
  await writeIntent(stage, intent);
  const root = await open(stage, 'r');
  try {
    await context.native.syncFileSystem(root.fd);
  } finally {
    await root.close();
  }
  await context.exclusively(async () => {
    await takeStep(context, stage, intent);
    await finishIntent(context, stage, intent);
  });
}

async function linkUnchanged(
  stage: Stage,
  manifest: Manifest,
  changes: { added: readonly string[]; changed: readonly string[] },
): Promise<void> {
  const staged = new Set([...changes.added, ...changes.changed]);
  await stage.linkPublished(manifest.files.map((file) => file.path).filter((path) => !staged.has(path)));
}

async function intentFor(
  method: PublishMethod,
  path: string,
  stage: Stage,
  removed: readonly string[],
  displacedTo: string | null,
): Promise<Intent> {
  switch (method.kind) {
    case 'manifest':
    case 'first':
      return { how: method.kind, path };
    case 'in-place':
      return { how: 'in-place', path, file: method.file, isRemoval: method.isRemoval };
    case 'exchange': {
      const { ino } = await lstat(join(stage.folder, STAGED.tree));
      return { how: 'exchange', path, stagedInode: ino, displacedTo };
    }
    case 'rename':
      return { how: 'rename', path, removed };
  }
}

function relativeHistoryPath(context: PublishContext, path: string): string {
  return historyPath(context.layout, path, context.now()).slice(context.layout.root.length + 1);
}

/** Moves a tree and its manifest, if it has one, from the mirror to the dated history. */
export async function retireTree(context: PublishContext, path: string): Promise<void> {
  const to = relativeHistoryPath(context, path);
  await relocateTree(context, { how: 'relocate', path, treeTo: to, manifestTo: `${to}.json` }, null);
}

/** Moves a tree to the path of its renamed repository, and makes its manifest say so. */
export async function moveTree(
  context: PublishContext,
  from: string,
  to: string,
  manifest: Manifest,
): Promise<void> {
  const isOccupied = from !== to && (await unlessMissing(lstat(treePath(context.layout, to)))) !== null;
  if (isOccupied) await retireTree(context, to);
  const intent: Intent =
    from === to
      ? { how: 'manifest', path: to }
      : { how: 'relocate', path: from, treeTo: `mirror/${to}`, manifestTo: `manifests/${to}.json` };
  await relocateTree(context, intent, manifest);
}

async function relocateTree(
  context: PublishContext,
  intent: Intent,
  manifest: Manifest | null,
): Promise<void> {
  await onDisk(`moving ${intent.path}`, async () => {
    const stage = await openStage(context.layout, intent.path);
    await ensureFolder(context.layout.history);
    if (manifest !== null) await writeNewFile(join(stage.folder, STAGED.manifest), formatManifest(manifest));
    await commit(context, stage.folder, intent);
  });
}
