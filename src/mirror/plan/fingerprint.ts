import { hash } from 'node:crypto';

import { byBranch, type WorkbookRow } from '../upstream/listing.ts';

/** The state of a target as the list of workbooks shows it. Two equal fingerprints mean that there is nothing to do. */
export interface Fingerprint {
  /**
   * SHA-256, in hexadecimal digits, of the sorted (workbook path, version id) pairs. A workbook's id begins with its
   * repository's full name; the path inside the repository says the same and outlives the renaming of a repository.
   */
  readonly digest: string;
  /**
   * Paths of workbooks that the target's tree holds although the listing shows them on other branches only. A service that
   * lists each workbook once, with its latest version's branch, hides changes of the other branches behind such rows;
   * counting them makes every new version of the workbook reason enough to look again.
   */
  readonly borrowed: readonly string[];
}

/** The digest of nothing but the pairs given; their order and repetitions do not matter. */
function digestOf(rows: readonly WorkbookRow[]): string {
  const pairs = new Set(rows.map((row) => JSON.stringify([row.path, row.versionId])));
  return hash(
    'sha256',
    [...pairs]
      .sort()
      .map((pair) => `${pair}\n`)
      .join(''),
  );
}

/**
 * The fingerprint that a published tree has under a listing.
 * @param rows all rows of the target's repository
 * @param branch the target's branch
 * @param holds whether the target's tree holds a file at a workbook's path
 */
export function fingerprintOfTree(
  rows: readonly WorkbookRow[],
  branch: string,
  holds: (path: string) => boolean,
): Fingerprint {
  const own = rows.filter((row) => row.branch === branch);
  const ownPaths = new Set(own.map((row) => row.path));
  const borrowed = rows.filter((row) => row.branch !== branch && !ownPaths.has(row.path) && holds(row.path));
  return {
    digest: digestOf([...own, ...borrowed]),
    borrowed: [...new Set(borrowed.map((row) => row.path))].sort(),
  };
}

/**
 * The digest that a target has under a listing, counting the workbooks that it borrowed when it was published. It is computed
 * once for the same rows.
 * @param rows all rows of the target's repository
 */
export function fingerprintDigest(
  rows: readonly WorkbookRow[],
  branch: string,
  borrowed: readonly string[] = [],
): string {
  const own = byBranch(rows).get(branch) ?? NO_ROWS;
  if (borrowed.length === 0) {
    const digest = plainDigests.get(own) ?? digestOf(own);
    plainDigests.set(own, digest);
    return digest;
  }
  const known = borrowingDigests.get(borrowed);
  if (known?.rows === rows && known.branch === branch) return known.digest;
  const ownPaths = new Set(own.map((row) => row.path));
  const others = [...new Set(borrowed)].flatMap((path) =>
    ownPaths.has(path) ? [] : (byPath(rows).get(path) ?? []).filter((row) => row.branch !== branch),
  );
  const digest = digestOf([...own, ...others]);
  borrowingDigests.set(borrowed, { rows, branch, digest });
  return digest;
}

const NO_ROWS: readonly WorkbookRow[] = [];

/** Digests by the rows of the branch alone. */
const plainDigests = new WeakMap<readonly WorkbookRow[], string>();

/** The last digest by what was borrowed, which belongs to one tree. */
const borrowingDigests = new WeakMap<
  readonly string[],
  { readonly rows: readonly WorkbookRow[]; readonly branch: string; readonly digest: string }
>();

/** The rows by path of the repository that was asked about last: its branches are asked about one after the other. */
let pathsOf: { readonly rows: readonly WorkbookRow[]; readonly paths: Map<string, WorkbookRow[]> } | null =
  null;

function byPath(rows: readonly WorkbookRow[]): ReadonlyMap<string, readonly WorkbookRow[]> {
  if (pathsOf?.rows === rows) return pathsOf.paths;
  const paths = Map.groupBy(rows, (row) => row.path);
  pathsOf = { rows, paths };
  return paths;
}

/** Values of a version's status that say that the service has finished with it, well or badly. */
const FINISHED_STATUS =
  /^(?:success(?:ful|fully)?|succeeded|done|completed?|finished|fail(?:ed|ure)?|errors?|errored)$/i;

/**
 * Whether the service says that it has finished with every workbook of a branch. The specification names one status,
 * `success`, and a counter (sections 2.3 and 2.4); an absent status counts as finished.
 */
export function isSettled(rows: readonly WorkbookRow[], branch: string): boolean {
  const own = byBranch(rows).get(branch) ?? NO_ROWS;
  const settled =
    settledBranches.get(own) ??
    own.every(
      (row) =>
        row.processing === 0 && (row.versionStatus === null || FINISHED_STATUS.test(row.versionStatus)),
    );
  settledBranches.set(own, settled);
  return settled;
}

const settledBranches = new WeakMap<readonly WorkbookRow[], boolean>();
