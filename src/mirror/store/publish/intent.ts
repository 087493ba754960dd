import { access, unlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

import { z } from 'zod';

import { unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { isTargetPath, leadsBelow, nameFault } from '../../../lib/paths/file-name.ts';
import { parseHistoryName } from '../layout.ts';
import { isTreeName } from '../published-tree.ts';
import { readOwnFileOnce } from '../../../lib/disk/own-file.ts';
import { againWhileStale } from '../../../lib/disk/stale.ts';

const MIRROR = 'mirror/';
const HISTORY = 'history/';

const target = z.string().refine(isTargetPath);
const file = z.string().refine((path) => nameFault(path) === null);
/** A tree of the history, or its place in it, below the directory: `history/<repository>/<branch>/<time>`. */
const historyPlace = z.string().refine(isHistoryPlace);

/** Where the manifest of a tree goes, both below the directory; null for where no tree goes. */
function manifestPlace(tree: string): string | null {
  if (isHistoryPlace(tree)) return `${tree}.json`;
  const path = tree.startsWith(MIRROR) ? tree.slice(MIRROR.length) : '';
  return isTargetPath(path) ? `manifests/${path}.json` : null;
}

function isHistoryPlace(path: string): boolean {
  const isBelow = path.startsWith(HISTORY) && isTargetPath(dirname(path).slice(HISTORY.length));
  return isBelow && parseHistoryName(basename(path)) !== null;
}

/** An inode of the stage. An intent of an earlier version may have none: that was written once all it speaks of was durable. */
const inode = z.number().optional();

/** A tree that is linked to. */
const treeName = z.string().refine(isTreeName);

/** What becomes of the tree that gives way to another one as a whole. */
const replaced = {
  /** The place in the history for the folder that stood there. */
  displacedTo: historyPlace.nullable(),
  /** The place in the history for links to its files, where it was linked to: readers may still be in it. */
  keptTo: historyPlace.nullable().default(null),
  /** The tree that was linked to. */
  unlinked: treeName.nullable().default(null),
};

/**
 * The change that a stage is about to make to the published trees, written down before it begins. After a crash it tells
 * whether the one decisive step was taken: if so, the rest is done; otherwise the stage is thrown away. Every path leads where
 * the program itself would have made it lead.
 *
 * An intent is flushed together with the stage, so after a power cut it may stand beside a torn tree or manifest, and alone proves
 * nothing. `stagedInode` and `manifestInode` prove it: nothing of the stage is renamed into its place before that flush, so what is
 * found there with its inode was whole before, in whatever order the file system writes names. Only an intent without a decisive
 * step, {@link isRepeated}, is written after the flush of what it speaks of and flushed by itself: it stands for itself.
 */
const intentSchema = z.discriminatedUnion('how', [
  /** The staged tree takes a place that is free. */
  z.object({ how: z.literal('first'), path: target, stagedInode: inode, manifestInode: inode }),
  /** The staged tree changes places with what stands at the place of the published one. */
  z.object({
    how: z.literal('exchange'),
    path: target,
    stagedInode: z.number(),
    ...replaced,
    manifestInode: inode,
  }),
  /**
   * The staged link takes the place of whatever stands there. Its tree lies where it leads before the flush; no other link ever leads
   * there, so that the link itself is the proof.
   */
  z.object({ how: z.literal('link'), path: target, linked: treeName, ...replaced, manifestInode: inode }),
  /** One file of the published tree is replaced, added or (`isRemoval`) removed. */
  z.object({
    how: z.literal('in-place'),
    path: target,
    file,
    isRemoval: z.boolean(),
    stagedInode: inode,
    manifestInode: inode,
  }),
  /** File after file, for file systems without exchange. */
  z.object({
    how: z.literal('rename'),
    path: target,
    /** Files of the tree, and whatever else someone put into it. */
    removed: z.array(z.string().refine(leadsBelow)).readonly(),
    /** Where the links to the files as they were before go in the history. */
    keptTo: historyPlace.nullable().default(null),
  }),
  /** Only the manifest changes. */
  z.object({ how: z.literal('manifest'), path: target, manifestInode: inode }),
  /** A tree and its manifest go elsewhere: to the history, or to the path of a renamed repository. */
  z
    .object({
      how: z.literal('relocate'),
      path: target,
      treeTo: z.string(),
      manifestTo: z.string(),
      /** The tree that is meant; another one that stands there meanwhile stays. Null when there is none. */
      treeInode: z.number().nullable(),
      /** The tree that is meant, where it is linked to. */
      linked: treeName.nullable().default(null),
      /** Whose manifest is meant. Null when there is none. */
      repositoryId: z.string().nullable(),
    })
    .refine(({ treeTo, manifestTo }) => manifestTo === manifestPlace(treeTo)),
]);

/** One of the forms of {@link intentSchema}. */
export type Intent = z.infer<typeof intentSchema>;

/** The targets whose trees or manifests an intent changes, as below `mirror/`. */
export function touchedBy(intent: Intent): string[] {
  if (intent.how !== 'relocate' || !intent.treeTo.startsWith(MIRROR)) return [intent.path];
  return [intent.path, intent.treeTo.slice(MIRROR.length)];
}

/** The trees whose link an intent makes, moves or takes away. */
export function treesOf(intent: Intent): string[] {
  const names =
    intent.how === 'link'
      ? [intent.linked, intent.unlinked]
      : intent.how === 'exchange'
        ? [intent.unlinked]
        : intent.how === 'relocate'
          ? [intent.linked]
          : [];
  return names.filter((name) => name !== null);
}

/** Whether an intent has no decisive step: once it is written, its steps are taken, and taken again, until all are. */
export function isRepeated(intent: Intent): boolean {
  if (intent.how === 'manifest') return intent.manifestInode === undefined;
  return intent.how === 'rename' || intent.how === 'relocate';
}

const INTENT_FILE = 'intent.json';

/** Room for the names of all the files that a publish in mode `rename` removes. */
const MAX_INTENT_BYTES = 512 * 1024 ** 2;

/** Names of what lies in a stage. */
export const STAGED = {
  tree: 'tree',
  /** The link to the new tree, where it is to be linked to. */
  link: 'link',
  /** What stood at the place of the tree, where the file system cannot exchange two. */
  displaced: 'displaced',
  manifest: 'manifest.json',
  archive: 'archive.zip',
  early: 'early',
  /** Links to the published tree as it was, where the history is to keep it. */
  kept: 'kept',
  keptManifest: 'kept.json',
  /** The whole new tree as someone is shown it before it is published. */
  view: 'view',
} as const;

/** Writes a stage's intent, and does not flush it. One that nobody could read is a defect. */
export async function writeIntent(stage: string, intent: Intent): Promise<void> {
  await writeFile(join(stage, INTENT_FILE), JSON.stringify(intentSchema.parse(intent)), { flag: 'wx' });
}

/** Takes an intent back that changed nothing, whole or not. */
export async function removeIntent(stage: string): Promise<void> {
  await unlessMissing(unlink(join(stage, INTENT_FILE)));
}

/** Whether a stage has an intent, whole or not: then recovery alone may touch it. */
export async function hasIntent(stage: string): Promise<boolean> {
  return (await unlessMissing(access(join(stage, INTENT_FILE)).then(() => true))) ?? false;
}

/** Reads a stage's intent; null where none was written whole, and so nothing was begun. */
export function readIntent(stage: string): Promise<Intent | null> {
  return againWhileStale(() => readIntentOnce(stage));
}

/** As {@link readIntent}. @throws also ESTALE, where an instance on another machine just removes it */
async function readIntentOnce(stage: string): Promise<Intent | null> {
  const found = await readOwnFileOnce(join(stage, INTENT_FILE), MAX_INTENT_BYTES);
  if (found.kind !== 'text') return null;
  try {
    return intentSchema.parse(JSON.parse(found.text));
  } catch {
    return null;
  }
}
