import { setTimeout as sleep } from 'node:timers/promises';

import {
  type FileBytes,
  type Finding,
  type WorkbookKind,
  workbookKindOf,
} from '../checker/workbook-check.ts';
import type { Git } from './git.ts';
import { type PendingCheck, putBack, takeBatch } from './pending-checks.ts';
import type { Registry } from './registry.ts';
import { readBlobs } from './blobs.ts';

export interface CheckLanesOptions {
  readonly git: Git;
  readonly registry: Registry;
  readonly checker: Checker;
  /** Takes what was found; null for a file that is to be checked again later. */
  readonly conclude: Conclude;
}

/** So many files of one repository are read by one git program. */
const BATCH_FILES = 32;

/** Has files checked, as many at once as the checker has places. */
export function createCheckLanes(options: CheckLanesOptions) {
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
    /** Has these files checked, by repository, and what was given before no more; does not wait for it. */
    start(next: Map<string, PendingCheck[]>): void {
      pending = next;
      startLanes();
    },
    /** Whether a content is being checked just now, or is next. */
    isUnderWay: (contentKey: string): boolean => underWay.has(contentKey),
    /** Waits until nothing is left to be checked. */
    idle: async (): Promise<void> => {
      while (lanes.size > 0) await Promise.all(lanes);
    },
    /** Gives up what is under way, without waiting for it. */
    close: (): void => stop.abort(),
  };
}

/** Opens files, to find out whether they are workbooks. */
export interface Checker {
  /** How many files it opens at once. */
  readonly places: number;
  /** Never rejects, and takes bounded time. Gives null for what could not be checked now, through no fault of the file. */
  readonly check: (kind: WorkbookKind, file: FileBytes) => Promise<Finding | null>;
}

/** Where a batch is checked. */
interface BatchPlace {
  readonly git: Git;
  readonly checker: Checker;
  readonly gitDirectory: string;
  readonly signal: AbortSignal;
}

/** Takes what was found; null for a file that is to be checked again later. */
export type Conclude = (check: PendingCheck, finding: Finding | null) => void;

export interface BatchOutcome {
  /** Not checked. */
  readonly left: readonly PendingCheck[];
  /** Whether a file took so much that others are to have their turn. */
  readonly wasHeldUp: boolean;
}

/** A repository that cannot be read just now is tried so often before its files count as unread. */
const ATTEMPTS = 3;
const ATTEMPT_PAUSE_MS = 500;
/** A file that takes longer has held up the others. Large ones take about a second. */
const LONG_MS = 3000;

/** Checks a batch as far as the repository can be read, but no further than a file that holds up others. */
async function checkReadable(
  { git, checker, gitDirectory, signal }: BatchPlace,
  batch: readonly PendingCheck[],
  conclude: Conclude,
): Promise<BatchOutcome> {
  const left = [...batch];
  let wasHeldUp = false;
  const blobIds = batch.map(({ blobId }) => blobId);
  try {
    for await (const { file } of readBlobs(git, gitDirectory, blobIds, signal)) {
      const check = left[0];
      if (check === undefined) break;
      const kind = workbookKindOf(check.row.path);
      const begunAtMs = performance.now();
      const finding = file === null || kind === null ? 'unread' : await checker.check(kind, file);
      if (signal.aborted) break;
      left.shift();
      conclude(check, finding);
      wasHeldUp = finding === null || performance.now() - begunAtMs > LONG_MS;
      if (wasHeldUp) break;
    }
  } catch {
    // The error of a repository that git cannot read is not lost: a request for its contents meets it again.
  }
  return { left, wasHeldUp };
}

/**
 * Checks files of one repository, one after the other. Files that git cannot read after some attempts are `unread`. Ends early
 * after a file that holds up others, and, without a conclusion, when the signal says so.
 */
async function checkBatch(
  place: BatchPlace,
  batch: readonly PendingCheck[],
  conclude: Conclude,
): Promise<BatchOutcome> {
  const { signal } = place;
  let outcome = await checkReadable(place, batch, conclude);
  const isDone = (): boolean => outcome.left.length === 0 || outcome.wasHeldUp || signal.aborted;
  for (let attempt = 2; attempt <= ATTEMPTS && !isDone(); attempt += 1) {
    await sleep(ATTEMPT_PAUSE_MS, undefined, { signal }).catch(() => undefined);
    outcome = await checkReadable(place, outcome.left, conclude);
  }
  if (isDone()) return outcome;
  for (const check of outcome.left) conclude(check, 'unread');
  return { left: [], wasHeldUp: false };
}
