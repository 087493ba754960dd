import type { WorkbookRow } from '../http/library.ts';

/** The rows of one repository. */
export interface Piece {
  /** What the id of each row begins with: the repository's full name and a slash. */
  readonly prefix: string;
  /** Sorted by {@link compareRows}. */
  readonly rows: readonly WorkbookRow[];
}

/** Compares by code unit: the same order everywhere, whatever the language of the machine. */
function compare(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

/** Orders rows by id, and those of one workbook by branch. */
export function compareRows(left: WorkbookRow, right: WorkbookRow): number {
  return compare(left.id, right.id) || compare(left.branch, right.branch);
}

/**
 * Joins the rows of repositories into one list, sorted by {@link compareRows}.
 *
 * Ids with the same beginning stand together in that order, so that sorted pieces only have to be put one behind the other.
 * Where the beginning of one is the beginning of another (`a/` and `a/b.git/`), their rows may mingle, and these are sorted.
 */
export function mergeRows(pieces: readonly Piece[]): WorkbookRow[] {
  const merged: WorkbookRow[] = [];
  let start = 0;
  let first: Piece | undefined;
  let isMingled = false;
  const close = (): void => {
    if (!isMingled) return;
    const tail = merged.splice(start).sort(compareRows);
    for (const row of tail) merged.push(row);
  };
  for (const piece of [...pieces].sort((left, right) => compare(left.prefix, right.prefix))) {
    if (first !== undefined && piece.prefix.startsWith(first.prefix)) {
      isMingled = true;
    } else {
      close();
      start = merged.length;
      first = piece;
      isMingled = false;
    }
    for (const row of piece.rows) merged.push(row);
  }
  close();
  return merged;
}
