import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';

import type { FlushMark } from '../../../lib/disk/shared-flush.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { readOwnText } from '../../../lib/disk/own-file.ts';
import { removeStage, restartAges } from './commit.ts';
import type { Disk } from '../disk.ts';
import { layoutOf } from '../layout.ts';
import { namesIn, withCommonLock } from '../shards.ts';
import { tryToPass } from './gate.ts';
import { isAnyMade, type Journal, makeMoves, readJournal, refuseLinksOf } from './journal.ts';
import { removeUnpublished } from './stage.ts';

/**
 * Brings to its end what was interrupted; gives the targets that it completed. While a lease holds, or another process has the lock on
 * publishing, it waits, and so does whatever else is to be published there.
 */
export function recover(disk: Disk, signal?: AbortSignal): Promise<readonly string[]> {
  return onDisk('recovering interrupted work', async () => {
    await disk.lock.check();
    // What a publish that goes on beside this leaves behind meanwhile stays as it says.
    const known = [...disk.unfinished.keys()];
    const own = await recoverBehindGate(disk, signal);
    const gathered = await recoverGathered(disk, signal);
    for (const path of known) disk.unfinished.delete(path);
    for (const { unfinished } of [own, gathered])
      for (const [path, error] of unfinished) disk.unfinished.set(path, error);
    return [...own.completed, ...gathered.completed];
  });
}

/**
 * Does the same with what earlier instances left, which the first one gathered: for instances that share the directory, one at a time.
 * Whatever of it stays unfinished, each of them publishes nothing at its place.
 */
async function recoverGathered(disk: Disk, signal?: AbortSignal): Promise<Recovered> {
  const { layout, native } = disk;
  const whole = layoutOf(layout.root);
  if (layout.shardIndex === null || (await namesIn(whole.staging)).length === 0) return NOTHING_RECOVERED;
  const theirs = { ...disk, layout: whole, inUse: new Set<string>() };
  return withCommonLock(layout, native, () => recoverBehindGate(theirs, signal));
}

async function recoverBehindGate(disk: Disk, signal?: AbortSignal): Promise<Recovered> {
  if ((await stagesLeft(disk)).length === 0) return NOTHING_RECOVERED;
  const recovered = await tryToPass(disk.gate, () => recoverStages(disk), signal);
  if ('done' in recovered) return recovered.done;
  const paths = await interruptedPublishes(disk);
  return { completed: [], unfinished: new Map(paths.map((path) => [path, recovered.obstacle])) };
}

/** The outcome of recovery, for stages that were left behind. */
interface Recovered {
  /** Paths of the targets whose interrupted publish was completed. */
  readonly completed: readonly string[];
  /** Paths of the targets whose interrupted publish cannot be completed yet, with why. */
  readonly unfinished: ReadonlyMap<string, unknown>;
}

const NOTHING_RECOVERED: Recovered = { completed: [], unfinished: new Map() };

/**
 * Brings to its end, or takes back, whatever a crash or an error interrupted. What cannot be finished now stays for the
 * next time, and stops nothing else.
 */
async function recoverStages(disk: Disk): Promise<Recovered> {
  const mark = disk.flush.mark();
  const completed: string[] = [];
  const unfinished = new Map<string, unknown>();
  const left = (await stagesLeft(disk)).map(async (name) => {
    const stage = join(disk.layout.staging, name);
    await refuseIntent(stage);
    const journal = await readJournal(stage);
    try {
      if (journal !== null && (await isAnyMade(disk, stage, journal))) {
        await complete(disk, stage, journal, mark);
        completed.push(...journal.targets.slice(0, 1));
      } else {
        await removeUnpublished(disk.layout, stage);
      }
    } catch (error) {
      for (const path of journal?.targets ?? [name]) unfinished.set(path, error);
    }
  });
  // They share the flushes.
  await Promise.all(left);
  return { completed, unfinished };
}

/** Makes the moves of a stage that a crash cut off. */
async function complete(disk: Disk, stage: string, journal: Journal, mark: FlushMark): Promise<void> {
  const { layout, flush, serially } = disk;
  // After a kill the journal may not be on the disk yet, where the next start must find it if the power fails between two moves.
  await flush.since(mark);
  await restartAges(disk, journal);
  await serially(async () => {
    await refuseLinksOf(layout, stage, journal);
    await makeMoves(disk, stage, journal);
  });
  await flush.since(mark);
  await removeStage(disk, stage, journal);
}

/** Room for what an earlier version wrote down. */
const MAX_INTENT_BYTES = 512 * 1024 ** 2;

/** Refuses the unfinished work of a version that wrote it down in another form. @throws MirrorError `directory.unusable` */
async function refuseIntent(stage: string): Promise<void> {
  const text = await readOwnText(join(stage, 'intent.json'), MAX_INTENT_BYTES);
  // One that is cut off was never begun.
  if (text === null || !isWholeJson(text)) return;
  throw new MirrorError(
    'directory.unusable',
    `The stage ${basename(stage)} holds a change that an earlier version of this program began and did not end.`,
    { hint: 'Run `sync` once with the version of commit 94fbe25, which ends it; then start this version.' },
  );
}

function isWholeJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The names of the stages that were left behind. */
async function stagesLeft({ layout, inUse }: Pick<Disk, 'layout' | 'inUse'>): Promise<string[]> {
  const names = (await unlessMissing(readdir(layout.staging))) ?? [];
  return names.filter((name) => !inUse.has(name));
}

/**
 * The targets that a publish touches which was begun and not completed: by a program that was killed, or that a disk failed. To be
 * called only where no publish is going on but those of the stages that are in use.
 */
export async function interruptedPublishes(disk: Pick<Disk, 'layout' | 'inUse'>): Promise<string[]> {
  const paths: string[] = [];
  for (const name of await stagesLeft(disk)) {
    const journal = await readJournal(join(disk.layout.staging, name));
    paths.push(...(journal?.targets ?? []));
  }
  return paths;
}
