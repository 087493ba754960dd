import { readdir, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { finishIntent, type IntentContext, isApplied } from './apply-intent.ts';
import type { PublishContext } from './commit.ts';
import { tryToPass } from './gate.ts';
import { readIntent, STAGED, touchedBy } from './intent.ts';
import { foldersOfIntent, refuseLinks } from '../links.ts';

/**
 * Brings to its end what was interrupted; gives the targets that it completed. While a lease holds, or somebody has the lock on
 * publishing, it waits, and so does whatever else is to be published there.
 */
export function recover(context: PublishContext, signal?: AbortSignal): Promise<readonly string[]> {
  return onDisk('recovering interrupted work', async () => {
    await context.checkDirectory();
    // What a publish that goes on beside this leaves behind meanwhile stays as it says.
    const known = [...context.unrecovered.keys()];
    const { completed, unrecovered } = await recoverBehindGate(context, signal);
    for (const path of known) context.unrecovered.delete(path);
    for (const [path, error] of unrecovered) context.unrecovered.set(path, error);
    return completed;
  });
}

async function recoverBehindGate(context: PublishContext, signal?: AbortSignal): Promise<Recovered> {
  const { gate, exclusively } = context;
  if ((await stagesLeft(context)).length === 0) return { completed: [], unrecovered: new Map() };
  const recovered = await tryToPass(gate, () => exclusively(() => recoverStages(context)), signal);
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

/**
 * Brings to its end, or takes back, whatever a crash or an error interrupted. What cannot be finished now stays for the
 * next time, and stops nothing else. To be called only while nobody else makes and removes folders that targets share.
 */
async function recoverStages(context: IntentContext): Promise<Recovered> {
  const completed: string[] = [];
  const unrecovered = new Map<string, unknown>();
  for (const name of await stagesLeft(context)) {
    const stage = join(context.layout.staging, name);
    const intent = await readIntent(stage);
    try {
      if (intent !== null && (await isApplied(context, stage, intent))) {
        await refuseLinks(context.layout, [
          ...foldersOfIntent(intent),
          relative(context.layout.root, join(stage, STAGED.tree)),
        ]);
        await finishIntent(context, stage, intent);
        completed.push(intent.path);
      } else {
        await rm(stage, { recursive: true, force: true });
      }
    } catch (error) {
      for (const path of intent === null ? [name] : touchedBy(intent)) unrecovered.set(path, error);
    }
  }
  return { completed, unrecovered };
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
