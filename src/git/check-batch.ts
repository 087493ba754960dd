import { setTimeout as sleep } from 'node:timers/promises';

import { type FileBytes, type Finding, type WorkbookKind, workbookKindOf } from '../model/workbook-check.ts';
import { readBlobs } from './blobs.ts';
import type { Git } from './git.ts';
import type { PendingCheck } from './pending-checks.ts';

/** Opens files, to find out whether they are workbooks. */
export interface Checker {
  /** How many files it opens at once. */
  readonly places: number;
  /** Never rejects, and takes bounded time. */
  readonly check: (kind: WorkbookKind, file: FileBytes) => Promise<Finding>;
}

/** Where a batch is checked. */
interface BatchPlace {
  readonly git: Git;
  readonly checker: Checker;
  readonly gitDirectory: string;
  readonly signal: AbortSignal;
}

type Conclude = (check: PendingCheck, finding: Finding) => void;

/** A repository that cannot be read just now is tried so often before its files count as unread. */
const ATTEMPTS = 3;
const ATTEMPT_PAUSE_MS = 500;

/** Checks a batch as far as the repository can be read. @returns what is left */
async function checkReadable(
  { git, checker, gitDirectory, signal }: BatchPlace,
  batch: readonly PendingCheck[],
  conclude: Conclude,
): Promise<PendingCheck[]> {
  const left = [...batch];
  const blobIds = batch.map(({ blobId }) => blobId);
  try {
    for await (const { file } of readBlobs(git, gitDirectory, blobIds, signal)) {
      const check = left[0];
      if (check === undefined) break;
      const kind = workbookKindOf(check.row.path);
      const finding = file === null || kind === null ? 'unread' : await checker.check(kind, file);
      if (signal.aborted) break;
      left.shift();
      conclude(check, finding);
    }
  } catch {
    // What git says of a repository that it cannot read, it says again to whoever asks for the contents.
  }
  return left;
}

/**
 * Checks files of one repository, one after the other. Files that git cannot read after some attempts are `unread`. Ends early,
 * without a conclusion, when the signal says so.
 */
export async function checkBatch(
  place: BatchPlace,
  batch: readonly PendingCheck[],
  conclude: Conclude,
): Promise<void> {
  const { signal } = place;
  let left = await checkReadable(place, batch, conclude);
  for (let attempt = 2; attempt <= ATTEMPTS && left.length > 0 && !signal.aborted; attempt += 1) {
    await sleep(ATTEMPT_PAUSE_MS, undefined, { signal }).catch(() => undefined);
    left = await checkReadable(place, left, conclude);
  }
  if (signal.aborted) return;
  for (const check of left) conclude(check, 'unread');
}
