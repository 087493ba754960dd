import { isAhead } from '../../lib/time/wrong-clock.ts';
import { fingerprintOfTree, rowsAtFiles } from '../plan/fingerprint.ts';
import { missingWorkbooks } from '../plan/contradictions.ts';
import { workbookOf } from '../plan/workbook-changes.ts';
import {
  isSame,
  isUnchanged,
  type Manifest,
  type ManifestFile,
  sameManifest,
  type TreeChanges,
  treeChanges,
} from '../store/manifest.ts';
import type { WorkbookRow } from '../upstream/listing.ts';
import type { Pull } from './execution.ts';
import type { Received } from './receive.ts';

/** The facts of a pull from which the manifest follows. */
type PullFacts = Pick<Pull, 'action' | 'repository' | 'rows' | 'listedAtMs'>;

/** The published state of a target, and what distinguishes received files from it. */
export interface Changes extends TreeChanges {
  /** The manifest of what is published; null for nothing. */
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
 * The manifest of what a pull received.
 * @param nowMs milliseconds since the epoch
 * @param unproven paths of files that may be of the version before: they keep it, and the tree the time when it was last verified
 */
export function newManifest(
  pull: PullFacts,
  received: Received,
  changes: Changes,
  nowMs: number,
  unproven: ReadonlySet<string> = new Set(),
): Manifest {
  const { previous, isSameTree } = changes;
  const { action, repository, listedAtMs } = pull;
  const { branch } = action.target;
  const { etag, archiveBytes, comparedAtMs, skipped, isThorough } = received;
  const asOfMs = Math.min(listedAtMs, received.cached?.asOfMs ?? listedAtMs);
  const rows = rowsAbout(pull, received, changes);
  const listed = listedFacts(rows, branch, received, previous, unproven);
  const { id, name, fullName, url, createdAt } = repository;
  return {
    repository: { id, name, fullName, url, createdAt },
    branch,
    verifiedAtMs: asOfMs,
    comparedAtMs: Math.min(comparedAtMs, asOfMs),
    publishedAtMs: previous !== null && isSameTree ? Math.min(previous.publishedAtMs, nowMs) : nowMs,
    restoredAtMs: null,
    fingerprint: listed.fingerprint,
    borrowed: listed.borrowed,
    settled: action.settled,
    etag,
    ...(isThorough || isVouchedFor(etag, previous) ? {} : { isThorough }),
    archiveBytes,
    skipped,
    ...(listed.missing.length === 0 ? {} : { missing: listed.missing }),
    files: listed.files,
    ...(unproven.size === 0 || previous === null ? {} : timesOf(previous)),
  };
}

/** The part of a manifest that the list tells. @param rows null where there is none that speaks of the contents */
function listedFacts(
  rows: readonly WorkbookRow[] | null,
  branch: string,
  received: Received,
  previous: Manifest | null,
  unproven: ReadonlySet<string>,
): Pick<Manifest, 'fingerprint' | 'borrowed' | 'files'> & { readonly missing: readonly string[] } {
  const { files } = received;
  if (rows === null) {
    const missing = previous?.missing ?? [];
    return { fingerprint: null, borrowed: [], missing, files: withVersions(files, [], branch) };
  }
  const paths = files.map((file) => file.path);
  const known = withKnownVersions(rows, branch, paths, unproven, previous);
  const { digest, borrowed } = fingerprintOfTree(known, branch, holdsIn(rows, branch, paths));
  const missing = missingWorkbooks(rows, branch, received);
  return { fingerprint: digest, borrowed, missing, files: withVersions(files, known, branch) };
}

function timesOf({ verifiedAtMs, comparedAtMs, restoredAtMs }: Manifest): Partial<Manifest> {
  return { verifiedAtMs, comparedAtMs, restoredAtMs };
}

/** The rows of the list that speak of received contents; null where these are older than the list. */
export function rowsAbout(
  { action, rows, listedAtMs }: PullFacts,
  { cached }: Received,
  { previous, isSameTree }: Changes,
): readonly WorkbookRow[] | null {
  const isOlder = cached !== null && cached.asOfMs < listedAtMs;
  // Older contents are the listed versions all the same if they were published as those.
  const isAsListedBefore = isSameTree && previous?.fingerprint === action.fingerprint;
  return isOlder && !isAsListedBefore ? null : rows;
}

/** The rows, those of unproven files with the published version: then the fingerprint is not that of the list, and they are asked for again. */
function withKnownVersions(
  rows: readonly WorkbookRow[],
  branch: string,
  paths: readonly string[],
  unproven: ReadonlySet<string>,
  previous: Manifest | null,
): readonly WorkbookRow[] {
  if (unproven.size === 0) return rows;
  const known = new Map(previous?.files.map(({ path, workbook }) => [path, workbook]));
  const own = rows.filter((row) => row.branch === branch);
  const named = rowsAtFiles(own, paths);
  const asKnown = rows.filter((row) => row.branch !== branch);
  for (const [index, row] of own.entries()) {
    const { path } = named[index] ?? row;
    const workbook = unproven.has(path) ? known.get(path) : undefined;
    asKnown.push(workbook === undefined ? row : { ...row, ...workbook });
  }
  return asKnown;
}

/** Tells whether a tree holds a file at a workbook's path, as another branch lists it. */
function holdsIn(
  rows: readonly WorkbookRow[],
  branch: string,
  paths: readonly string[],
): (path: string) => boolean {
  const held = new Set(paths);
  const others = rows.filter((row) => row.branch !== branch);
  const named = rowsAtFiles(others, paths);
  for (const [index, { path }] of others.entries()) {
    if (held.has(named[index]?.path ?? path)) held.add(path);
  }
  return (path) => held.has(path);
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
  const listed = rows.filter((row) => row.branch === branch);
  const named = rowsAtFiles(
    listed,
    files.map(({ path }) => path),
  );
  const own = new Map(named.map((row) => [row.path, row]));
  return files.map((file) => {
    const row = own.get(file.path);
    if (row === undefined && file.workbook === undefined) return file;
    const { workbook: known, ...rest } = file;
    if (row === undefined) return rest;
    const workbook = workbookOf(row);
    return known !== undefined && isSame(known, workbook) ? file : { ...rest, workbook };
  });
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
