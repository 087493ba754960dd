import { setTimeout as sleep } from 'node:timers/promises';

import {
  type FileBytes,
  type Finding,
  type WorkbookKind,
  workbookKindOf,
} from '../checker/workbook-check.ts';
import { readBlobs } from './blobs.ts';
import type { Git } from './git.ts';
import type { PendingCheck } from './pending-checks.ts';

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

/** What became of a batch. */
export interface BatchOutcome {
  /** What was not checked. */
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
    // What git says of a repository that it cannot read, it says again to whoever asks for the contents.
  }
  return { left, wasHeldUp };
}

/**
 * Checks files of one repository, one after the other. Files that git cannot read after some attempts are `unread`. Ends early
 * after a file that holds up others, and, without a conclusion, when the signal says so.
 */
export async function checkBatch(
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
