import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Difference } from '../../mirror/store/verify/drift.ts';

/** What the drift monitor works with. */
export interface DriftOptions {
  /** The target that a path below `mirror/` belongs to; null for none. */
  readonly targetOf: (path: string) => Promise<string | null>;
  /** All targets that are published. */
  readonly targets: () => Promise<readonly string[]>;
  /** How a tree differs from its manifest; `changing` while it is being published. */
  readonly findDrift: (target: string, signal: AbortSignal) => Promise<readonly Difference[] | 'changing'>;
  /** The other targets that have a modified file in common with a tree. */
  readonly sharersOf: (target: string, differences: readonly Difference[]) => Promise<readonly string[]>;
  /** A tree was found to differ; called again only when it differs otherwise. */
  readonly onDrift: (target: string, differences: readonly Difference[]) => Promise<void>;
  /** A tree that differed is whole again. */
  readonly onWhole: (target: string) => Promise<void>;
  /** Is told of a look at all trees. */
  readonly onScanned: (doneTargets: number, targets: number) => void;
  readonly onError: (error: unknown) => void;
  /** Targets that differed when another process last looked. */
  readonly known: readonly string[];
  /** Hints that come within this time of the first one are looked at together, in milliseconds. */
  readonly settleMs: number;
}

/** Finds out which trees someone changed. Hints only say where to look: what counts is the tree against its manifest. */
export interface DriftMonitor {
  /** Something may have changed at a path below `mirror/`. */
  readonly hint: (path: string) => void;
  /** Looks at all trees, as after a time in which nobody watched. */
  readonly lookAtAll: () => void;
  readonly close: () => Promise<void>;
}

/** How many times as long is waited after a tree was found to differ. */
const DRIFTING_PAUSES = 10;

/** Starts a monitor; it looks at one tree at a time. */
export function createDriftMonitor(options: DriftOptions): DriftMonitor {
  const abort = new AbortController();
  const waiting: Waiting = { paths: new Set(), targets: new Set(), isAll: false };
  const known = new Map(options.known.map((target) => [target, '']));
  let working: Promise<void> | null = null;

  let hasDrifted = false;

  /** Looks at a tree, and says whether it differs otherwise than before. One that cannot be looked at stops no other. */
  const lookAt = async (target: string): Promise<boolean> => {
    try {
      const found = await options.findDrift(target, abort.signal);
      if (found !== 'changing') {
        const isNews = await tell(target, found, known, options);
        // Nobody may have touched those names, and so nothing hinted at them.
        if (isNews) for (const other of await options.sharersOf(target, found)) waiting.targets.add(other);
        return isNews;
      }
      waiting.targets.add(target);
    } catch (error) {
      if (!abort.signal.aborted) options.onError(error);
    }
    return false;
  };
  const work = async (): Promise<void> => {
    while (isSomethingIn(waiting)) {
      // Whoever goes on and on changing trees is not followed at every step.
      await sleep(options.settleMs * (hasDrifted ? DRIFTING_PAUSES : 1), undefined, { signal: abort.signal });
      hasDrifted = false;
      const tellScan = waiting.isAll ? options.onScanned : () => {};
      const targets = await takeTargets(waiting, known, options);
      for (const [index, target] of targets.entries()) {
        tellScan(index, targets.length);
        abort.signal.throwIfAborted();
        hasDrifted = (await lookAt(target)) || hasDrifted;
      }
      tellScan(targets.length, targets.length);
    }
  };
  const wake = (): void => {
    if (abort.signal.aborted) return;
    working ??= work()
      .catch((error: unknown) => {
        if (!abort.signal.aborted) options.onError(error);
      })
      .finally(() => {
        working = null;
      });
  };
  return {
    hint: (path) => {
      waiting.paths.add(path);
      wake();
    },
    lookAtAll: () => {
      waiting.isAll = true;
      wake();
    },
    close: async () => {
      abort.abort();
      await working;
    },
  };
}

/** Where to look. */
interface Waiting {
  readonly paths: Set<string>;
  readonly targets: Set<string>;
  isAll: boolean;
}

function isSomethingIn({ paths, targets, isAll }: Waiting): boolean {
  return isAll || paths.size > 0 || targets.size > 0;
}

/** Takes out all that waits, as targets. */
async function takeTargets(
  waiting: Waiting,
  known: ReadonlyMap<string, string>,
  options: DriftOptions,
): Promise<string[]> {
  const { isAll } = waiting;
  const paths = [...waiting.paths];
  const targets = new Set(waiting.targets);
  waiting.isAll = false;
  waiting.paths.clear();
  waiting.targets.clear();
  for (const path of paths) {
    const target = await options.targetOf(path);
    if (target !== null) targets.add(target);
  }
  // One that differed and is published no longer differs no longer.
  if (isAll) for (const target of [...(await options.targets()), ...known.keys()]) targets.add(target);
  return [...targets];
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
