import { isWorkbookName } from '../../lib/api/media-types.ts';
import { type Git, textUpTo } from './git.ts';

/** The last change of a workbook on a branch: the commit after which its content is what it is. */
export interface LastChange {
  readonly commit: Commit;
  /** Kind of change (service specification, section 2.3). Git knows no renames: they are a removal and an `add`. */
  readonly action: 'add' | 'modify';
  /** Git's id of the file's content. */
  readonly blobId: string;
}

/** The workbooks that a commit holds, each with its last change on the way there, by path. */
export type History = ReadonlyMap<string, LastChange>;

/** Git's modes of a regular file; a link or a submodule is no workbook, whatever its name. */
const FILE_MODES: ReadonlySet<string> = new Set(['100644', '100664', '100755']);

/** Gives an equal string that does not keep alive the longer one that it was cut out of. */
function detached(id: string): string {
  return Buffer.from(id, 'latin1').toString('latin1');
}

/** Makes the history at a commit out of the changes that led there. */
export function createFold() {
  const newest = new Map<string, LastChange | null>();
  return {
    /** Takes the changes newest first; of each path only the first one counts. */
    add: ({ commit, path, letter, mode, blobId }: PathChange): void => {
      if (newest.has(path) || !isWorkbookName(path)) return;
      const action = letter === 'A' ? 'add' : 'modify';
      newest.set(path, FILE_MODES.has(mode) ? { commit, action, blobId: detached(blobId) } : null);
    },
    /** @param base the history at the commit before the oldest change, empty when that is the very first one */
    finish(base: History): History {
      const history = new Map(base);
      for (const [path, change] of newest) {
        if (change === null) history.delete(path);
        else history.set(path, change);
      }
      return history;
    },
  };
}

interface Known {
  readonly head: string;
  readonly history: Promise<History>;
}

/** Reads and remembers the histories of the branches of one repository. */
export type HistoryReader = ReturnType<typeof createHistoryReader>;

/** Makes a reader of a bare repository's histories that knows nothing yet. */
export function createHistoryReader(git: Git, gitDirectory: string) {
  const known = new Map<string, Known>();

  /** Walks a branch from its head down, without what the excluded commit contains. */
  async function walk(head: string, excluded: readonly string[]) {
    const fold = createFold();
    let oldest: Commit | undefined;
    const read = createLogReader((commit) => {
      oldest = commit;
    }, fold.add);
    const commits = [head, ...excluded.map((id) => `^${id}`)];
    await git.tokens(gitDirectory, [...LOG_ARGUMENTS, ...commits, '--'], read, LOG_TOKEN_LIMIT_BYTES);
    return { fold, startsAfter: oldest?.parentId ?? null };
  }

  /** Continues a known history, or gives null where the new head's first parents do not lead to the known head. */
  async function extend(head: string, previous: Known): Promise<History | null> {
    try {
      const base = await previous.history;
      const { fold, startsAfter } = await walk(head, [previous.head]);
      return startsAfter === previous.head ? fold.finish(base) : null;
    } catch {
      // The old head may be gone from the repository altogether.
      return null;
    }
  }

  async function compute(head: string, previous?: Known): Promise<History> {
    const extended = previous === undefined ? null : await extend(head, previous);
    return extended ?? (await walk(head, [])).fold.finish(new Map());
  }

  function sharedHistory(head: string): Promise<History> | undefined {
    for (const entry of known.values()) if (entry.head === head) return entry.history;
    return undefined;
  }

  return {
    /** The history of a branch at a head; costs nothing while the head stays the same. */
    of(branch: string, head: string): Promise<History> {
      const previous = known.get(branch);
      if (previous?.head === head) return previous.history;
      const history = sharedHistory(head) ?? compute(head, previous);
      known.set(branch, { head, history });
      history.catch(() => {
        // A failure is not remembered.
        if (known.get(branch)?.history === history) known.delete(branch);
      });
      return history;
    },
    /** Forgets every branch that is not among the given ones. */
    keepOnly(branches: { readonly has: (branch: string) => boolean }): void {
      for (const branch of known.keys()) if (!branches.has(branch)) known.delete(branch);
    },
  };
}

/** A commit as the walk of a branch gives it. */
export interface Commit {
  readonly id: string;
  /** The commit before it on the branch; null for the first one. */
  readonly parentId: string | null;
  /** At most a kilobyte of it. */
  readonly author: string;
  /** Whole seconds since 1970 at which it was committed. */
  readonly committedAtSeconds: number;
  /** With its line feed, if it has one; at most {@link LOG_TOKEN_LIMIT_BYTES} of it. */
  readonly message: string;
}

/** One path that a commit changed on its branch. */
export interface PathChange {
  readonly commit: Commit;
  readonly path: string;
  /** Git's letter: `A` added, `M` modified, `T` changed type, `D` deleted. */
  readonly letter: string;
  /** Git's file mode after the change, `000000` when it is gone. */
  readonly mode: string;
  /** Git's id of the file after the change, zeros when it is gone. */
  readonly blobId: string;
}

/**
 * Arguments of the walk that {@link createLogReader} understands, without the commits to walk. It follows the first
 * parent only and compares a merge with it: the merge is then the commit after which the branch holds what was merged.
 */
const LOG_ARGUMENTS = [
  'log',
  '-z',
  '--first-parent',
  '--diff-merges=first-parent',
  '--raw',
  '--no-abbrev',
  '--no-renames',
  '--no-color',
  '--encoding=UTF-8',
  '--format=tformat:%H%x00%P%x00%an%x00%ct%x00%B',
] as const;

/** The most that is read of a message: its length is the author's choice, and the list repeats it for each workbook of a commit. */
const LOG_TOKEN_LIMIT_BYTES = 64 * 1024;
const AUTHOR_LIMIT_BYTES = 1024;

const HEADER_TOKENS = 5;

/** @param authors the authors met so far: a name that thousands of commits have is kept once */
function readCommit(header: readonly string[], authors: Map<string, string>): Commit {
  const [id = '', parents = '', name = '', seconds = '', message = ''] = header;
  const parentId = parents.split(' ')[0];
  const shortName = textUpTo(Buffer.from(name), AUTHOR_LIMIT_BYTES);
  const author = authors.get(shortName) ?? shortName;
  authors.set(author, author);
  return {
    id,
    parentId: parentId === undefined || parentId === '' ? null : parentId,
    author,
    committedAtSeconds: Number(seconds),
    message,
  };
}

/**
 * Makes a reader of the NUL-terminated tokens of `git log` with {@link LOG_ARGUMENTS}, each cut at {@link LOG_TOKEN_LIMIT_BYTES}.
 *
 * A commit is five tokens, followed by two tokens a changed path: `:<mode> <mode> <id> <id> <letter>`, the first of a
 * commit with a line feed before it, and the path. A message cannot be taken for one, because tokens are counted. A
 * path that was cut is no name of anything, and passed over.
 * @param onCommit called once a commit, newest first
 * @param onChange called once a changed path, after the `onCommit` of its commit
 */
export function createLogReader(
  onCommit: (commit: Commit) => void,
  onChange: (change: PathChange) => void,
): (token: string, isCut?: boolean) => void {
  const authors = new Map<string, string>();
  let header: string[] = [];
  let commit: Commit | undefined;
  let raw: string | undefined;
  return (token, isCut = false) => {
    if (raw !== undefined && commit !== undefined) {
      const [, mode = '', , blobId = '', letter = ''] = raw.split(' ');
      if (!isCut) onChange({ commit, path: token, letter, mode, blobId });
      raw = undefined;
    } else if (header.length === 0 && /^\n?:/.test(token)) {
      raw = token.trimStart();
    } else {
      header.push(token);
      if (header.length < HEADER_TOKENS) return;
      commit = readCommit(header, authors);
      header = [];
      onCommit(commit);
    }
  };
}
