import { byCodeUnits, type Manifest } from '../../mirror/store/manifest.ts';
import type { WorkbookRow } from '../../mirror/upstream/listing.ts';
import type { Action } from '../../mirror/plan/actions.ts';
import { type FileDifference, fileDifferences, type FileState, stateOf } from './file-differences.ts';
import { changesByPath, rowsAtFiles, workbookOf } from '../../mirror/plan/workbooks.ts';

/** The changes of files that an action would bring, as far as they are known before anything is downloaded. */
export interface ForeseenChanges {
  readonly differences: readonly FileDifference[];
  /** False if only the contents show further changes and deletions. */
  readonly isComplete: boolean;
}

/**
 * Foresees the changes of an action from the lists. Only the contents show whether a workbook that is no longer listed is gone.
 * @param published the manifest of its tree; null if there is none
 * @param rows all rows of the target's repository; null if the service has no list of workbooks
 */
export function foreseeChanges(
  action: Action,
  published: Manifest | null,
  rows: readonly WorkbookRow[] | null,
): ForeseenChanges {
  switch (action.kind) {
    case 'keep':
    case 'hold':
      return { differences: [], isComplete: true };
    case 'retire':
      return { differences: fileDifferences(published?.files ?? [], []), isComplete: true };
    case 'pull':
      return {
        differences: listedChanges(published, rows ?? [], action.target.branch),
        isComplete: changesByPath(action, published, rows)?.gone.length === 0,
      };
  }
}

/** The workbooks of a branch that are listed with another version than the published one. */
function listedChanges(
  published: Manifest | null,
  rows: readonly WorkbookRow[],
  branch: string,
): FileDifference[] {
  const files = new Map(published?.files.map((file) => [file.path, file]));
  const listed = rows.filter((row) => row.branch === branch);
  const own = new Map(rowsAtFiles(listed, published?.files ?? []).map((row) => [row.path, row]));
  return [...own.values()]
    .flatMap((row): FileDifference[] => {
      const { path, versionId, sha256 = null } = row;
      const file = files.get(path);
      const after = stateOfRow(row);
      if (file === undefined) return [{ change: 'added', path, movedFrom: null, before: null, after }];
      const isSame = file.workbook?.versionId === versionId || file.sha256 === sha256;
      return isSame ? [] : [{ change: 'changed', path, movedFrom: null, before: stateOf(file), after }];
    })
    .sort((a, b) => byCodeUnits(a.path, b.path));
}

function stateOfRow(row: WorkbookRow): FileState {
  const { sizeBytes = null, sha256 = null } = row;
  return { sizeBytes, sha256, workbook: workbookOf(row) };
}
