import { textUpTo } from './tokens.ts';

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
export const LOG_ARGUMENTS = [
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

/** So much is read of a message: whoever commits chooses its length, and each workbook of the commit has it in the list. */
export const LOG_TOKEN_LIMIT_BYTES = 64 * 1024;
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
