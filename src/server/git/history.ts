import { isWorkbookName } from '../../lib/api/media-types.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type Git, textUpTo } from './git.ts';
import { listTree } from './objects.ts';
import {
  type CommitParents,
  createDiffReader,
  diffRequests,
  type FoundVersion,
  VersionSearch,
} from './version-search.ts';

/** The version of a workbook on a branch: the commit that `git log -1 -- PATH` gives. */
export interface LastChange extends FoundVersion {
  readonly commit: Commit;
  /** Git's id of the file's content. */
  readonly blobId: string;
}

/** The workbooks that a commit holds, each with its version, by path. */
export type History = ReadonlyMap<string, LastChange>;

/** Gives an equal string that does not keep alive the longer one that it was cut out of. */
function detached(id: string): string {
  return Buffer.from(id, 'latin1').toString('latin1');
}

/** A commit whose history is known. */
interface Base {
  readonly head: string;
  readonly history: History;
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

  /** Reads what led to a head, or from a known head to it; null where the known history does not tell all. */
  async function walk(head: string, base: Base | null): Promise<History | null> {
    const blobs = new Map<string, string>();
    for (const { path, kind, id } of await listTree(git, gitDirectory, head))
      if (kind === 'file' && isWorkbookName(path)) blobs.set(path, id);
    const search = new VersionSearch(head, blobs.keys());
    const commits = await readCommits(git, gitDirectory, base === null ? [head] : [head, `^${base.head}`]);
    const reader = createDiffReader(commits, search);
    await git.tokens(gitDirectory, DIFF_ARGUMENTS, reader.onToken, { input: diffRequests(commits) });
    reader.close();
    const versions = search.finish(base);
    if (versions === null) return null;
    const details = new Map([...(base?.history.values() ?? [])].map(({ commit }) => [commit.id, commit]));
    const added = new Set([...versions.values()].map(({ id }) => id).filter((id) => !details.has(id)));
    await readDetails(git, gitDirectory, added, details);
    return joined(blobs, versions, details);
  }

  /** Continues a known history, or gives null where that does not work. */
  async function extend(head: string, previous: Known): Promise<History | null> {
    try {
      return await walk(head, { head: previous.head, history: await previous.history });
    } catch {
      // The old head may be gone from the repository altogether.
      return null;
    }
  }

  async function compute(head: string, previous?: Known): Promise<History> {
    const extended = previous === undefined ? null : await extend(head, previous);
    const history = extended ?? (await walk(head, null));
    if (history === null)
      throw new MirrorError('service.failed', `the history of commit ${head} is incomplete`);
    return history;
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

/** Lists commits and their parents, each commit after all of its children. */
async function readCommits(
  git: Git,
  gitDirectory: string,
  range: readonly string[],
): Promise<CommitParents[]> {
  const text = await git.text(gitDirectory, ['rev-list', '--topo-order', '--parents', ...range, '--']);
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [id = '', ...parents] = line.split(' ');
      return { id, parents };
    });
}

function joined(
  blobs: ReadonlyMap<string, string>,
  versions: ReadonlyMap<string, FoundVersion>,
  details: ReadonlyMap<string, Commit>,
): History | null {
  const history = new Map<string, LastChange>();
  for (const [path, blobId] of blobs) {
    const version = versions.get(path);
    const commit = details.get(version?.id ?? '');
    if (version === undefined || commit === undefined) return null;
    const parentId = version.parentId === null ? null : detached(version.parentId);
    history.set(path, { id: commit.id, commit, parentId, blobId: detached(blobId) });
  }
  return history;
}

/** What the list tells of a commit. */
export interface Commit {
  readonly id: string;
  /** At most a kilobyte of it. */
  readonly author: string;
  /** Whole seconds since 1970 at which it was committed. */
  readonly committedAtSeconds: number;
  /** With its line feed, if it has one; at most {@link DETAIL_LIMIT_BYTES} of it. */
  readonly message: string;
}

const DIFF_ARGUMENTS = [
  'diff-tree',
  '--stdin',
  '--always',
  '--root',
  '-r',
  '-z',
  '--raw',
  '--no-abbrev',
  '--no-renames',
] as const;

const DETAIL_ARGUMENTS = [
  'log',
  '--no-walk=unsorted',
  '--stdin',
  '-z',
  '--no-color',
  '--encoding=UTF-8',
  '--format=tformat:%H%x00%an%x00%ct%x00%B',
] as const;
const DETAIL_TOKENS = 4;

/** The most that is read of a message: its length is the author's choice, and the list repeats it for each workbook of a commit. */
const DETAIL_LIMIT_BYTES = 64 * 1024;
const AUTHOR_LIMIT_BYTES = 1024;

/** Adds what the list tells of commits, by their ids. */
async function readDetails(
  git: Git,
  gitDirectory: string,
  ids: ReadonlySet<string>,
  details: Map<string, Commit>,
): Promise<void> {
  if (ids.size === 0) return;
  // A name that thousands of commits have is kept once.
  const authors = new Map<string, string>();
  let tokens: string[] = [];
  const onToken = (token: string): void => {
    tokens.push(token);
    if (tokens.length < DETAIL_TOKENS) return;
    const [id = '', name = '', seconds = '', message = ''] = tokens;
    tokens = [];
    const shortName = textUpTo(Buffer.from(name), AUTHOR_LIMIT_BYTES);
    const author = authors.get(shortName) ?? shortName;
    authors.set(author, author);
    details.set(id, { id, author, committedAtSeconds: Number(seconds), message });
  };
  const input = [...ids].map((id) => `${id}\n`).join('');
  await git.tokens(gitDirectory, DETAIL_ARGUMENTS, onToken, { input, limitBytes: DETAIL_LIMIT_BYTES });
}
