import { lstat } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { LeasedError } from '../leases/lease.ts';
import type { PublishMode } from './publishing.ts';
import type { HistoryKind } from '../../plan/retention.ts';
import type { PublishActivity } from './activity.ts';
import { type Intent, isRepeated, removeIntent, STAGED, touchedBy, treesOf, writeIntent } from './intent.ts';
import { historyName } from '../layout.ts';
import type { PublishGate } from './gate.ts';
import { refuseLinksOf } from '../links.ts';
import {
  applyIntent,
  finishIntent,
  type IntentContext,
  isApplied,
  leavesTree,
  removeStage,
} from './apply-intent.ts';
import type { SharedFlush } from '../../../lib/disk/shared-flush.ts';
import type { Examined } from '../probes.ts';
import type { Stage } from './stage.ts';
import { restartAge } from '../unlinked-trees.ts';

/** Everything that publishing needs besides the staged tree. */
export interface PublishContext extends IntentContext {
  readonly mode: PublishMode;
  readonly canExchange: boolean;
  readonly fileSystem: Examined;
  /** Flushes the file system of the directory. */
  readonly flush: SharedFlush;
  /** Whether the history keeps trees that a newer state replaces. */
  readonly keepsReplaced: boolean;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Every change that readers may notice passes it. */
  readonly gate: PublishGate;
  /** Runs work that makes or removes folders shared by several targets, one at a time. */
  readonly exclusively: <T>(work: () => Promise<T>) => Promise<T>;
  /** Targets whose last publish could not be completed, with why. */
  readonly unrecovered: Map<string, unknown>;
  /** The targets of the trees that links lead to, by the names of these. */
  readonly linked: Map<string, string>;
  /** When trees that no link leads to were last looked for; null for not yet. Milliseconds since the epoch. */
  readonly searched: { atMs: number | null };
  /** Notes which targets are being published. */
  readonly activity: PublishActivity;
  /** Makes sure that the directory is still the one that was locked. @throws MirrorError `directory.replaced` */
  readonly checkDirectory: () => Promise<void>;
}

/**
 * Makes the stage durable with its intent, takes the steps of the intent, makes these durable, and removes the stage. An error before
 * the first step takes the intent back; after it the stage stays, to be brought to its end before anything else happens to the target.
 * Many may do this at once: they share the flushes. Only who has passed the gate may call this.
 * @throws MirrorError `directory.replaced`, `disk.*`
 */
export async function commit(
  context: PublishContext,
  { folder, flushMark }: Pick<Stage, 'folder' | 'flushMark'>,
  wanted: Intent,
): Promise<void> {
  const touched = touchedBy(wanted);
  const intent = { ...wanted, ...(await proofOf(folder, wanted)) };
  if (isRepeated(intent)) await context.flush.since(flushMark);
  const progress = { isBegun: false };
  const end = context.activity.begin(touched);
  try {
    for (const name of treesOf(intent)) await restartAge(context.layout, name, context.now());
    await writeIntent(folder, intent);
    await context.flush.since(flushMark);
    await context.exclusively(async () => {
      await context.checkDirectory();
      await refuseLinksOf(context.layout, intent);
      progress.isBegun = true;
      await applyIntent(context, folder, intent);
      await finishIntent(context, folder, intent);
    });
    noteLinked(context.linked, intent);
    await context.flush.since(flushMark);
    await removeStage(context, folder, intent);
  } catch (error) {
    const isTaken = progress.isBegun && (await isApplied(context, folder, intent).catch(() => true));
    if (isTaken) for (const path of touched) context.unrecovered.set(path, error);
    else await removeIntent(folder);
    throw error;
  } finally {
    end();
  }
}

function noteLinked(linked: Map<string, string>, intent: Intent): void {
  const left = leavesTree(intent);
  if (left !== null) linked.delete(left);
  if (intent.how === 'link') linked.set(intent.linked, intent.path);
  else if (intent.how === 'relocate' && intent.linked !== null && left === null)
    linked.set(intent.linked, intent.treeTo.slice('mirror/'.length));
}

/** The inode of the staged manifest, by which its intent is proven once it is in its place. */
async function proofOf(stage: string, { how }: Intent): Promise<{ manifestInode?: number }> {
  if (how === 'rename' || how === 'relocate') return {};
  return { manifestInode: (await lstat(join(stage, STAGED.manifest))).ino };
}

/** A target whose last publish is still to be completed takes no other one. */
export function refuseUnrecovered(context: PublishContext, path: string): void {
  const cause = context.unrecovered.get(path);
  if (cause === undefined) return;
  if (cause instanceof LeasedError) throw cause;
  const why = cause instanceof Error ? cause.message : 'for an unknown reason';
  throw new MirrorError('disk.failed', `An earlier publish of ${path} could not be completed: ${why}.`, {
    cause,
    hint: 'It is tried again at every pass. Check the file system of the setting directory.',
  });
}

/** A place in the history that nothing holds yet, below the root: clocks go back, and are coarse. */
export async function freeHistoryPath(
  context: PublishContext,
  path: string,
  kind: HistoryKind,
): Promise<string> {
  const { layout } = context;
  for (let atMs = context.now(); ; atMs += 1) {
    const place = join(layout.history, path, historyName(atMs, kind));
    const taken = await Promise.all([place, `${place}.json`].map((each) => unlessMissing(lstat(each))));
    if (taken.every((each) => each === null)) return relative(layout.root, place);
  }
}
