import { isDeepStrictEqual } from 'node:util';
import { isWorkbookName, typeOf } from '../../lib/api/media-types.ts';
import { isAhead } from '../../lib/time/wrong-clock.ts';
import { type ListedContents, missingWorkbooks } from '../plan/contradictions.ts';
import { fingerprintOfTree, isDeletion, type RepositoryRows, workbookOf } from '../plan/workbooks.ts';
import {
  isUnchanged,
  type Manifest,
  type ManifestFile,
  type TreeChanges,
  treeChanges,
} from '../store/manifest.ts';
import type { Pull } from './context.ts';
import type { Received } from './unpack.ts';

/** The published state of a target, and how received files differ from it. */
export interface Changes extends TreeChanges {
  /** The manifest of the published tree; null for none. */
  readonly previous: Manifest | null;
  /** Whether the same files are published. */
  readonly isSameTree: boolean;
}

/** Compares received files with what is published. */
export function changesSince(previous: Manifest | null, files: readonly ManifestFile[]): Changes {
  const changes = treeChanges(previous?.files ?? [], files);
  return { ...changes, previous, isSameTree: previous !== null && isUnchanged(changes) };
}

/**
 * The manifest of the state that a pull received.
 * @param listed null if no list describes the contents
 * @param nowMs milliseconds since the epoch
 */
export function newManifest(
  { action, listedAtMs }: Pick<Pull, 'action' | 'listedAtMs'>,
  received: Received,
  { previous, isSameTree }: Changes,
  listed: ListedContents | null,
  nowMs: number,
): Manifest {
  const { etag, archiveBytes, skipped, isThorough, isWhole, cached } = received;
  const asOfMs = Math.min(listedAtMs, cached?.asOfMs ?? listedAtMs);
  const missing = listed === null ? (previous?.missing ?? []) : missingWorkbooks(listed);
  return {
    repository: action.repository,
    branch: action.target.branch,
    verifiedAtMs: asOfMs,
    comparedAtMs: isWhole || previous === null ? asOfMs : Math.min(previous.comparedAtMs, asOfMs),
    publishedAtMs: previous !== null && isSameTree ? Math.min(previous.publishedAtMs, nowMs) : nowMs,
    restoredAtMs: null,
    ...listedFacts(received.files, listed),
    settled: action.settled,
    etag,
    ...(isThorough || isVouchedFor(etag, previous) ? {} : { isThorough }),
    archiveBytes,
    skipped,
    ...(missing.length === 0 ? {} : { missing }),
  };
}

/** The part of a manifest that comes from the list. */
function listedFacts(
  files: readonly ManifestFile[],
  listed: ListedContents | null,
): Pick<Manifest, 'fingerprint' | 'borrowed' | 'files'> {
  if (listed === null) return { fingerprint: null, borrowed: [], files };
  const { digest, borrowed } = fingerprintOfTree(listed.rows, listed.branch, files);
  return { fingerprint: digest, borrowed, files: withVersions(files, listed) };
}

/** The rows of the list that describe received contents; null if the contents are older than the list. */
export function rowsAbout(
  {
    action,
    rows,
    listedAtMs,
  }: Pick<Pull, 'rows' | 'listedAtMs'> & { readonly action: Pick<Pull['action'], 'fingerprint'> },
  { cached }: Pick<Received, 'cached'>,
  { previous, isSameTree }: Changes,
): RepositoryRows | null {
  const isOlder = cached !== null && cached.asOfMs < listedAtMs;
  // Older contents do match the list if they were published with these versions.
  const isAsListedBefore = isSameTree && previous?.fingerprint === action.fingerprint;
  return isOlder && !isAsListedBefore ? null : rows;
}

/**
 * Whether the list shows workbooks of a tree on other branches only that it showed on the tree's own branch before. A list with each
 * workbook once does that, but so does one with each branch if they are deleted here, and the contents do not show that yet: only
 * further contents tell the two apart.
 */
export function borrowsOwn({ borrowed }: Manifest, previous: Manifest | null): boolean {
  const before = new Set(previous?.borrowed);
  const shown = new Set(borrowed.filter((path) => !before.has(path)));
  return previous?.files.some(({ path, workbook }) => workbook !== undefined && shown.has(path)) === true;
}

/**
 * Whether a list cannot show every change of a tree, as it lacks rows of the tree's workbooks. Either it has no row of the repository,
 * although it is empty or lists workbooks of the same type: for example, its token does not see the repository, or the service builds the
 * list again. Or it lacks the row of a workbook that an earlier list had.
 * @param typesOfOthers the types of the listed workbooks, if the list has no row of the repository
 */
export function mayHideChanges(
  { rows, byFile }: Pick<ListedContents, 'rows' | 'byFile'>,
  { files, borrowed }: Pick<Manifest, 'files' | 'borrowed'>,
  typesOfOthers: ReadonlySet<string>,
): boolean {
  const isOfList = (path: string): boolean => typesOfOthers.size === 0 || typesOfOthers.has(typeOf(path));
  if (rows.all.length === 0) return files.some(({ path }) => isWorkbookName(path) && isOfList(path));
  const shown = new Set(borrowed);
  return files.some(({ path, workbook }) => workbook !== undefined && !byFile.has(path) && !shown.has(path));
}

/** Whether there is no tag that could vouch for contents, or every byte was compared before under the present one. */
function isVouchedFor(etag: string | null, previous: Manifest | null): boolean {
  return etag === null || (previous?.etag === etag && previous.isThorough !== false);
}

/**
 * The files with the versions of their workbooks, as listed now; the same objects if no version changed. If the list may lack a row, an
 * unchanged file keeps its version, without which old bytes could pass for a new version.
 */
function withVersions(
  files: readonly ManifestFile[],
  { byFile, hasAllRows }: Pick<ListedContents, 'byFile' | 'hasAllRows'>,
): ManifestFile[] {
  return files.map((file) => {
    // A file that is still there gets no version from a row that says that it was deleted.
    const row = byFile.get(file.path)?.findLast((each) => !isDeletion(each));
    const workbook = row && workbookOf(row);
    const isSame = isDeepStrictEqual(file.workbook, workbook);
    if (isSame || (workbook === undefined && !hasAllRows)) return file;
    const { workbook: _, ...rest } = file;
    return workbook === undefined ? rest : { ...rest, workbook };
  });
}

/** Whether anything differs but the times of verification, or these lie in the future. @param nowMs milliseconds since the epoch */
export function needsPublishing(
  manifest: Manifest,
  { previous, isSameTree }: Pick<Changes, 'previous' | 'isSameTree'>,
  nowMs: number,
): boolean {
  if (!isSameTree || previous === null) return true;
  if (isAhead(nowMs, previous.verifiedAtMs, previous.comparedAtMs)) return true;
  const facts = (of: Manifest): Manifest => ({ ...of, verifiedAtMs: 0, comparedAtMs: 0, archiveBytes: 0 });
  return !isDeepStrictEqual(facts(manifest), facts(previous));
}
