import type { Git } from './git.ts';
import type { Heads } from './refs.ts';
import {
  type CommitParents,
  createDiffReader,
  diffRequests,
  type VersionTable,
  type WorkbookVersion,
} from './workbook-versions.ts';

/** The histories of the branches of a repository. */
export interface Histories {
  /** The workbooks at each head of a branch. */
  readonly tables: ReadonlyMap<string, VersionTable>;
  /** The commit of each version. */
  readonly commits: ReadonlyMap<string, Commit>;
}

/** Reads and remembers the histories of the branches of one repository; one reading at a time. */
export type HistoryReader = ReturnType<typeof createHistoryReader>;

/** Makes a reader, still empty, of a bare repository's histories. Each commit is read once, even if several branches share it. */
export function createHistoryReader(git: Git, gitDirectory: string) {
  const tables = new Map<string, Map<string, WorkbookVersion>>();
  let commits: ReadonlyMap<string, Commit> = new Map();

  /** Reads the commits between the heads of the last reading and other heads. */
  async function walk(heads: ReadonlySet<string>): Promise<void> {
    const range = [...heads, ...[...tables.keys()].map((id) => `^${id}`)];
    const found = await readCommits(git, gitDirectory, range);
    const reader = createDiffReader(found, heads, tables);
    await git.tokens(gitDirectory, DIFF_ARGUMENTS, reader.onToken, diffRequests(found));
    reader.close();
    for (const id of tables.keys()) if (!heads.has(id)) tables.delete(id);
  }

  async function walkFromKnown(heads: ReadonlySet<string>): Promise<void> {
    const isFirst = tables.size === 0;
    try {
      await walk(heads);
    } catch (error) {
      tables.clear();
      if (isFirst) throw error;
      // An earlier head may be gone from the repository, or a branch may be at a commit before one.
      await walkFromKnown(heads);
    }
  }

  return {
    /** @throws MirrorError `service.failed` when git cannot read them */
    async read(branches: Heads): Promise<Histories> {
      const heads = new Set(branches.values());
      if (heads.size > 0) await walkFromKnown(heads);
      const versions = [...tables.values()].flatMap((table) => [...table.values()].map(({ id }) => id));
      commits = await readDetails(git, gitDirectory, new Set(versions), commits);
      return { tables, commits };
    },
  };
}

/** Lists commits and their parents, each commit after all of its parents. */
async function readCommits(
  git: Git,
  gitDirectory: string,
  range: readonly string[],
): Promise<CommitParents[]> {
  const args = ['rev-list', '--topo-order', '--reverse', '--parents', '--stdin'];
  const input = range.map((line) => `${line}\n`).join('');
  const text = await git.text(gitDirectory, args, { input, isLong: true });
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [id = '', ...parents] = line.split(' ');
      return { id, parents };
    });
}

/** The facts of a commit that the list shows. */
export interface Commit {
  readonly id: string;
  /** At most {@link AUTHOR_LIMIT} characters of it. */
  readonly author: string;
  /** Commit time in whole seconds since 1970. */
  readonly committedAtSeconds: number;
  /** With its line feed, if it has one; at most {@link MESSAGE_LIMIT} characters of it. */
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

/** Longest part of a message that is kept, in characters: it can have any length, and the list repeats it for each workbook of the commit. */
const MESSAGE_LIMIT = 64 * 1024;
const AUTHOR_LIMIT = 1024;

/** The beginning of a text, without half of a character. */
function startOf(text: string, limit: number): string {
  return text.slice(0, limit).replace(/[\ud800-\udbff]$/, '');
}

/** Reads the facts of those commits that are not known yet, by their ids. */
async function readDetails(
  git: Git,
  gitDirectory: string,
  ids: ReadonlySet<string>,
  known: ReadonlyMap<string, Commit>,
): Promise<ReadonlyMap<string, Commit>> {
  const details = new Map([...known].filter(([id]) => ids.has(id)));
  const missing = [...ids].filter((id) => !details.has(id));
  if (missing.length === 0) return details;
  let tokens: string[] = [];
  const onToken = (token: string): void => {
    tokens.push(token);
    if (tokens.length < DETAIL_TOKENS) return;
    const [id = '', name = '', seconds = '', message = ''] = tokens;
    tokens = [];
    details.set(id, {
      id,
      author: startOf(name, AUTHOR_LIMIT),
      committedAtSeconds: Number(seconds),
      message: startOf(message, MESSAGE_LIMIT),
    });
  };
  await git.tokens(gitDirectory, DETAIL_ARGUMENTS, onToken, missing.map((id) => `${id}\n`).join(''));
  return details;
}
