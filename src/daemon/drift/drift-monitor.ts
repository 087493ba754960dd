import { type Difference, findDrift, targetOf } from '../../mirror/store/verify/examine.ts';
import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { createBackgroundWork } from '../../lib/concurrency/background-work.ts';
import type { MirrorStore } from '../../mirror/store/disk.ts';

/** The store to look at, and the listeners for what is found in it. */
export interface DriftOptions {
  readonly store: Pick<MirrorStore, 'layout' | 'linked' | 'inventory'>;
  /** A tree was found to differ; called again only when it differs otherwise. */
  readonly onDrift: (target: string, differences: readonly Difference[]) => Promise<void>;
  /** A tree that differed is whole again. */
  readonly onWhole: (target: string) => Promise<void>;
  /** Receives the progress of a look at all trees. */
  readonly onScanned: (doneTargets: number, targets: number) => void;
  readonly onError: (error: unknown) => void;
  /** Targets that differed when another process last looked. */
  readonly known: readonly string[];
}

/** Finds out which trees someone changed. Hints only say where to look: what counts is the tree against its manifest. */
export interface DriftMonitor {
  /** Something may have changed at a path below the directory. */
  readonly hint: (path: string) => void;
  /** Looks at all trees, as after a time in which nobody watched. */
  readonly lookAtAll: () => void;
  readonly close: () => Promise<void>;
}

/** Hints that come within this time of the first one are looked at together, in milliseconds. */
const SETTLE_MS = 500;

/** How many times as long is waited after a tree was found to differ. */
const DRIFTING_PAUSES = 10;

/** Starts a monitor; it looks at one tree at a time. */
export function createDriftMonitor(options: DriftOptions): DriftMonitor {
  const { store, onScanned, onError } = options;
  const waiting: Waiting = { paths: new Set(), isAll: false };
  /** Digests of the differences found, by target; an empty text where another process found them. */
  const known = new Map(options.known.map((target) => [target, '']));
  let hasDrifted = false;

  /** Looks at a tree; true if its differences are not those of the last look. A tree that cannot be read stops no other. */
  const lookAt = async (target: string, stop: AbortSignal): Promise<boolean> => {
    try {
      return await tell(target, await findDrift(store.layout, target, stop), known, options);
    } catch (error) {
      if (!stop.aborted) onError(error);
    }
    return false;
  };
  const looks = createBackgroundWork(async ({ stop }) => {
    const isStopped = (): boolean => stop.aborted;
    while (waiting.isAll || waiting.paths.size > 0) {
      // Trees that change again and again are not examined after every change.
      const pauseMs = SETTLE_MS * (hasDrifted ? DRIFTING_PAUSES : 1);
      await sleep(pauseMs, undefined, { signal: stop }).catch(() => {});
      if (isStopped()) return;
      hasDrifted = false;
      const tellScan = waiting.isAll ? onScanned : () => {};
      const targets = await takeTargets(waiting, known, store);
      for (const [index, target] of targets.entries()) {
        tellScan(index, targets.length);
        if (isStopped()) return;
        hasDrifted = (await lookAt(target, stop)) || hasDrifted;
      }
      tellScan(targets.length, targets.length);
    }
  }, onError);
  return {
    hint: (path) => {
      waiting.paths.add(path);
      looks.wake();
    },
    lookAtAll: () => {
      waiting.isAll = true;
      looks.wake();
    },
    close: () => looks.close(0),
  };
}

/** Where to look. */
interface Waiting {
  readonly paths: Set<string>;
  isAll: boolean;
}

/** Takes out all that waits, as targets. */
async function takeTargets(
  waiting: Waiting,
  known: ReadonlyMap<string, string>,
  store: DriftOptions['store'],
): Promise<string[]> {
  const { isAll } = waiting;
  const paths = [...waiting.paths];
  const targets = new Set<string>();
  waiting.isAll = false;
  waiting.paths.clear();
  for (const path of paths) {
    // A tree that was replaced as a whole hints at every file of the new one.
    if (isBelowOne(targets, path)) continue;
    const target = await targetOf(store, path);
    if (target !== null) targets.add(target);
  }
  if (isAll) {
    for (const { path } of (await store.inventory.read()).published) targets.add(path);
    // One that differed and is published no longer differs no longer.
    for (const target of known.keys()) targets.add(target);
  }
  return [...targets];
}

/** Whether a path is one of these or lies below one. */
function isBelowOne(folders: ReadonlySet<string>, path: string): boolean {
  for (let folder = path; folder !== '.'; folder = dirname(folder)) if (folders.has(folder)) return true;
  return false;
}

/** Reports what was found of a tree, if that is news. @returns whether it differs, and otherwise than before */
async function tell(
  target: string,
  found: readonly Difference[],
  known: Map<string, string>,
  { onDrift, onWhole }: DriftOptions,
): Promise<boolean> {
  const before = known.get(target);
  if (found.length === 0) {
    known.delete(target);
    if (before !== undefined) await onWhole(target);
    return false;
  }
  const digest = createHash('sha256').update(JSON.stringify(found)).digest('hex');
  if (before === digest) return false;
  known.set(target, digest);
  await onDrift(target, found);
  return true;
}
