/** A commit with its parents, in their order. */
export interface CommitParents {
  readonly id: string;
  readonly parents: readonly string[];
}

/** The commit that made a workbook what it is on a branch. */
export interface FoundVersion {
  readonly id: string;
  /** The workbook's version before it; null for the first one. A workbook that was deleted and comes back begins again. */
  readonly parentId: string | null;
}

/** A version, the one before which may still be looked for. */
interface Found {
  readonly id: string;
  parentId: string | null;
}

/** What is looked for at a commit, by path: the version (null), or the one before a version that was found. */
type Wanted = Map<string, Found | null>;

/** Git's modes of a regular file; a link or a submodule is no workbook, whatever its name. */
const FILE_MODE = /^100/;

/**
 * Finds the versions of workbooks as `git log -1 -- PATH` does. From a commit, the search for a path goes on to the first parent that
 * holds the same file. Where none does, this commit is the version, and the search goes on from the first parent that holds
 * another file of this name, for the version before.
 */
export class VersionSearch {
  private readonly found = new Map<string, Found>();
  private readonly wantedAt = new Map<string, Wanted>();

  /** @param head the commit that holds the paths */
  constructor(head: string, paths: Iterable<string>) {
    this.wantedAt.set(head, new Map([...paths].map((path) => [path, null])));
  }

  /** Whether a commit decides about this path. */
  isWanted(commitId: string, path: string): boolean {
    return this.wantedAt.get(commitId)?.has(path) === true;
  }

  /**
   * Takes a commit; all of its children were taken before.
   * @param changes the mode that each wanted path had before, by path, of those that differ: one map for each parent, and one for a
   * commit without parents
   */
  take(commit: CommitParents, changes: ReadonlyArray<ReadonlyMap<string, string>>): void {
    const all = this.wantedAt.get(commit.id);
    if (all === undefined) return;
    this.wantedAt.delete(commit.id);
    for (const path of changes[0]?.keys() ?? []) {
      const wanted = all.get(path) ?? null;
      all.delete(path);
      const same = commit.parents[changes.findIndex((change) => !change.has(path))];
      if (same !== undefined) this.want(same, new Map([[path, wanted]]));
      else if (wanted !== null) wanted.parentId = commit.id;
      else this.conclude(commit, path, changes);
    }
    const [first] = commit.parents;
    if (first !== undefined) this.want(first, all);
  }

  /**
   * Ends the search.
   * @param base a commit that was not taken, and its versions
   * @returns null where the search for a path led to another commit that was not taken
   */
  finish(
    base: {
      readonly head: string;
      readonly history: ReadonlyMap<string, FoundVersion>;
    } | null,
  ): ReadonlyMap<string, FoundVersion> | null {
    for (const [commitId, all] of this.wantedAt) {
      for (const [path, wanted] of all) {
        const known = commitId === base?.head ? base.history.get(path) : undefined;
        if (known === undefined) return null;
        if (wanted === null) this.found.set(path, known);
        else wanted.parentId = known.id;
      }
    }
    return this.found;
  }

  /** Takes a path whose version a commit is. */
  private conclude(
    commit: CommitParents,
    path: string,
    changes: ReadonlyArray<ReadonlyMap<string, string>>,
  ): void {
    const version: Found = { id: commit.id, parentId: null };
    this.found.set(path, version);
    const before = commit.parents[changes.findIndex((change) => FILE_MODE.test(change.get(path) ?? ''))];
    if (before !== undefined) this.want(before, new Map([[path, version]]));
  }

  /** Goes on at a commit. Most commits change few paths: what is wanted there is kept as a whole, and the smaller part is added. */
  private want(commitId: string, more: Wanted): void {
    const there = this.wantedAt.get(commitId) ?? new Map<string, Found | null>();
    const [small, large] = there.size < more.size ? [there, more] : [more, there];
    for (const [path, wanted] of small) large.set(path, wanted);
    this.wantedAt.set(commitId, large);
  }
}

/** Asks for the differences between each commit and each of its parents, a line each (git-diff-tree(1), `--stdin`). */
export function diffRequests(commits: readonly CommitParents[]): string {
  const lines = commits.flatMap(({ id, parents }) =>
    parents.length < 2 ? [id] : parents.map((parent) => `${id} ${parent}`),
  );
  return lines.map((line) => `${line}\n`).join('');
}

/**
 * Makes a reader of the NUL-terminated tokens of `git diff-tree --stdin --always --root --raw -z`, whose input was
 * {@link diffRequests}. For each line of the input there is a token with the id of the commit, and two tokens a changed path:
 * `:<mode> <mode> <id> <id> <letter>` and the path.
 */
export function createDiffReader(commits: readonly CommitParents[], search: VersionSearch) {
  let index = 0;
  let changes: Array<Map<string, string>> = [];
  let oldMode: string | null = null;

  /** Ends the commit of which everything was read, so that the next one begins. */
  function endCommit(): void {
    const commit = commits[index];
    if (commit === undefined || changes.length < Math.max(1, commit.parents.length)) return;
    search.take(commit, changes);
    changes = [];
    index += 1;
  }

  return {
    onToken: (token: string): void => {
      if (oldMode !== null) {
        if (search.isWanted(commits[index]?.id ?? '', token)) changes.at(-1)?.set(token, oldMode);
        oldMode = null;
      } else if (token.startsWith(':')) {
        oldMode = token.slice(1, token.indexOf(' '));
      } else {
        endCommit();
        changes.push(new Map());
      }
    },
    /** Takes the last commit. */
    close: endCommit,
  };
}
