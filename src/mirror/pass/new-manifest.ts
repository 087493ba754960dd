import { isAhead } from '../../lib/time/wrong-clock.ts';
import { fingerprintOfTree } from '../plan/fingerprint.ts';
import { workbookOf } from '../plan/new-versions.ts';
import { isSame, type Manifest, type ManifestFile, sameManifest, treeChanges } from '../store/manifest.ts';
import type { WorkbookRow } from '../upstream/listing.ts';
import type { PullAction } from '../plan/actions.ts';
import type { Pull } from './execution.ts';
import type { Received } from './receive.ts';

/**
 * The manifest of what a pull received.
 * @param previous that of what is published; null for nothing
 * @param nowMs milliseconds since the epoch
 */
export function newManifest(
  {
    action,
    repository,
    rows: listed,
    listedAtMs,
  }: Pick<Pull, 'action' | 'repository' | 'rows' | 'listedAtMs'>,
  received: Received,
  previous: Manifest | null,
  nowMs: number,
): Manifest {
  const { branch } = action.target;
  const { etag, archiveBytes, comparedAtMs, skipped, isThorough } = received;
  const asOfMs = Math.min(listedAtMs, received.cached?.asOfMs ?? listedAtMs);
  const rows = asOfMs < listedAtMs && !isAsListedBefore(action, received, previous) ? null : listed;
  const paths = new Set(received.files.map((file) => file.path));
  const fingerprint = rows === null ? null : fingerprintOfTree(rows, branch, (path) => paths.has(path));
  const { id, name, fullName, url, createdAt } = repository;
  return {
    repository: { id, name, fullName, url, createdAt },
    branch,
    verifiedAtMs: asOfMs,
    comparedAtMs: Math.min(comparedAtMs, asOfMs),
    publishedAtMs:
      previous !== null && isSameTree(previous, received) ? Math.min(previous.publishedAtMs, nowMs) : nowMs,
    restoredAtMs: null,
    fingerprint: fingerprint?.digest ?? null,
    borrowed: fingerprint?.borrowed ?? [],
    settled: action.settled,
    etag,
    ...(isThorough || isVouchedFor(etag, previous) ? {} : { isThorough }),
    archiveBytes,
    skipped,
    files: withVersions(received.files, rows ?? [], branch),
  };
}

/** Whether contents that are older than the list are known to be the listed versions all the same: they were published as those. */
function isAsListedBefore(
  { fingerprint }: PullAction,
  received: Received,
  previous: Manifest | null,
): boolean {
  return previous !== null && previous.fingerprint === fingerprint && isSameTree(previous, received);
}

/** Whether there is no tag that could vouch for contents, or one under which every byte was compared before. */
function isVouchedFor(etag: string | null, previous: Manifest | null): boolean {
  return etag === null || (previous?.etag === etag && previous.isThorough !== false);
}

/** The files with the versions of the workbooks among them, as listed now; the same objects where nothing is new to say. */
function withVersions(
  files: readonly ManifestFile[],
  rows: readonly WorkbookRow[],
  branch: string,
): ManifestFile[] {
  const own = new Map(rows.filter((row) => row.branch === branch).map((row) => [row.path, row]));
  return files.map((file) => {
    const row = own.get(file.path);
    if (row === undefined && file.workbook === undefined) return file;
    const { workbook: known, ...rest } = file;
    if (row === undefined) return rest;
    const workbook = workbookOf(row);
    return known !== undefined && isSame(known, workbook) ? file : { ...rest, workbook };
  });
}

/** Whether two states hold the same files. */
export function isSameTree(previous: Manifest, next: Pick<Manifest, 'files'>): boolean {
  const { added, changed, removed } = treeChanges(previous.files, next.files);
  return added.length + changed.length + removed.length === 0;
}

/** Whether anything differs but the times of verification, or these lie in the future. @param nowMs milliseconds since the epoch */
export function needsPublishing(manifest: Manifest, previous: Manifest | null, nowMs: number): boolean {
  if (previous === null || isAhead(nowMs, previous.verifiedAtMs, previous.comparedAtMs)) return true;
  const facts = (of: Manifest): Manifest => ({
    ...of,
    verifiedAtMs: 0,
    comparedAtMs: 0,
    archiveBytes: 0,
  });
  return !sameManifest(facts(manifest), facts(previous));
}
