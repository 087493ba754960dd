import type { WorkbookRow } from '../http/library.ts';

/** A file that is to be checked. */
export interface PendingCheck {
  readonly contentKey: string;
  readonly blobId: string;
  /** The newest row with this content. */
  readonly row: WorkbookRow;
}

/** When the version of a row was made, as text that sorts by time. */
function timeOf({ version }: WorkbookRow): string {
  return version.createdAt ?? '';
}

/**
 * Chooses the files that are to be checked: each content once, however many rows have it.
 * @param repositoryIds ids of the repositories by full name
 * @param isKnown whether a content has been checked, or is being checked
 * @returns by repository, oldest version first
 */
export function pendingChecks(
  rows: readonly WorkbookRow[],
  repositoryIds: ReadonlyMap<string, string>,
  isKnown: (contentKey: string) => boolean,
): Map<string, PendingCheck[]> {
  const newest = new Map<string, WorkbookRow>();
  for (const row of rows) {
    const { contentKey } = row;
    if (contentKey === undefined || isKnown(contentKey)) continue;
    const other = newest.get(contentKey);
    if (other === undefined || timeOf(other) < timeOf(row)) newest.set(contentKey, row);
  }
  const pending = new Map<string, PendingCheck[]>();
  for (const [contentKey, row] of newest) {
    const id = repositoryIds.get(row.integration);
    if (id === undefined) continue;
    const blobId = contentKey.slice(0, contentKey.indexOf(' '));
    const checks = pending.get(id) ?? [];
    checks.push({ contentKey, blobId, row });
    pending.set(id, checks);
  }
  for (const checks of pending.values()) sortByTime(checks);
  return pending;
}

function sortByTime(checks: PendingCheck[]): void {
  checks.sort((left, right) => (timeOf(left.row) < timeOf(right.row) ? -1 : 1));
}

/** Gives back files that were taken of a repository and not checked. */
export function putBack(
  pending: Map<string, PendingCheck[]>,
  repositoryId: string,
  left: readonly PendingCheck[],
): void {
  if (left.length === 0) return;
  const checks = [...(pending.get(repositoryId) ?? []), ...left];
  sortByTime(checks);
  pending.set(repositoryId, checks);
}

interface Candidate {
  readonly id: string;
  readonly checks: PendingCheck[];
  readonly delays: number;
  readonly time: string;
}

function isBefore(one: Candidate, other: Candidate): boolean {
  return one.delays === other.delays ? one.time > other.time : one.delays < other.delays;
}

/**
 * Takes the newest file that is to be checked, and others of its repository, newest first. Repositories whose files have held
 * up others come last.
 * @param pending what {@link pendingChecks} gave; what is taken is gone from it
 * @param most how many are taken
 * @param delays how often files of a repository have held up others, by its id
 * @returns null when nothing is left
 */
export function takeBatch(
  pending: Map<string, PendingCheck[]>,
  most: number,
  delays: ReadonlyMap<string, number> = new Map(),
): { readonly repositoryId: string; readonly batch: readonly PendingCheck[] } | null {
  let best: Candidate | null = null;
  for (const [id, checks] of pending) {
    const last = checks.at(-1);
    if (last === undefined) continue;
    const candidate = { id, checks, delays: delays.get(id) ?? 0, time: timeOf(last.row) };
    if (best === null || isBefore(candidate, best)) best = candidate;
  }
  if (best === null) return null;
  const batch = best.checks.splice(-most).reverse();
  if (best.checks.length === 0) pending.delete(best.id);
  return { repositoryId: best.id, batch };
}
