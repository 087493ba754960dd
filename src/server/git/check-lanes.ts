import { type Checker, checkBatch, type Conclude } from './check-batch.ts';
import type { Git } from './git.ts';
import { type PendingCheck, putBack, takeBatch } from './pending-checks.ts';
import type { Registry } from './registry.ts';

/** What checks files are run with. */
export interface CheckLanesOptions {
  readonly git: Git;
  readonly registry: Registry;
  readonly checker: Checker;
  /** Takes what was found; null for a file that is to be checked again later. */
  readonly conclude: Conclude;
}

/** Has files checked, as many at once as the checker has places. */
export interface CheckLanes {
  /** Has these files checked, by repository, and what was given before no more; does not wait for it. */
  readonly start: (pending: Map<string, PendingCheck[]>) => void;
  /** Whether a content is being checked just now, or is next. */
  readonly isUnderWay: (contentKey: string) => boolean;
  /** Waits until nothing is left to be checked. */
  readonly idle: () => Promise<void>;
  /** Gives up what is under way, without waiting for it. */
  readonly close: () => void;
}

/** So many files of one repository are read by one git program. */
const BATCH_FILES = 32;

/** Makes the lanes, with nothing to do. */
export function createCheckLanes(options: CheckLanesOptions): CheckLanes {
  const { git, registry, checker, conclude } = options;
  const underWay = new Set<string>();
  const stop = new AbortController();
  const lanes = new Set<Promise<void>>();
  const delays = new Map<string, number>();
  let pending = new Map<string, PendingCheck[]>();

  async function runBatch(repositoryId: string, batch: readonly PendingCheck[]): Promise<void> {
    for (const { contentKey } of batch) underWay.add(contentKey);
    const place = { git, checker, gitDirectory: registry.gitDirectory(repositoryId), signal: stop.signal };
    const { left, wasHeldUp } = await checkBatch(place, batch, (check, finding) => {
      underWay.delete(check.contentKey);
      conclude(check, finding);
    });
    for (const { contentKey } of left) underWay.delete(contentKey);
    if (wasHeldUp) delays.set(repositoryId, (delays.get(repositoryId) ?? 0) + 1);
    else delays.delete(repositoryId);
    putBack(pending, repositoryId, left);
  }

  async function runLane(): Promise<void> {
    while (!stop.signal.aborted) {
      const taken = takeBatch(pending, BATCH_FILES, delays);
      if (taken === null) return;
      await runBatch(taken.repositoryId, taken.batch);
    }
  }

  function startLanes(): void {
    while (pending.size > 0 && lanes.size < checker.places && !stop.signal.aborted) {
      const lane: Promise<void> = runLane().finally(() => {
        lanes.delete(lane);
        // Something may have come since it found nothing left.
        startLanes();
      });
      lanes.add(lane);
    }
  }

  return {
    start(next) {
      pending = next;
      startLanes();
    },
    isUnderWay: (contentKey) => underWay.has(contentKey),
    async idle() {
      while (lanes.size > 0) await Promise.all(lanes);
    },
    close: () => stop.abort(),
  };
}
