import { isWorkbookName } from '../../lib/api/media-types.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { Version } from '../http/library.ts';
import type { Git } from './git.ts';
import { EMPTY_TREE, FILE_MODE } from './objects.ts';

/** A workbook at a commit. */
export interface Workbook {
  /**
   * The commit that last changed it, as `git log -1 -- PATH` names it, with the version before. A workbook that is added again after
   * deletion starts over. Git knows no renames: they are a removal and an `add` (service specification, section 2.3).
   */
  readonly version: Version;
  /** Git's mode and id of the file. */
  readonly mode: string;
  readonly blobId: string;
}

/** The workbooks at commits, by path. */
export type WorkbookTables = Map<string, Map<string, Workbook>>;

/**
 * Reads the histories of branches. Each commit is read once, even if several branches share it.
 * @param heads the commits of the branches
 * @param tables has the workbooks at commits that were read before, and afterwards those at the heads
 * @throws MirrorError `service.failed` when git cannot read them
 */
export async function readHistories(
  git: Git,
  gitDirectory: string,
  heads: ReadonlySet<string>,
  tables: WorkbookTables,
): Promise<void> {
  if (heads.size === 0) return tables.clear();
  const range = [...heads, ...[...tables.keys()].map((id) => `^${id}`)].map((line) => `${line}\n`).join('');
  const isFirst = tables.size === 0;
  try {
    const reader = createLogReader(createFold(tables, await countUses(git, gitDirectory, range, heads)));
    await git.tokens(gitDirectory, LOG_ARGUMENTS, reader.onToken, range);
    reader.close();
    // A head before the known ones is not in the range: without its table, its workbooks would look deleted.
    for (const id of heads) if (!tables.has(id)) throw incomplete(id);
    for (const id of tables.keys()) if (!heads.has(id)) tables.delete(id);
  } catch (error) {
    if (isFirst) throw error;
    // A known commit may be gone from the repository, or a branch may be at a commit before one.
    tables.clear();
    await readHistories(git, gitDirectory, heads, tables);
  }
}

/** Counts how many commits need the table of each: its children in the range, and one more for a head. */
async function countUses(git: Git, gitDirectory: string, range: string, heads: ReadonlySet<string>) {
  const uses = new Map([...heads].map((id) => [id, 1]));
  const args = ['rev-list', '--parents', '--stdin'];
  const text = await git.text(gitDirectory, args, { input: range, isLong: true });
  for (const line of text.split('\n'))
    for (const parent of line.split(' ').slice(1)) uses.set(parent, (uses.get(parent) ?? 0) + 1);
  return uses;
}

/** A commit, and the workbooks that differ from its first parent, or all of them if it has none. */
interface Commit extends Pick<Version, 'id' | 'author' | 'createdAt' | 'message'> {
  readonly parents: readonly string[];
  /** Modes and ids of the new files, by path. */
  readonly changes: ReadonlyMap<string, Pick<Workbook, 'mode' | 'blobId'>>;
}

/**
 * Makes the table of a commit from those of its parents. A workbook is as in the first parent that holds the same file, and has that
 * parent's version. Where no parent does, the commit is the version, and its previous version comes from the first parent that has a
 * file of this name.
 * @param tables has the tables of all parents, and gets the table of the commit; one that no other commit needs is dropped
 */
function createFold(tables: WorkbookTables, uses: Map<string, number>) {
  /** Whether no other commit needs the table of a parent any more. */
  const isLastUse = (id: string): boolean => {
    const left = (uses.get(id) ?? 0) - 1;
    uses.set(id, left);
    return left === 0 && tables.delete(id);
  };
  return ({ id, parents: parentIds, changes, ...facts }: Commit): void => {
    const parents = parentIds.map((parent) => {
      const table = tables.get(parent);
      if (table === undefined) throw incomplete(parent);
      return table;
    });
    const updates = [...changes].map(([path, file]) => {
      const before = parents.flatMap((table) => table.get(path) ?? []);
      const same = before.find(({ mode, blobId }) => mode === file.mode && blobId === file.blobId);
      // The specification says that `parent.id` is a string.
      const parentId = before[0]?.version.id ?? EMPTY_TREE;
      const action = before.length === 0 ? 'add' : 'modify';
      return [path, same ?? { version: { id, action, parentId, ...facts }, ...file }] as const;
    });
    const [first = new Map<string, Workbook>()] = parents;
    const [isFree = true] = parentIds.map(isLastUse);
    const table = isFree ? first : new Map(first);
    for (const [path, workbook] of updates)
      if (FILE_MODE.test(workbook.mode)) table.set(path, workbook);
      else table.delete(path);
    tables.set(id, table);
  };
}

function incomplete(commitId: string): MirrorError {
  return new MirrorError('service.failed', `the history of commit ${commitId} is incomplete`);
}

/**
 * Lists commits, each after all of its parents, with their differences from the first one. A commit has a token for each part of the
 * format; two tokens follow for a changed path: `:<mode> <mode> <id> <id> <letter>`, after a line feed for the first one, and the path.
 */
const LOG_ARGUMENTS = [
  'log',
  '--stdin',
  '--topo-order',
  '--reverse',
  '--diff-merges=first-parent',
  '--root',
  '--raw',
  '-z',
  '--no-abbrev',
  '--no-renames',
  '--no-color',
  '--encoding=UTF-8',
  '--format=tformat:%H%x00%P%x00%an%x00%ct%x00%B',
] as const;
const COMMIT_TOKENS = 5;

/** Longest part of a message that is kept, in characters: it can have any length, and the list repeats it for each workbook of the commit. */
const MESSAGE_LIMIT = 64 * 1024;
const AUTHOR_LIMIT = 1024;

/** Makes a reader of the NUL-terminated tokens of `git log` with {@link LOG_ARGUMENTS}. */
function createLogReader(onCommit: (commit: Commit) => void) {
  let head: string[] = [];
  let change = '';
  let changes = new Map<string, Pick<Workbook, 'mode' | 'blobId'>>();

  function endCommit(): void {
    const [id = '', parents = '', author = '', seconds = '', message = ''] = head;
    if (id !== '')
      onCommit({
        id,
        parents: parents === '' ? [] : parents.split(' '),
        author: author.slice(0, AUTHOR_LIMIT).toWellFormed(),
        createdAt: formatVersionTime(Number(seconds)),
        message: message.slice(0, MESSAGE_LIMIT).toWellFormed(),
        changes,
      });
    head = [];
    changes = new Map();
  }

  return {
    onToken: (token: string): void => {
      if (change !== '') {
        const [, mode = '', , blobId = ''] = change.split(' ');
        if (isWorkbookName(token)) changes.set(token, { mode, blobId });
        change = '';
      } else if (head.length === COMMIT_TOKENS && /^\n?:/.test(token)) change = token;
      else {
        if (head.length === COMMIT_TOKENS) endCommit();
        head.push(token);
      }
    },
    /** Ends the last commit. */
    close: endCommit,
  };
}

/** The last second that is written with four digits of the year, as ISO 8601 has them, in seconds since 1970. */
const LAST_SECOND = Date.UTC(9999, 11, 31, 23, 59, 59) / 1000;

/**
 * Writes an instant as v1 does: no fraction (section 2.3). A commit may claim any time, or none: a time that cannot be written becomes
 * the nearest one that can; no number becomes 1970, as git shows it.
 * @param seconds whole seconds since 1970
 */
export function formatVersionTime(seconds: number): string {
  const written = Number.isNaN(seconds) ? 0 : Math.min(Math.max(seconds, 0), LAST_SECOND);
  return new Date(written * 1000).toISOString().replace('.000Z', '+00:00');
}
