import { readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';

import type { FlushMark } from '../../../lib/disk/shared-flush.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import {
  completeIntent,
  type IntentContext,
  isApplied,
  removeStage,
  removeUnpublished,
} from './apply-intent.ts';
import type { PublishContext } from './commit.ts';
import { layoutOf } from '../layout.ts';
import { withCommonLock } from '../shards/directory-locks.ts';
import { namesIn } from '../shards/other-instances.ts';
import { tryToPass } from './gate.ts';
import { type Intent, readIntent, STAGED, touchedBy, treesOf } from './intent.ts';
import { refuseLinksOf } from '../links.ts';
import { restartAge } from '../unlinked-trees.ts';

/**
 * Brings to its end what was interrupted; gives the targets that it completed. While a lease holds, or another process has the lock on
 * publishing, it waits, and so does whatever else is to be published there.
 */
export function recover(context: PublishContext, signal?: AbortSignal): Promise<readonly string[]> {
  return onDisk('recovering interrupted work', async () => {
    await context.checkDirectory();
    // What a publish that goes on beside this leaves behind meanwhile stays as it says.
    const known = [...context.unrecovered.keys()];
    const own = await recoverBehindGate(context, signal);
    const gathered = await recoverGathered(context, signal);
    for (const path of known) context.unrecovered.delete(path);
    for (const { unrecovered } of [own, gathered])
      for (const [path, error] of unrecovered) context.unrecovered.set(path, error);
    return [...own.completed, ...gathered.completed];
  });
}

/**
 * Does the same with what earlier instances left, which the first one gathered: for instances that share the directory, one at a time.
 * Whatever of it stays unfinished, each of them publishes nothing at its place.
 */
async function recoverGathered(context: PublishContext, signal?: AbortSignal): Promise<Recovered> {
  const { layout, native } = context;
  const whole = layoutOf(layout.root);
  if (layout.shardIndex === null || (await namesIn(whole.staging)).length === 0) return NOTHING_RECOVERED;
  const theirs = { ...context, layout: whole, inUse: new Set<string>() };
  return withCommonLock(layout, native, () => recoverBehindGate(theirs, signal));
}

async function recoverBehindGate(context: PublishContext, signal?: AbortSignal): Promise<Recovered> {
  if ((await stagesLeft(context)).length === 0) return NOTHING_RECOVERED;
  const recovered = await tryToPass(context.gate, () => recoverStages(context), signal);
  if ('done' in recovered) return recovered.done;
  const paths = await interruptedPublishes(context);
  return { completed: [], unrecovered: new Map(paths.map((path) => [path, recovered.obstacle])) };
}

/** The outcome of recovery, for stages that were left behind. */
interface Recovered {
  /** Paths of the targets whose interrupted publish was completed. */
  readonly completed: readonly string[];
  /** Paths of the targets whose interrupted publish cannot be completed yet, with why. */
  readonly unrecovered: ReadonlyMap<string, unknown>;
}

const NOTHING_RECOVERED: Recovered = { completed: [], unrecovered: new Map() };

/**
 * Brings to its end, or takes back, whatever a crash or an error interrupted. What cannot be finished now stays for the
 * next time, and stops nothing else.
 */
async function recoverStages(context: PublishContext): Promise<Recovered> {
  const mark = context.flush.mark();
  const completed: string[] = [];
  const unrecovered = new Map<string, unknown>();
  const left = (await stagesLeft(context)).map(async (name) => {
    const stage = join(context.layout.staging, name);
    const intent = await readIntent(stage);
    try {
      if (intent !== null && (await isApplied(context, stage, intent))) {
        await complete(context, stage, intent, mark);
        completed.push(intent.path);
      } else {
        await removeUnpublished(context.layout, stage);
      }
    } catch (error) {
      for (const path of intent === null ? [name] : touchedBy(intent)) unrecovered.set(path, error);
    }
  });
  // They share the flushes.
  await Promise.all(left);
  return { completed, unrecovered };
}

/** Brings a stage to its end whose intent is applied. */
async function complete(
  context: PublishContext,
  stage: string,
  intent: Intent,
  mark: FlushMark,
): Promise<void> {
  const { layout, flush, exclusively } = context;
  // After a kill the intent may not be on the disk yet, where the next start must find it if the power fails between two steps.
  await flush.since(mark);
  for (const name of treesOf(intent)) await restartAge(layout, name, context.now());
  await exclusively(async () => {
    await refuseLinksOf(layout, intent, [relative(layout.root, join(stage, STAGED.tree))]);
    await completeIntent(context, stage, intent);
  });
  await flush.since(mark);
  await removeStage(context, stage, intent);
}

/** The names of the stages that were left behind. */
async function stagesLeft({ layout, inUse }: Pick<IntentContext, 'layout' | 'inUse'>): Promise<string[]> {
  const names = (await unlessMissing(readdir(layout.staging))) ?? [];
  return names.filter((name) => !inUse.has(name));
}

/**
 * The targets that a publish touches which was begun and not completed: by a program that was killed, or that a disk failed. To be
 * called only where no publish is going on but those of the stages that are in use.
 */
export async function interruptedPublishes(
  context: Pick<IntentContext, 'layout' | 'inUse'>,
): Promise<string[]> {
  const paths: string[] = [];
  for (const name of await stagesLeft(context)) {
    const intent = await readIntent(join(context.layout.staging, name));
    if (intent !== null) paths.push(...touchedBy(intent));
  }
  return paths;
}
