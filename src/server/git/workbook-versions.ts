import { isWorkbookName } from '../../lib/api/media-types.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { FILE_MODE } from './objects.ts';

/** A commit with its parents, in their order. */
export interface CommitParents {
  readonly id: string;
  readonly parents: readonly string[];
}

/** The commit that last changed a workbook, as `git log -1 -- PATH` names it. */
export interface WorkbookVersion {
  readonly id: string;
  /** The workbook's version before it; null for the first one. A workbook that is added again after deletion starts over. */
  readonly parentId: string | null;
  /** Git's id of the file's content. */
  readonly blobId: string;
}

type Bucket = ReadonlyMap<string, WorkbookVersion>;

/**
 * The workbooks in a commit, by path. A table never changes, and shares most of its buckets with the tables of neighbouring
 * commits: tables for many commits take little more memory than the changes between them.
 */
export type VersionTable = readonly Bucket[];

const BUCKETS = 64;
const EMPTY_BUCKET: Bucket = new Map();
const EMPTY_TABLE: VersionTable = Array.from({ length: BUCKETS }, () => EMPTY_BUCKET);

function bucketOf(path: string): number {
  let hash = 0;
  for (let index = 0; index < path.length; index += 1)
    hash = (Math.imul(hash, 31) + path.charCodeAt(index)) >>> 0;
  return hash % BUCKETS;
}

/** Finds the version of a workbook; undefined if the commit lacks it. */
export function versionAt(table: VersionTable, path: string): WorkbookVersion | undefined {
  return table[bucketOf(path)]?.get(path);
}

/** Makes a table with other versions of some paths; null removes one. */
function withChanges(
  table: VersionTable,
  changes: ReadonlyMap<string, WorkbookVersion | null>,
): VersionTable {
  if (changes.size === 0) return table;
  const buckets: Bucket[] = [...table];
  const copies = new Map<number, Map<string, WorkbookVersion>>();
  for (const [path, version] of changes) {
    const index = bucketOf(path);
    const copy = copies.get(index) ?? new Map(table[index]);
    copies.set(index, copy);
    buckets[index] = copy;
    if (version === null) copy.delete(path);
    else copy.set(path, version);
  }
  return buckets;
}

/** How a file differs between a parent and its child: Git's modes and the id of the new content. */
export interface FileChange {
  readonly oldMode: string;
  readonly newMode: string;
  readonly newBlobId: string;
}

/** The workbooks that differ between a parent and its child, by path. */
export type FileChanges = ReadonlyMap<string, FileChange>;

/**
 * Finds the versions of the workbooks at a commit. A workbook is as in the first parent that holds the same file, and has that
 * parent's version. Where no parent does, the commit is the version, and its previous version comes from the first parent that has another file of
 * this name.
 * @param changes one map for each parent, and one for a commit without parents
 * @param parents the tables of the parents
 */
function versionsAfter(
  commitId: string,
  changes: readonly FileChanges[],
  parents: readonly VersionTable[],
): VersionTable {
  const [first = EMPTY_TABLE] = parents;
  const updates = new Map<string, WorkbookVersion | null>();
  for (const [path, { newMode, newBlobId }] of changes[0] ?? []) {
    const versionIn = (index: number): WorkbookVersion | undefined => {
      const table = parents[index];
      return table === undefined ? undefined : versionAt(table, path);
    };
    const same = versionIn(changes.findIndex((change) => !change.has(path)));
    const before = versionIn(changes.findIndex((change) => FILE_MODE.test(change.get(path)?.oldMode ?? '')));
    if (!FILE_MODE.test(newMode)) updates.set(path, null);
    else updates.set(path, same ?? { id: commitId, parentId: before?.id ?? null, blobId: newBlobId });
  }
  return withChanges(first, updates);
}

/** Input lines that ask for the differences between each commit and each of its parents (git-diff-tree(1), `--stdin`). */
export function diffRequests(commits: readonly CommitParents[]): string {
  const lines = commits.flatMap(({ id, parents }) =>
    parents.length < 2 ? [id] : parents.map((parent) => `${id} ${parent}`),
  );
  return lines.map((line) => `${line}\n`).join('');
}

/**
 * Makes a reader of the NUL-terminated tokens of `git diff-tree --stdin --always --root --raw -z` with the input
 * {@link diffRequests}. For each line of the input there is a token with the id of the commit, and two tokens a changed path:
 * `:<mode> <mode> <id> <id> <letter>` and the path.
 * @param commits each after its parents
 * @param tables has the tables of all parents that are not among the commits; receives the table of each commit
 */
export function createDiffReader(commits: readonly CommitParents[], tables: Map<string, VersionTable>) {
  let index = 0;
  let changes: Array<Map<string, FileChange>> = [];
  let change: FileChange | null = null;

  /** Finishes a commit that was read completely, and begins the next. */
  function endCommit(): void {
    const commit = commits[index];
    if (commit === undefined || changes.length < Math.max(1, commit.parents.length)) return;
    const parents = commit.parents.map((parent) => {
      const table = tables.get(parent);
      if (table === undefined) throw incomplete(parent);
      return table;
    });
    tables.set(commit.id, versionsAfter(commit.id, changes, parents));
    changes = [];
    index += 1;
  }

  return {
    onToken: (token: string): void => {
      if (change !== null) {
        if (isWorkbookName(token)) changes.at(-1)?.set(token, change);
        change = null;
      } else if (token.startsWith(':')) {
        const [oldMode = '', newMode = '', , newBlobId = ''] = token.slice(1).split(' ');
        change = { oldMode, newMode, newBlobId };
      } else {
        endCommit();
        changes.push(new Map());
      }
    },
    /** Finishes the last commit. @throws MirrorError `service.failed` if a commit is missing */
    close: (): void => {
      endCommit();
      const missing = commits[index];
      if (missing !== undefined) throw incomplete(missing.id);
    },
  };
}

function incomplete(commitId: string): MirrorError {
  return new MirrorError('service.failed', `the history of commit ${commitId} is incomplete`);
}
