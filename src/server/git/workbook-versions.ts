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

/** The workbooks in a commit, by path. */
export type VersionTable = ReadonlyMap<string, WorkbookVersion>;

/** How a file differs between a parent and its child: Git's modes and the id of the new content. */
export interface FileChange {
  readonly oldMode: string;
  readonly newMode: string;
  readonly newBlobId: string;
}

/** The workbooks that differ between a parent and its child, by path. */
export type FileChanges = ReadonlyMap<string, FileChange>;

/**
 * Finds the workbooks whose versions at a commit differ from those at its first parent; null for one that the commit lacks. A workbook
 * is as in the first parent that holds the same file, and has that parent's version. Where no parent does, the commit is the version,
 * and its previous version comes from the first parent that has another file of this name.
 * @param changes one map for each parent, and one for a commit without parents
 * @param parents the tables of the parents
 */
function updatesAt(
  commitId: string,
  changes: readonly FileChanges[],
  parents: readonly VersionTable[],
): ReadonlyMap<string, WorkbookVersion | null> {
  const updates = new Map<string, WorkbookVersion | null>();
  for (const [path, { newMode, newBlobId }] of changes[0] ?? []) {
    const versionIn = (index: number): WorkbookVersion | undefined => parents[index]?.get(path);
    const same = versionIn(changes.findIndex((change) => !change.has(path)));
    const before = versionIn(changes.findIndex((change) => FILE_MODE.test(change.get(path)?.oldMode ?? '')));
    if (!FILE_MODE.test(newMode)) updates.set(path, null);
    else updates.set(path, same ?? { id: commitId, parentId: before?.id ?? null, blobId: newBlobId });
  }
  return updates;
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
 * @param heads the commits whose tables are wanted
 * @param tables has the tables of all parents that are not among the commits; has those of the heads in the end
 */
export function createDiffReader(
  commits: readonly CommitParents[],
  heads: ReadonlySet<string>,
  tables: Map<string, Map<string, WorkbookVersion>>,
) {
  /** How many commits still need the table of each. */
  const uses = new Map([...heads].map((id) => [id, 1]));
  for (const parent of commits.flatMap(({ parents }) => parents))
    uses.set(parent, (uses.get(parent) ?? 0) + 1);
  let index = 0;
  let changes: Array<Map<string, FileChange>> = [];
  let change: FileChange | null = null;

  function tableOf(id: string): Map<string, WorkbookVersion> {
    const table = tables.get(id);
    if (table === undefined) throw incomplete(id);
    return table;
  }

  /** Whether no other commit needs the table of a parent any more; then it is dropped. */
  function isLastUse(id: string): boolean {
    const left = (uses.get(id) ?? 0) - 1;
    uses.set(id, left);
    return left === 0 && tables.delete(id);
  }

  /** Finishes a commit that was read completely, and begins the next. */
  function endCommit(): void {
    const commit = commits[index];
    if (commit === undefined || changes.length < Math.max(1, commit.parents.length)) return;
    const parents = commit.parents.map(tableOf);
    const updates = updatesAt(commit.id, changes, parents);
    const [first = new Map<string, WorkbookVersion>()] = parents;
    const [isFree = true] = commit.parents.map(isLastUse);
    const table = isFree ? first : new Map(first);
    for (const [path, version] of updates)
      if (version === null) table.delete(path);
      else table.set(path, version);
    tables.set(commit.id, table);
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
    /** Finishes the last commit. @throws MirrorError `service.failed` if a commit or the table of a head is missing */
    close: (): void => {
      endCommit();
      // A head before the known ones is not among the commits: without its table, its workbooks would look deleted.
      const missing = commits[index]?.id ?? [...heads].find((id) => !tables.has(id));
      if (missing !== undefined) throw incomplete(missing);
    },
  };
}

function incomplete(commitId: string): MirrorError {
  return new MirrorError('service.failed', `the history of commit ${commitId} is incomplete`);
}
