import type { Version, WorkbookRow } from '../http/library.ts';
import { workbookKindOf } from '../checker/checker.ts';
import type { Heads } from './branch-reader.ts';
import type { HistoryReader, LastChange } from './history.ts';

/** The rows of one repository. */
export interface Piece {
  /** Begins the id of each row: the repository's full name and a slash. */
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

/** Git's empty tree, given as the parent of a first version: the specification says that `parent.id` is a string. */
const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904';

/** Git knows no renames: they are a removal and an `add` (service specification, section 2.3). */
function versionOf({ commit, parentId }: LastChange): Version {
  return {
    id: commit.id,
    author: commit.author,
    action: parentId === null ? 'add' : 'modify',
    createdAt: formatVersionTime(commit.committedAtSeconds),
    message: commit.message,
    parentId: parentId ?? EMPTY_TREE,
  };
}

/** Makes versions that are shared by the workbooks of a commit. */
function createVersions(): (change: LastChange) => Version {
  const versions = new Map<string, Version>();
  return (change) => {
    const key = `${change.id} ${change.parentId}`;
    const version = versions.get(key) ?? versionOf(change);
    versions.set(key, version);
    return version;
  };
}

/**
 * Makes the rows of one repository, sorted by id and branch.
 * @param integration full name of the repository
 * @throws MirrorError `service.failed` when its histories cannot be read
 */
export async function readRows(
  histories: HistoryReader,
  integration: string,
  heads: Heads,
): Promise<WorkbookRow[]> {
  const reads = [...heads].map(async ([branch, head]) => ({
    branch,
    history: await histories.of(branch, head),
  }));
  const versionFor = createVersions();
  const rows: WorkbookRow[] = [];
  for (const { branch, history } of await Promise.all(reads)) {
    for (const [path, change] of history) {
      rows.push({
        id: `${integration}/${path}`,
        integration,
        branch,
        path,
        version: versionFor(change),
        contentKey: `${change.blobId} ${workbookKindOf(path)}`,
      });
    }
  }
  histories.keepOnly(heads);
  return rows.sort(compareRows);
}

/** The last second that is written with four digits of the year, as ISO 8601 has them, in seconds since 1970. */
const LAST_SECOND = Date.UTC(9999, 11, 31, 23, 59, 59) / 1000;

/**
 * Writes an instant as v1 does: no fraction (section 2.3). A commit may claim any time, or none: what cannot be written becomes
 * the nearest instant that can be, and no number 1970, as git shows it.
 * @param seconds whole seconds since 1970
 */
export function formatVersionTime(seconds: number): string {
  const written = Number.isNaN(seconds) ? 0 : Math.min(Math.max(seconds, 0), LAST_SECOND);
  return new Date(written * 1000).toISOString().replace('.000Z', '+00:00');
}
