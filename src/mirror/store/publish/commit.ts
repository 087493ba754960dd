import { lstat, rename, rm } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';

import { unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { LeasedError } from '../leases/lease.ts';
import type { PublishMode } from './publishing.ts';
import type { HistoryKind } from '../../plan/retention.ts';
import type { PublishActivity } from './activity.ts';
import { historyName } from '../layout.ts';
import type { PublishGate } from './gate.ts';
import {
  isAnyMade,
  type Journal,
  type JournalContext,
  makeMoves,
  refuseLinksOf,
  removeJournal,
  writeJournal,
} from './journal.ts';
import { STAGED } from './moves.ts';
import { treeAt } from '../published-tree.ts';
import type { SharedFlush } from '../../../lib/disk/shared-flush.ts';
import type { Examined } from '../probes.ts';
import type { Stage } from './stage.ts';
import { restartAge } from '../unlinked-trees.ts';

/** Everything that publishing needs besides the staged tree. */
export interface PublishContext extends JournalContext {
  readonly mode: PublishMode;
  /** Whether the file system exchanges two names in one step. */
  readonly canExchange: boolean;
  /** The names of the stages that are in use, which recovery leaves alone. */
  readonly inUse: Set<string>;
  /** When the remains of a stage may be removed, in milliseconds since the epoch. */
  readonly trashUntilMs: () => number;
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
 * Makes the stage durable with its journal, makes the moves, makes these durable, and removes the stage. An error before the first move
 * takes the journal back; after it the stage stays, to be brought to its end before anything else happens to the targets. Many may do
 * this at once: they share the flushes. Only who has passed the gate may call this.
 * @throws MirrorError `directory.replaced`, `disk.*`
 */
export async function commit(
  context: PublishContext,
  { folder, flushMark }: Pick<Stage, 'folder' | 'flushMark'>,
  journal: Journal,
): Promise<void> {
  const progress = { isBegun: false };
  const end = context.activity.begin(journal.targets);
  try {
    await restartAges(context, journal);
    await writeJournal(folder, journal);
    await context.flush.since(flushMark);
    await context.exclusively(async () => {
      await context.checkDirectory();
      await refuseLinksOf(context.layout, folder, journal);
      progress.isBegun = true;
      await makeMoves(context, folder, journal);
    });
    await context.flush.since(flushMark);
    await removeStage(context, folder, journal);
  } catch (error) {
    const isTaken = progress.isBegun && (await isAnyMade(context, folder, journal).catch(() => true));
    if (isTaken) for (const path of journal.targets) context.unrecovered.set(path, error);
    else await removeJournal(folder);
    throw error;
  } finally {
    end();
  }
}

/** Makes the age of the trees start now that the links of a journal's targets lead to, as these may leave them. */
export async function restartAges(
  { layout, now }: Pick<PublishContext, 'layout' | 'now'>,
  { targets }: Journal,
): Promise<void> {
  for (const target of targets) {
    const place = treeAt(layout, target);
    if ('name' in place) await restartAge(layout, place.name, now());
  }
}

/** Removes what remains of a stage whose moves are made; a tree that gave way stays whole for a while, for readers that entered it. */
export async function removeStage(
  { layout, trashUntilMs }: Pick<PublishContext, 'layout' | 'trashUntilMs'>,
  stage: string,
  { moves }: Journal,
): Promise<void> {
  const gaveWay = moves.some(({ to, swaps }) => swaps === true || basename(to) === STAGED.displaced);
  if (gaveWay) await rename(stage, join(layout.trash, `${trashUntilMs()}-${basename(stage)}`));
  else await rm(stage, { recursive: true, force: true });
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
