import { nameFault } from '../../lib/paths/file-name.ts';
import { foldersWith, type Manifest, type ManifestFile, type ManifestWorkbook } from '../store/manifest.ts';
import { foldName } from '../../lib/paths/safe-path.ts';
import type { WorkbookRow } from '../upstream/listing.ts';
import type { PullAction } from './actions.ts';
import { isDeletion } from './contradictions.ts';
import { rowsAtFiles } from './fingerprint.ts';

/** About what a request for one workbook costs beside its bytes: headers, and the time in which other bytes could come. In bytes. */
const REQUEST_BYTES = 8 * 1024;

/** The workbooks that make all the difference between a published tree and a listing. */
export interface WorkbookChanges {
  /** New versions and new workbooks, with the paths that the tree gives their files. */
  readonly changed: readonly WorkbookRow[];
  /** Paths of published workbooks that are listed no longer, or as deleted. */
  readonly gone: readonly string[];
}

/**
 * The workbooks that make all the difference between a published tree and a listing, if it pays to pull them one by one.
 *
 * Any difference that may be about more than these workbooks needs the whole contents.
 * @param rows all rows of the target's repository
 * @returns null where the whole contents are needed, or cost no more
 */
export function workbookChanges(
  previous: Manifest,
  rows: readonly WorkbookRow[],
  branch: string,
): WorkbookChanges | null {
  const own = new Map<string, WorkbookRow>();
  const files = new Map(previous.files.map((file) => [file.path, file]));
  const isOwn = (row: WorkbookRow): boolean => row.branch === branch;
  const deleted = new Set<string>();
  for (const row of rowsAtFiles(rows.filter(isOwn), files.keys())) {
    if (own.has(row.path) || deleted.has(row.path)) return null;
    if (isDeletion(row)) deleted.add(row.path);
    else own.set(row.path, row);
  }
  // A whole pull left these out, or found them missing: they are no files that could be pulled by their paths.
  const leftOut = [...previous.skipped.map(({ path }) => path), ...(previous.missing ?? [])];
  const isLeftOut = leftOut.some((path) => own.has(path));
  const others = rowsAtFiles(
    rows.filter((row) => !isOwn(row)),
    files.keys(),
  );
  const isBorrowed = others.some(({ path }) => !own.has(path) && files.has(path));
  if (isBorrowed || isLeftOut) return null;
  const changed = [...own.values()].filter(
    (row) => files.get(row.path)?.workbook?.versionId !== row.versionId,
  );
  const gone = previous.files.flatMap(({ path, workbook }) =>
    deleted.has(path) || (workbook !== undefined && !own.has(path)) ? [path] : [],
  );
  if (changed.length + gone.length === 0 || !areTheirOwn(changed, files)) return null;
  return costsLess({ changed, gone }, previous, files) ? { changed, gone } : null;
}

/**
 * The workbooks that a pull downloads one by one, in place of the whole contents. `receiveWorkbooks` proves that they are one state of the service.
 * @param previous the manifest of what is published; null where nothing is
 * @param rows all rows of the target's repository; null where the service has no list of workbooks
 * @returns null where it downloads the whole contents
 */
export function changesByPath(
  { byWorkbook, target }: Pick<PullAction, 'byWorkbook' | 'target'>,
  previous: Manifest | null,
  rows: readonly WorkbookRow[] | null,
): WorkbookChanges | null {
  if (byWorkbook === 'no' || previous === null || rows === null) return null;
  const hasOthers = previous.files.some((file) => file.workbook === undefined);
  if (hasOthers && byWorkbook === 'in-trees-of-workbooks') return null;
  return workbookChanges(previous, rows, target.branch);
}

/** The version of a workbook, as a manifest tells it. */
export function workbookOf(row: WorkbookRow): ManifestWorkbook {
  const { id, versionId, author, message, createdAt, action, parentId } = row;
  return {
    id,
    versionId,
    author,
    message,
    createdAt,
    ...(action === undefined ? {} : { action }),
    ...(parentId === undefined ? {} : { parentId }),
  };
}

/** Whether the times of files follow from their rows, and new files have their names to themselves. */
function areTheirOwn(changed: readonly WorkbookRow[], files: ReadonlyMap<string, ManifestFile>): boolean {
  // The time of a file is that of its version; without one it is the archive's, which only the archive tells.
  if (changed.some((row) => Number.isNaN(Date.parse(row.createdAt ?? '')))) return false;
  const added = changed.filter((row) => !files.has(row.path));
  return arePlainlyNew(added, [...files.values()]);
}

/** Whether requests for single workbooks cost less than the last archive. A new one of unknown size counts as an average file. */
function costsLess(
  { changed, gone }: WorkbookChanges,
  { archiveBytes }: Manifest,
  files: ReadonlyMap<string, ManifestFile>,
): boolean {
  const totalBytes = [...files.values()].reduce((sum, file) => sum + file.sizeBytes, 0);
  const wholeBytes = archiveBytes > 0 ? archiveBytes : totalBytes;
  const averageBytes = files.size === 0 ? 0 : totalBytes / files.size;
  const changedBytes = changed.reduce(
    (sum, row) => sum + (row.sizeBytes ?? files.get(row.path)?.sizeBytes ?? averageBytes),
    0,
  );
  return changedBytes + (changed.length + gone.length) * REQUEST_BYTES < wholeBytes + REQUEST_BYTES;
}

/** Whether new files, and the folders that they need, have names that no other file or folder has on any file system. */
function arePlainlyNew(added: readonly WorkbookRow[], files: readonly ManifestFile[]): boolean {
  if (added.length === 0) return true;
  const paths = files.map((file) => file.path);
  const folders = new Set(foldersWith(paths));
  const taken = new Set([...paths, ...folders].map(foldName));
  const take = (name: string): boolean => {
    const isFree = !taken.has(foldName(name));
    taken.add(foldName(name));
    return isFree;
  };
  return added.every(({ path }) => {
    const needed = [...foldersWith([path])].filter((folder) => !folders.has(folder));
    for (const folder of needed) folders.add(folder);
    return nameFault(path) === null && [...needed, path].every(take);
  });
}
