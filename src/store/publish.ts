import { lstat, open } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';

import { MirrorError } from '../model/errors.ts';
import { type Manifest, type TreeChanges, treeChanges } from '../model/manifest.ts';
import { choosePublishMethod, type PublishMethod, type PublishMode } from '../model/publishing.ts';
import type { HistoryKind } from '../model/retention.ts';
import { onDisk, unlessMissing } from '../model/disk-errors.ts';
import { writeNewFile } from './durable.ts';
import type { PublishActivity } from './activity.ts';
import { examinePublished } from './examine.ts';
import { type Intent, removeIntent, STAGED, writeIntent } from './intent.ts';
import { historyName, manifestPath, treePath } from './layout.ts';
import { formatManifest, readManifest } from './manifest-file.ts';
import { finishIntent, type SettleContext, takeStep, wasTaken } from './settle.ts';
import { openStage, type Stage } from './stage.ts';

/** What publishing works with. */
export interface PublishContext extends SettleContext {
  readonly mode: PublishMode;
  readonly canExchange: boolean;
  /** Whether the history keeps trees that a newer state replaces. */
  readonly keepsReplaced: boolean;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Runs one at a time what makes and removes folders that several targets share. */
  readonly exclusively: (work: () => Promise<void>) => Promise<void>;
  /** Targets whose last publish could not be completed, with why. */
  readonly unsettled: Map<string, unknown>;
  /** What is being published. */
  readonly activity: PublishActivity;
  /** Makes sure that the directory is still the one that was locked. @throws MirrorError `directory.replaced` */
  readonly checkDirectory: () => Promise<void>;
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

/** How a published tree differs from its own manifest, because someone changed it. */
export interface Repair {
  /** Paths whose published copy is to be replaced. */
  readonly rewritten: readonly string[];
  /** Whether the tree holds anything else than its manifest says: then it is replaced as a whole. */
  readonly isDamaged: boolean;
}

/** What a publish did. */
export interface PublishResult {
  readonly method: PublishMethod['kind'];
}

/**
 * Makes a stage the published state of a target: first everything is made durable, then one step makes it visible, then
 * the manifest follows. Readers see the state before or the state after, never anything between (README, "On disk").
 * @param path where the tree belongs, `<repository>/<branch>`
 * @param repair what of the published tree is to be replaced although the inventory did not change
 */
export async function publishStage(
  context: PublishContext,
  stage: Stage,
  path: string,
  manifest: Manifest,
  { rewritten, isDamaged }: Repair,
): Promise<PublishResult> {
  return onDisk(`publishing ${path}`, async () => {
    refuseUnsettled(context, path);
    await refuseLinks(context.layout.mirror, path, []);
    const { present, isOurs, treePresent, before } = await lookAtPlace(context, path, manifest);
    const differences = treeChanges(before, manifest.files);
    const changes = { ...differences, changed: [...new Set([...differences.changed, ...rewritten])] };
    const isPublished = isOurs && treePresent;
    const isEmptied = before.length > 0 && manifest.files.length === 0;
    const isReplaced = isPublished && context.keepsReplaced && !isDamaged;
    const method = choosePublishMethod({
      mode: context.mode,
      canExchange: context.canExchange,
      isPublished,
      isOccupied: treePresent && !isOurs,
      changes,
      isDamaged,
      keepsOld: isReplaced || isEmptied,
      files: manifest.files,
    });
    const keptTo = await placeForOld(context, path, { isOurs, isEmptied, isReplaced });
    await prepareStage(context, stage, path, { method, changes, manifest, present, keptTo });
    const foreign = isDamaged && method.kind === 'rename' ? await foreignPaths(context, path, manifest) : [];
    const intent = await intentFor(method, path, stage, [...changes.removed, ...foreign], keptTo);
    await writeNewFile(join(stage.folder, STAGED.manifest), formatManifest(manifest));
    await commit(context, stage.folder, intent);
    return { method: method.kind };
  });
}

/** What stands where a tree is to be published. */
async function lookAtPlace(
  { layout }: PublishContext,
  path: string,
  { repository, branch }: Manifest,
): Promise<{
  readonly present: Manifest | null;
  /** Whether it belongs to the same target. */
  readonly isOurs: boolean;
  readonly treePresent: boolean;
  /** The files that are published there. */
  readonly before: Manifest['files'];
}> {
  const present = await readManifest(manifestPath(layout, path));
  const isOurs = present?.repository.id === repository.id && present.branch === branch;
  const treePresent = (await unlessMissing(lstat(treePath(layout, path)))) !== null;
  return { present, isOurs, treePresent, before: isOurs && treePresent ? present.files : [] };
}

/** Where in the history the tree goes that is replaced, if it is to be kept. */
async function placeForOld(
  context: PublishContext,
  path: string,
  { isOurs, isEmptied, isReplaced }: Readonly<Record<'isOurs' | 'isEmptied' | 'isReplaced', boolean>>,
): Promise<string | null> {
  if (!isOurs || isEmptied) return freeHistoryPath(context, path, 'retired');
  return isReplaced ? freeHistoryPath(context, path, 'replaced') : null;
}

/** What someone put into a published tree. */
async function foreignPaths(
  { layout }: PublishContext,
  path: string,
  { files }: Manifest,
): Promise<readonly string[]> {
  const { signal } = new AbortController();
  const { differences } = await examinePublished(layout, path, files, { depth: 'facts', signal });
  return differences.filter(({ kind }) => kind === 'added').map((each) => each.path);
}

/** Makes ready what a method needs beside the staged files. */
async function prepareStage(
  context: PublishContext,
  stage: Stage,
  path: string,
  wanted: {
    readonly method: PublishMethod;
    readonly changes: TreeChanges;
    readonly manifest: Manifest;
    readonly present: Manifest | null;
    readonly keptTo: string | null;
  },
): Promise<void> {
  const { method, changes, manifest, present, keptTo } = wanted;
  const isThere = (await unlessMissing(lstat(treePath(context.layout, path)))) !== null;
  if (method.kind === 'first' && isThere) await retireTree(context, path);
  if (method.kind === 'exchange') await linkUnchanged(stage, manifest, changes);
  if (method.kind === 'in-place' || method.kind === 'rename') {
    const { added, changed, removed } = changes;
    await refuseLinks(context.layout.mirror, path, [...added, ...changed, ...removed]);
  }
  if (method.kind === 'rename' && keptTo !== null && present !== null) {
    await stage.keepPublished(present.files.map((file) => file.path));
    await writeNewFile(join(stage.folder, STAGED.keptManifest), formatManifest(present));
  }
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

/**
 * Makes the stage durable, writes the intent, and carries it out. An error before the decisive step takes the intent back;
 * after it the stage stays, to be brought to its end before anything else happens to the target.
 */
async function commit(context: PublishContext, stage: string, intent: Intent): Promise<void> {
  const folder = await open(stage, 'r');
  try {
    await context.native.syncFileSystem(folder.fd);
  } finally {
    await folder.close();
  }
  await context.checkDirectory();
  await writeIntent(stage, intent);
  await context.exclusively(async () => {
    const end = context.activity.begin(touchedBy(intent));
    try {
      await takeStep(context, stage, intent);
      await finishIntent(context, stage, intent);
    } catch (error) {
      const isTaken = await wasTaken(context, stage, intent).catch(() => true);
      if (isTaken) context.unsettled.set(intent.path, error);
      else await removeIntent(stage);
      throw error;
    } finally {
      end();
    }
  });
}

/** The targets whose trees or manifests an intent changes. */
function touchedBy(intent: Intent): string[] {
  if (intent.how !== 'relocate') return [intent.path];
  return [intent.path, intent.treeTo.replace(/^mirror\//, '')];
}

/** A target whose last publish is still to be completed takes no other one. */
function refuseUnsettled(context: PublishContext, path: string): void {
  const cause = context.unsettled.get(path);
  if (cause === undefined) return;
  const why = cause instanceof Error ? cause.message : 'for an unknown reason';
  throw new MirrorError('disk.failed', `An earlier publish of ${path} could not be completed: ${why}.`, {
    cause,
    hint: 'It is tried again at every pass. Check the file system of the setting directory.',
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
  keptTo: string | null,
): Promise<Intent> {
  switch (method.kind) {
    case 'manifest':
    case 'first':
      return { how: method.kind, path };
    case 'in-place':
      return { how: 'in-place', path, file: method.file, isRemoval: method.isRemoval };
    case 'exchange': {
      const { ino } = await lstat(join(stage.folder, STAGED.tree));
      return { how: 'exchange', path, stagedInode: ino, displacedTo: keptTo };
    }
    case 'rename':
      return { how: 'rename', path, removed, keptTo };
  }
}

/** A place in the history that nothing holds yet, below the root: clocks go back, and are coarse. */
async function freeHistoryPath(context: PublishContext, path: string, kind: HistoryKind): Promise<string> {
  const { layout } = context;
  for (let atMs = context.now(); ; atMs += 1) {
    const place = join(layout.history, path, historyName(atMs, kind));
    const taken = await Promise.all([place, `${place}.json`].map((each) => unlessMissing(lstat(each))));
    if (taken.every((each) => each === null)) return relative(layout.root, place);
  }
}

/** Moves a tree and its manifest, if it has one, from the mirror to the dated history. */
export async function retireTree(context: PublishContext, path: string): Promise<void> {
  const to = await freeHistoryPath(context, path, 'retired');
  await relocateTree(context, path, to, `${to}.json`, null);
}

/** Moves a tree to the path of its renamed repository, and makes its manifest say so. */
export async function moveTree(
  context: PublishContext,
  from: string,
  to: string,
  manifest: Manifest,
): Promise<void> {
  refuseUnsettled(context, to);
  await refuseLinks(context.layout.mirror, dirname(to), []);
  if (from === to) {
    await commitAlone(context, { how: 'manifest', path: to }, manifest);
    return;
  }
  const isOccupied = (await unlessMissing(lstat(treePath(context.layout, to)))) !== null;
  if (isOccupied) await retireTree(context, to);
  await relocateTree(context, from, `mirror/${to}`, `manifests/${to}.json`, manifest);
}

async function relocateTree(
  context: PublishContext,
  path: string,
  treeTo: string,
  manifestTo: string,
  manifest: Manifest | null,
): Promise<void> {
  refuseUnsettled(context, path);
  await onDisk(`moving ${path}`, async () => {
    const tree = await unlessMissing(lstat(treePath(context.layout, path)));
    const present = await readManifest(manifestPath(context.layout, path));
    const intent: Intent = {
      how: 'relocate',
      path,
      treeTo,
      manifestTo,
      treeInode: tree?.ino ?? null,
      repositoryId: present?.repository.id ?? null,
    };
    await commitAlone(context, intent, manifest);
  });
}

/** Carries out an intent that needs no staged files, but perhaps a manifest. */
async function commitAlone(
  context: PublishContext,
  intent: Intent,
  manifest: Manifest | null,
): Promise<void> {
  await onDisk(`moving ${intent.path}`, async () => {
    const stage = await openStage(context.layout, intent.path);
    try {
      if (manifest !== null) {
        await writeNewFile(join(stage.folder, STAGED.manifest), formatManifest(manifest));
      }
      await commit(context, stage.folder, intent);
    } finally {
      await stage.discard();
    }
  });
}
