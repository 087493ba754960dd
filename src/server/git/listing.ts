import { Places } from '../../lib/concurrency/concurrency.ts';
import { shareWork } from '../../lib/concurrency/shared-work.ts';
import { RequestError } from '../../lib/http/request.ts';
import type { WorkbookRow } from '../http/library.ts';
import type { Git } from './git.ts';
import { createHistoryReader, type HistoryReader } from './history.ts';
import { type Heads, readHeads } from './refs.ts';
import type { Registry } from './repositories.ts';
import type { RegisteredRepository } from './repository-index.ts';
import { compareRows, makeRows } from './rows.ts';
import { reasonOf, type Tell } from './tell.ts';

/** Sorted by {@link compareRows}. */
type Rows = readonly WorkbookRow[];

/** The last known state of a repository. */
interface Known {
  readonly histories: HistoryReader;
  /** Its branches and rows at the last reading; null if never read. */
  piece: { readonly heads: Heads; readonly rows: Rows } | null;
  isUnreadable: boolean;
}

/** Number of repositories read at once: reading a long history keeps a processor busy for seconds. */
const REPOSITORIES_AT_ONCE = 2;

function areEqual(left: Heads, right: Heads): boolean {
  return left.size === right.size && [...left].every(([branch, head]) => right.get(branch) === head);
}

/**
 * Lists the workbooks of all repositories, and remembers what it has read.
 * @param tell receives a message when a repository becomes unreadable, and when it is readable again
 */
export function createWorkbookListing(
  git: Git,
  registry: Pick<Registry, 'list' | 'gitDirectory'>,
  tell: Tell = () => {},
) {
  const places = new Places(REPOSITORIES_AT_ONCE);
  const known = new Map<string, Known>();
  let latest: { readonly pieces: readonly Rows[]; readonly rows: Rows } = { pieces: [], rows: [] };

  async function refresh(entry: Known, { id, full_name }: RegisteredRepository): Promise<void> {
    const heads = await readHeads(git, registry.gitDirectory(id));
    if (entry.piece !== null && areEqual(entry.piece.heads, heads)) return;
    entry.piece = { heads, rows: await makeRows(await entry.histories.read(heads), full_name, heads) };
  }

  /** Reads a repository. If it is unreadable, returns the last reading; null if it was never cloned. */
  async function rowsOf(repository: RegisteredRepository): Promise<Rows | null> {
    const { id, full_name, cloned } = repository;
    const histories = known.get(id)?.histories ?? createHistoryReader(git, registry.gitDirectory(id));
    const entry = known.get(id) ?? { histories, piece: null, isUnreadable: false };
    known.set(id, entry);
    try {
      await refresh(entry, repository);
      if (entry.isUnreadable) tell(`${full_name}: its workbooks can be read again.`);
      entry.isUnreadable = false;
    } catch (error) {
      if (!entry.isUnreadable)
        tell(
          `${full_name}: its workbooks cannot be read: ${reasonOf(error)}. They are listed as they were, as being processed; ` +
            'if that is no longer known, no list is given.',
          'error',
        );
      entry.isUnreadable = true;
      // Leaving its rows out would look like deletion. A repository that was never cloned had no rows.
      if (entry.piece === null && cloned) {
        const message = `the workbooks of ${full_name} cannot be read, and the list is not given without them`;
        throw new RequestError(503, 'incomplete', message);
      }
    }
    return entry.piece?.rows ?? null;
  }

  async function readAll(): Promise<Rows> {
    const repositories = registry.list();
    const ids = new Set(repositories.map(({ id }) => id));
    for (const id of known.keys()) if (!ids.has(id)) known.delete(id);
    const read = await Promise.all(repositories.map((repository) => places.run(() => rowsOf(repository))));
    const pieces = read.filter((piece) => piece !== null);
    const isSame =
      pieces.length === latest.pieces.length &&
      pieces.every((piece, index) => piece === latest.pieces[index]);
    // Rows of each repository are in order already: sorting that is fast.
    if (!isSame) latest = { pieces, rows: pieces.flat().sort(compareRows) };
    return latest.rows;
  }

  return {
    /**
     * All rows as they are at the moment of the call, sorted by id and branch; the same array as long as no branch has moved. Rows of an
     * unreadable repository are those of its last reading.
     * @throws RequestError 503 if an unreadable repository has no known rows: an incomplete list would look like deletions
     */
    rows: shareWork(readAll),
    /** Ids of the repositories that were unreadable at the last reading. */
    unreadable: (): ReadonlySet<string> =>
      new Set([...known].filter(([, { isUnreadable }]) => isUnreadable).map(([id]) => id)),
  };
}
