import { hash } from 'node:crypto';
import { foldersWith, nameFault } from '../../lib/paths/file-name.ts';
import { foldName } from '../../lib/paths/safe-path.ts';
import type { Manifest, ManifestFile, ManifestWorkbook } from '../store/manifest.ts';
import { HEAD_BRANCH, type Repository, type TargetId, type WorkbookRow } from '../upstream/listing.ts';

/**
 * The rows with the paths that the contents give their files: a service may list a name in another Unicode form than the
 * contents (NFC and NFD of one text). A row keeps its path if a file has that path, or if several files could be
 * meant: exactly one listed path and one file must have the same normalised form.
 * @returns one for each row, in their order; the same array if every path belongs to a file
 */
export function rowsAtFiles(
  rows: readonly WorkbookRow[],
  files: Pick<ReadonlyMap<string, unknown>, 'has' | 'keys'>,
): readonly WorkbookRow[] {
  if (rows.every(({ path }) => files.has(path))) return rows;
  const filesByForm = Map.groupBy(files.keys(), formOf);
  const listedByForm = Map.groupBy(new Set(rows.map(({ path }) => path)), formOf);
  return rows.map((row) => {
    const form = formOf(row.path);
    const [path, ...others] = filesByForm.get(form) ?? [];
    const isPlain = others.length === 0 && listedByForm.get(form)?.length === 1;
    return path === undefined || !isPlain || path === row.path ? row : { ...row, path };
  });
}

/** The rows of a branch by the paths of their files: a list may have several for one workbook. */
export function rowsByFile(
  rows: RepositoryRows | null,
  branch: string,
  files: Pick<ReadonlyMap<string, unknown>, 'has' | 'keys'>,
): ReadonlyMap<string, readonly WorkbookRow[]> {
  return Map.groupBy(rowsAtFiles(rowsOf(rows, branch), files), ({ path }) => path);
}

function formOf(path: string): string {
  return path.normalize('NFC');
}

/** The state of a target in the list of workbooks. If two fingerprints are equal, there is nothing to do. */
export interface Fingerprint {
  /**
   * SHA-256, in hexadecimal digits, of the sorted (workbook path, version id) pairs, and of those that are unfinished. A workbook's id
   * begins with its repository's full name; the path inside the repository says the same and outlives the renaming of a repository.
   */
  readonly digest: string;
  /**
   * Paths of workbooks that the target's tree holds although the listing shows them on other branches only; none if it shows each
   * branch for itself. A service that lists each workbook once, with its latest version's branch, hides changes on other
   * branches behind such rows; so every new version of the workbook is a reason to look again.
   */
  readonly borrowed: readonly string[];
}

/**
 * Whether a list shows a workbook of a repository on several branches: then it shows each branch for itself, and a row says nothing
 * about another branch.
 */
export function showsEachBranch({ all, byBranch }: RepositoryRows): boolean {
  if (byBranch.size < 2) return false;
  const branches = new Map<string, string>();
  return all.some(({ path, branch }) => {
    const known = branches.get(path) ?? branch;
    branches.set(path, known);
    return known !== branch;
  });
}

/** The fingerprint of a published tree with these files under a listing. */
export function fingerprintOfTree(
  rows: RepositoryRows,
  branch: string,
  files: readonly { readonly path: string }[],
): Fingerprint {
  const others = showsEachBranch(rows) ? [] : rows.all.filter((row) => row.branch !== branch);
  if (others.length === 0) return { digest: targetDigest(rows, branch, [], false), borrowed: [] };
  const own = new Set(rowsOf(rows, branch).map(({ path }) => path));
  const held = new Set(files.map(({ path }) => path));
  const named = rowsAtFiles(others, held);
  const lent = others.filter(({ path }, at) => !own.has(path) && held.has(named[at]?.path ?? path));
  const borrowed = [...new Set(lent.map(({ path }) => path))].sort();
  return { digest: targetDigest(rows, branch, borrowed, false), borrowed };
}

/** The digest of the given pairs, some of which are unfinished as well; their order and repetitions do not matter. */
function digestOf(rows: readonly WorkbookRow[], unfinished: readonly WorkbookRow[] = []): string {
  const pairOf = (row: WorkbookRow): string => `${JSON.stringify([row.path, row.versionId])}\n`;
  const pairs = new Set([...rows.map(pairOf), ...unfinished.map((row) => `unfinished ${pairOf(row)}`)]);
  return hash('sha256', [...pairs].sort().join(''));
}

/** The rows of a repository, grouped once for all its branches: there may be thousands. */
export interface RepositoryRows {
  readonly all: readonly WorkbookRow[];
  readonly byBranch: ReadonlyMap<string, readonly WorkbookRow[]>;
  /** The rows at a path, on whichever branch. */
  readonly atPath: (path: string) => readonly WorkbookRow[];
}

/** Groups the rows of a repository. */
export function groupRows(rows: readonly WorkbookRow[]): RepositoryRows {
  let byPath: ReadonlyMap<string, readonly WorkbookRow[]> | null = null;
  return {
    all: rows,
    byBranch: Map.groupBy(rows, ({ branch }) => branch),
    atPath: (path) => {
      byPath ??= Map.groupBy(rows, (row) => row.path);
      return byPath.get(path) ?? [];
    },
  };
}

/** The rows of a branch; none without a list of workbooks. */
export function rowsOf(rows: RepositoryRows | null, branch: string): readonly WorkbookRow[] {
  return rows?.byBranch.get(branch) ?? [];
}

/** The groups of a list, by repository. An unchanged list has the very rows of the last poll. */
const groupsOfLists = new WeakMap<readonly WorkbookRow[], ReadonlyMap<string, RepositoryRows>>();

/** Makes a function that gives the rows of a repository by its full name; null if the service has no list of workbooks. */
export function rowsByName(rows: readonly WorkbookRow[] | null): (fullName: string) => RepositoryRows | null {
  if (rows === null) return () => null;
  const groups = groupsOfLists.get(rows) ?? groupsOf(rows);
  groupsOfLists.set(rows, groups);
  return (fullName) => groups.get(fullName) ?? groupRows([]);
}

function groupsOf(rows: readonly WorkbookRow[]): ReadonlyMap<string, RepositoryRows> {
  const byName = Map.groupBy(rows, ({ repository }) => repository);
  return new Map([...byName].map(([name, group]) => [name, groupRows(group)]));
}

/** The rows that may be about a target's contents: `HEAD` may be any branch of the repository. */
function rowsOfTarget(rows: RepositoryRows, branch: string): readonly WorkbookRow[] {
  return branch === HEAD_BRANCH ? rows.all : rowsOf(rows, branch);
}

/** Digests of the rows of branches: most of the work of an idle pass. */
const digestsOfGroups = new WeakMap<readonly WorkbookRow[], string>();

/**
 * The digest of a target, including the workbooks that its tree borrowed when it was published.
 * @param settled whether that tree was published from finished versions only: otherwise each that is finished since changes the digest
 */
export function targetDigest(
  rows: RepositoryRows,
  branch: string,
  borrowed: readonly string[] = [],
  settled = true,
): string {
  const own = rowsOfTarget(rows, branch);
  const unfinished = settled ? [] : own.filter((row) => !isFinished(row));
  if (borrowed.length + unfinished.length > 0) {
    const ownPaths = new Set(own.map(({ path }) => path));
    const lent = borrowed.filter((path) => !ownPaths.has(path)).flatMap(rows.atPath);
    return digestOf([...own, ...lent], unfinished);
  }
  const digest = digestsOfGroups.get(own) ?? digestOf(own);
  digestsOfGroups.set(own, digest);
  return digest;
}

/** Values of a version's status that mean that the service has not finished processing it: `processing`, `pending`, `queued`. */
const UNFINISHED_STATUS =
  /^(?!warning$|missing$).*ing[.…]*$|^(?:(?:en|re)?queued|scheduled|started|submitted|new|in[-_ ]?(?:progress|queue)|incomplete|un(?:finished|processed)|not[-_ ].*)$/i;

/**
 * Whether the service has finished processing every workbook of a target. The specification names one status,
 * `success`, and a counter (sections 2.3 and 2.4). Every other status counts as finished unless its word says the contrary: otherwise
 * a final status that we do not know would keep the target unsettled for ever.
 */
export function isSettled(rows: RepositoryRows, branch: string): boolean {
  return rowsOfTarget(rows, branch).every(isFinished);
}

/** Whether the service has finished processing a workbook, see {@link isSettled}. */
export function isFinished({ processing, versionStatus }: WorkbookRow): boolean {
  return processing === 0 && !UNFINISHED_STATUS.test(versionStatus ?? '');
}

const DELETIONS: ReadonlySet<string> = new Set(['delete', 'deleted', 'remove', 'removed']);

/** Whether a row says that its workbook was deleted, so that the contents rightly lack it. */
export function isDeletion({ action }: WorkbookRow): boolean {
  return DELETIONS.has(action?.toLowerCase() ?? '');
}

/** The version of a workbook, as a manifest records it. */
export function workbookOf(row: WorkbookRow): ManifestWorkbook {
  const { id, versionId, author, message, createdAt, action = null, parentId = null } = row;
  return { id, versionId, author, message, createdAt, action, parentId };
}

/** The manifest of a tree whose repository has another name now: workbook ids begin with the name of the repository. */
export function renamedManifest(manifest: Manifest, repository: Repository): Manifest {
  const oldPrefix = `${manifest.repository.fullName}/`;
  const files = manifest.files.map((file) => {
    const { workbook } = file;
    if (workbook?.id.startsWith(oldPrefix) !== true) return file;
    const id = `${repository.fullName}/${workbook.id.slice(oldPrefix.length)}`;
    return { ...file, workbook: { ...workbook, id } };
  });
  return { ...manifest, repository, files };
}

/**
 * When workbooks with new versions may be pulled one by one, by their paths, instead of the whole contents: only in a tree of
 * nothing but workbooks, or also if the tree's other files may wait for the full check.
 */
export type ByWorkbook = 'no' | 'in-trees-of-workbooks' | 'yes';

/** The workbooks that account for the whole difference between a published tree and a listing. */
export interface WorkbookChanges {
  /** New versions and new workbooks, with the paths that the tree gives their files. */
  readonly changed: readonly WorkbookRow[];
  /** Paths of published workbooks that are no longer listed, or listed as deleted. */
  readonly gone: readonly string[];
}

/**
 * The workbooks that a pull downloads one by one, instead of the whole contents, if they account for the whole difference between the
 * published tree and the listing. `receiveWorkbooks` proves that they are one state of the service.
 * @param previous the manifest of the published tree; null if nothing is published
 * @param rows null if the service has no list of workbooks
 * @returns null if more than workbooks may differ, or if the whole contents cost no more
 */
export function changesByPath(
  { byWorkbook, target }: { readonly byWorkbook: ByWorkbook; readonly target: TargetId },
  previous: Manifest | null,
  rows: RepositoryRows | null,
): WorkbookChanges | null {
  // Without a fingerprint some file may have no version although it is a listed workbook: nothing would show that it is gone.
  if (byWorkbook === 'no' || previous === null || previous.fingerprint === null || rows === null) return null;
  const files = new Map(previous.files.map((file) => [file.path, file]));
  if (byWorkbook === 'in-trees-of-workbooks' && previous.files.some(({ workbook }) => workbook === undefined))
    return null;
  const own = rowsByFile(rows, target.branch, files);
  // Only the contents show which of several rows of a workbook is right.
  if ([...own.values()].some((several) => several.length > 1)) return null;
  const listed = [...own.values()].flat().filter((row) => !isDeletion(row));
  const paths = new Set(listed.map(({ path }) => path));
  const others = rows.all.filter(({ branch }) => branch !== target.branch);
  const isBorrowed = rowsAtFiles(others, files).some(({ path }) => files.has(path) && !paths.has(path));
  // A whole pull left these out, or found them missing: they cannot be pulled by their paths.
  const leftOut = [...previous.skipped.map(({ path }) => path), ...(previous.missing ?? [])];
  if (isBorrowed || leftOut.some((path) => paths.has(path))) return null;
  const changed = listed.filter(({ path, versionId }) => files.get(path)?.workbook?.versionId !== versionId);
  const gone = previous.files
    .filter(({ path, workbook }) => !paths.has(path) && (workbook !== undefined || own.has(path)))
    .map(({ path }) => path);
  // A file takes the time of its version; without one it takes the archive's, which only the archive has.
  const isTimed = changed.every(({ createdAt }) => !Number.isNaN(Date.parse(createdAt ?? '')));
  const added = changed.map(({ path }) => path).filter((path) => !files.has(path));
  if (changed.length + gone.length === 0 || !isTimed || !arePlainlyNew(added, [...files.keys()])) return null;
  return costsLess({ changed, gone }, files, previous.archiveBytes) ? { changed, gone } : null;
}

/** Whether new files, and the folders that they need, have names that collide with no other on any file system. */
function arePlainlyNew(added: readonly string[], present: readonly string[]): boolean {
  if (added.length === 0) return true;
  const files = [...present, ...added];
  const names = [...files, ...foldersWith(files)];
  return (
    added.every((path) => nameFault(path) === null) && new Set(names.map(foldName)).size === names.length
  );
}

/** The approximate cost of a request for one workbook in addition to its bytes: headers, and lost transfer time. In bytes. */
const REQUEST_BYTES = 8 * 1024;

/** Whether requests for single workbooks cost less than the last archive. A new one of unknown size counts as an average file. */
function costsLess(
  { changed, gone }: WorkbookChanges,
  files: ReadonlyMap<string, ManifestFile>,
  archiveBytes: number,
): boolean {
  const totalBytes = [...files.values()].reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const averageBytes = totalBytes / Math.max(files.size, 1);
  const changedBytes = changed.reduce(
    (sum, { path, sizeBytes }) => sum + (sizeBytes ?? files.get(path)?.sizeBytes ?? averageBytes),
    0,
  );
  const wholeBytes = archiveBytes > 0 ? archiveBytes : totalBytes;
  return changedBytes + (changed.length + gone.length) * REQUEST_BYTES < wholeBytes + REQUEST_BYTES;
}
