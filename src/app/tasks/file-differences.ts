import { movedFiles } from '../../mirror/plan/guard.ts';
import {
  byCodeUnits,
  type ManifestFile,
  type ManifestWorkbook,
  treeChanges,
} from '../../mirror/store/manifest.ts';

/** One file that differs between two states of a tree. */
export interface FileDifference {
  readonly change: 'added' | 'changed' | 'removed' | 'moved';
  /** Its path below the tree, with slashes, in the later state; for a removed file, its former path. */
  readonly path: string;
  /** The former path of a moved file; null for others. */
  readonly movedFrom: string | null;
  /** Null of an added one. */
  readonly before: FileState | null;
  /** Null of a removed one. */
  readonly after: FileState | null;
}

/** A file in one state of a tree. */
export interface FileState {
  readonly sizeBytes: number;
  /** In hexadecimal digits. */
  readonly sha256: string;
  /** The listed version; null if it is not a workbook. */
  readonly workbook: ManifestWorkbook | null;
}

/**
 * The files whose bytes or places differ between two states of a tree, sorted by path. A file that is gone and one that is new with
 * the same bytes are one that moved, unless they are empty: all empty files are alike.
 */
export function fileDifferences(
  before: readonly ManifestFile[],
  after: readonly ManifestFile[],
): FileDifference[] {
  const { added, changed, removed } = treeChanges(before, after);
  const old = new Map(before.map((file) => [file.path, file]));
  const now = new Map(after.map((file) => [file.path, file]));
  const at = (files: typeof old, paths: readonly string[]): ManifestFile[] =>
    paths.flatMap((path) => files.get(path) ?? []);
  const gone = at(old, removed);
  const arrived = at(now, added);
  const moved = movedFiles(gone.filter(hasBytes), arrived.filter(hasBytes));
  const places = new Set(moved.values());
  const differences = [
    ...arrived.filter((file) => !places.has(file)).map((file) => differenceOf(null, file)),
    ...at(now, changed).map((file) => differenceOf(old.get(file.path) ?? null, file)),
    ...gone.map((file) => differenceOf(file, moved.get(file.path) ?? null)),
  ];
  return differences.sort((a, b) => byCodeUnits(a.path, b.path));
}

/** Counts differences by their kind. */
export function countDifferences(
  differences: readonly FileDifference[],
): Readonly<Record<FileDifference['change'], number>> {
  const counts = { added: 0, changed: 0, removed: 0, moved: 0 };
  for (const { change } of differences) counts[change] += 1;
  return counts;
}

/** The difference between two states of a file, one of which is there. */
function differenceOf(before: ManifestFile | null, after: ManifestFile | null): FileDifference {
  const path = (after ?? before)?.path ?? '';
  const states = { before: before && stateOf(before), after: after && stateOf(after) };
  if (before === null) return { change: 'added', path, movedFrom: null, ...states };
  if (after === null || before.path === path)
    return { change: after === null ? 'removed' : 'changed', path, movedFrom: null, ...states };
  return { change: 'moved', path, movedFrom: before.path, ...states };
}

function stateOf({ sizeBytes, sha256, workbook }: ManifestFile): FileState {
  return { sizeBytes, sha256, workbook: workbook ?? null };
}

function hasBytes({ sizeBytes }: ManifestFile): boolean {
  return sizeBytes > 0;
}
