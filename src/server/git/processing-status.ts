import { setTimeout as sleep } from 'node:timers/promises';

import { checkWorkbook, type Finding, workbookKindOf } from '../checker/checker.ts';
import type { ProcessingStatus, WorkbookRow } from '../http/library.ts';
import { readBlobs } from './blobs.ts';
import type { Git } from './git.ts';
import type { Registry } from './repositories.ts';

/** A file that failed. */
export interface FailedCheck {
  /** Full name of its repository. */
  readonly integration: string;
  readonly path: string;
  readonly versionId: string;
  readonly finding: Finding;
}

export interface ProcessingStatusesOptions {
  readonly git: Git;
  readonly registry: Registry;
  readonly onFailure?: ((failed: FailedCheck) => void) | undefined;
}

export const SUCCESS: ProcessingStatus = { status: 'success', processing: 0, failure: 0 };
/** Of a repository that is being cloned or fetched, too: what there is of it may be old. */
export const PROCESSING: ProcessingStatus = { status: 'processing', processing: 1, failure: 0 };
const FAILURE: ProcessingStatus = { status: 'failure', processing: 0, failure: 1 };

/** So many files are checked at once. */
const LANES = 2;
/** So many files of one repository are read by one git program. */
const BATCH_FILES = 32;
/** A repository that cannot be read just now is tried so often before its files count as unread. */
const ATTEMPTS = 3;
const ATTEMPT_PAUSE_MS = 500;

/** Tells what has been made of each workbook so far; checks begin with the first look. */
export function createProcessingStatuses({ git, registry, onFailure }: ProcessingStatusesOptions) {
  const stop = new AbortController();
  const { signal } = stop;
  const lanes = new Set<Promise<void>>();
  const underWay = new Set<string>();
  /** By {@link WorkbookRow.contentKey}. */
  let findings = new Map<string, Finding>();
  let looked: readonly WorkbookRow[] = [];
  let pending = new Map<string, WorkbookRow[]>();

  function conclude({ contentKey = '', integration, path, version }: WorkbookRow, finding: Finding): void {
    underWay.delete(contentKey);
    findings.set(contentKey, finding);
    if (finding !== 'workbook') onFailure?.({ integration, path, versionId: version.id, finding });
  }

  async function runLane(): Promise<void> {
    while (!signal.aborted) {
      const taken = takeNewest(pending);
      if (taken === null) return;
      for (const { contentKey = '' } of taken.rows) underWay.add(contentKey);
      await checkBatch(
        { git, gitDirectory: registry.gitDirectory(taken.repositoryId), signal, conclude },
        taken.rows,
      );
    }
  }

  function startLanes(): void {
    while (pending.size > 0 && lanes.size < LANES && !signal.aborted) {
      const lane: Promise<void> = runLane().finally(() => {
        lanes.delete(lane);
        // Something may have come since it found nothing left.
        startLanes();
      });
      lanes.add(lane);
    }
  }

  return {
    /** Has the files of these rows checked that were not yet, and of no others; does not wait for it. */
    look(rows: readonly WorkbookRow[]): void {
      if (rows === looked || signal.aborted) return;
      looked = rows;
      const listed = new Set(rows.map(({ contentKey }) => contentKey));
      findings = new Map([...findings].filter(([contentKey]) => listed.has(contentKey)));
      const ids = new Map(registry.list().map(({ id, full_name }) => [full_name, id]));
      pending = unchecked(rows, ids, (key) => findings.has(key) || underWay.has(key));
      startLanes();
    },
    of: ({ contentKey }: WorkbookRow): ProcessingStatus => {
      if (contentKey === undefined) return SUCCESS;
      const finding = findings.get(contentKey);
      if (finding === undefined) return PROCESSING;
      return finding === 'workbook' ? SUCCESS : FAILURE;
    },
    /** Waits until nothing is left to be checked. */
    idle: async (): Promise<void> => {
      while (lanes.size > 0) await Promise.all(lanes);
    },
    /** Gives up what is under way, without waiting for it. */
    close: (): void => stop.abort(),
  };
}

/** Where files are checked, and who takes what was found. */
interface BatchPlace {
  readonly git: Git;
  readonly gitDirectory: string;
  readonly signal: AbortSignal;
  readonly conclude: (row: WorkbookRow, finding: Finding) => void;
}

/** Checks files of one repository, one after the other. Files that git does not give after some attempts are `unread`. */
async function checkBatch(place: BatchPlace, rows: readonly WorkbookRow[]): Promise<void> {
  const { signal, conclude } = place;
  let left = await checkReadable(place, rows);
  for (let attempt = 2; attempt <= ATTEMPTS && left.length > 0 && !signal.aborted; attempt += 1) {
    await sleep(ATTEMPT_PAUSE_MS, undefined, { signal }).catch(() => undefined);
    left = await checkReadable(place, left);
  }
  if (!signal.aborted) for (const row of left) conclude(row, 'unread');
}

/** Checks files as far as git gives them. @returns the others */
async function checkReadable(
  { git, gitDirectory, signal, conclude }: BatchPlace,
  rows: readonly WorkbookRow[],
): Promise<readonly WorkbookRow[]> {
  const left = [...rows];
  try {
    for await (const { file } of readBlobs(git, gitDirectory, rows.map(blobIdOf), signal)) {
      const [row] = left;
      if (row === undefined || signal.aborted) break;
      const finding = file === null ? 'unread' : await checkWorkbook(workbookKindOf(row.path), file);
      left.shift();
      conclude(row, finding);
    }
  } catch {
    // The error of a repository that git cannot read is not lost: a request for its contents meets it again.
  }
  return left;
}

function blobIdOf({ contentKey = '' }: WorkbookRow): string {
  return contentKey.slice(0, contentKey.indexOf(' '));
}

/** When the version of a row was made, as text that sorts by time. */
function timeOf(row: WorkbookRow | undefined): string {
  return row?.version.createdAt ?? '';
}

/** The rows to check, each content once: by the id of the repository, oldest version first. */
function unchecked(
  rows: readonly WorkbookRow[],
  repositoryIds: ReadonlyMap<string, string>,
  isKnown: (contentKey: string) => boolean,
): Map<string, WorkbookRow[]> {
  const newest = new Map<string, WorkbookRow>();
  for (const row of rows) {
    const { contentKey } = row;
    if (contentKey === undefined || isKnown(contentKey)) continue;
    const other = newest.get(contentKey);
    if (other === undefined || timeOf(other) < timeOf(row)) newest.set(contentKey, row);
  }
  const byRepository = new Map<string, WorkbookRow[]>();
  for (const row of newest.values()) {
    const id = repositoryIds.get(row.integration);
    if (id === undefined) continue;
    const others = byRepository.get(id);
    if (others === undefined) byRepository.set(id, [row]);
    else others.push(row);
  }
  for (const each of byRepository.values())
    each.sort((left, right) => (timeOf(left) < timeOf(right) ? -1 : 1));
  return byRepository;
}

/** Takes the newest of all rows, and others of its repository, newest first; null when none is left. */
function takeNewest(
  pending: Map<string, WorkbookRow[]>,
): { readonly repositoryId: string; readonly rows: readonly WorkbookRow[] } | null {
  let repositoryId: string | null = null;
  for (const [id, rows] of pending) {
    if (repositoryId === null || timeOf(pending.get(repositoryId)?.at(-1)) < timeOf(rows.at(-1)))
      repositoryId = id;
  }
  if (repositoryId === null) return null;
  const left = pending.get(repositoryId) ?? [];
  const rows = left.splice(-BATCH_FILES).reverse();
  if (left.length === 0) pending.delete(repositoryId);
  return { repositoryId, rows };
}
