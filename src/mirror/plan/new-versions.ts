import { nameFault } from '../../lib/paths/file-name.ts';
import { foldersWith } from '../store/manifest.ts';
import type { Manifest, ManifestFile, ManifestWorkbook } from '../store/manifest.ts';
import { foldName } from '../../lib/paths/safe-path.ts';
import type { WorkbookRow } from '../upstream/listing.ts';
import type { PullAction } from './actions.ts';
import { isDeletion } from './contradictions.ts';
import { rowsAtFiles } from './rows-at-files.ts';

/** Most workbooks that are pulled one by one: of more, the whole contents come sooner. */
const MOST_WORKBOOKS = 32;

/** Most of a tree's bytes that are pulled one by one, as a share. */
const MOST_SHARE = 0.5;

/**
 * The workbooks that make all the difference between a published tree and a listing, if they may be pulled one by one.
 *
 * A published tree must be one state that the service had. Each of several files is therefore compared with its digest in the
 * listing, so that together they are the listed state; without digests only a single file may be pulled this way. Any
 * difference that is not plainly a new version of a workbook, such as one no longer listed, needs the whole contents.
 * @param rows all rows of the target's repository
 * @returns the rows with the paths that the tree gives their files; null where the whole contents are needed
 */
export function newVersions(
  previous: Manifest,
  rows: readonly WorkbookRow[],
  branch: string,
): readonly WorkbookRow[] | null {
  const own = new Map<string, WorkbookRow>();
  const files = new Map(previous.files.map((file) => [file.path, file]));
  const isOwn = (row: WorkbookRow): boolean => row.branch === branch;
  for (const row of rowsAtFiles(rows.filter(isOwn), files.keys())) {
    if (isDeletion(row) && !files.has(row.path)) continue;
    if (own.has(row.path)) return null;
    own.set(row.path, row);
  }
  // What a whole pull leaves out, or found to be missing, is no file to be pulled by its path.
  const leftOut = [...previous.skipped.map(({ path }) => path), ...(previous.missing ?? [])];
  const isLeftOut = leftOut.some((path) => own.has(path));
  const others = rowsAtFiles(
    rows.filter((row) => !isOwn(row)),
    files.keys(),
  );
  const isBorrowed = others.some(({ path }) => !own.has(path) && files.has(path));
  const isListed = previous.files.every((file) => file.workbook === undefined || own.has(file.path));
  if (isBorrowed || isLeftOut || !isListed) return null;
  const changed = [...own.values()].filter(
    (row) => files.get(row.path)?.workbook?.versionId !== row.versionId,
  );
  return arePulledSingly(changed, previous.files, files) ? changed : null;
}

/**
 * The workbooks that a pull downloads one by one, in place of the whole contents.
 * @param previous the manifest of what is published; null where nothing is
 * @param rows all rows of the target's repository; null where the service has no list of workbooks
 * @returns null where it downloads the whole contents
 */
export function singleVersions(
  { byWorkbook, target }: Pick<PullAction, 'byWorkbook' | 'target'>,
  previous: Manifest | null,
  rows: readonly WorkbookRow[] | null,
): readonly WorkbookRow[] | null {
  if (byWorkbook === 'no' || previous === null || rows === null) return null;
  const hasOthers = previous.files.some((file) => file.workbook === undefined);
  if (hasOthers && byWorkbook === 'in-trees-of-workbooks') return null;
  return newVersions(previous, rows, target.branch);
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

function arePulledSingly(
  changed: readonly WorkbookRow[],
  files: readonly ManifestFile[],
  byPath: ReadonlyMap<string, ManifestFile>,
): boolean {
  if (changed.length === 0 || changed.length > MOST_WORKBOOKS) return false;
  // A file's time is its version's; without one it is the archive's, which only the archive tells.
  if (changed.some((row) => Number.isNaN(Date.parse(row.createdAt ?? '')))) return false;
  if (changed.length > 1 && changed.some((row) => row.sha256 === undefined)) return false;
  const added = changed.filter((row) => !byPath.has(row.path));
  if (!arePlainlyNew(added, files)) return false;
  const totalBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
  const changedBytes = changed.reduce(
    (sum, row) => sum + (row.sizeBytes ?? byPath.get(row.path)?.sizeBytes ?? 0),
    0,
  );
  return changedBytes <= totalBytes * MOST_SHARE;
}

/** Whether new files have names that nobody takes for anything else, in folders that are there. */
function arePlainlyNew(added: readonly WorkbookRow[], files: readonly ManifestFile[]): boolean {
  if (added.length === 0) return true;
  const paths = files.map((file) => file.path);
  const folders = foldersWith(paths);
  const taken = new Set([...paths, ...folders].map(foldName));
  return added.every(({ path }) => {
    const slash = path.lastIndexOf('/');
    const isFree = !taken.has(foldName(path));
    taken.add(foldName(path));
    return isFree && nameFault(path) === null && (slash === -1 || folders.has(path.slice(0, slash)));
  });
}
