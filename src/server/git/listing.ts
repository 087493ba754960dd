import { setImmediate as othersFirst } from 'node:timers/promises';

import { Places } from '../../lib/concurrency/concurrency.ts';
import { shareWork } from '../../lib/concurrency/shared-work.ts';
import { RequestError } from '../../lib/http/request.ts';
import { byCodeUnits } from '../../mirror/store/manifest.ts';
import { workbookKindOf } from '../checker/checker.ts';
import type { WorkbookRow } from '../http/library.ts';
import type { Git } from './git.ts';
import { readHistories, type WorkbookTables } from './history.ts';
import { type Heads, readHeads } from './refs.ts';
import type { Registry } from './repositories.ts';
import type { RegisteredRepository } from './repository-index.ts';
import { reasonOf, type Tell } from './tell.ts';

/** Sorted by id, then by branch. */
type Rows = readonly WorkbookRow[];

/** The last reading of a repository. */
interface Known {
  readonly heads: Heads;
  readonly rows: Rows;
  readonly tables: WorkbookTables;
}

/** Number of repositories read at once: reading a long history keeps a processor busy for seconds. */
const REPOSITORIES_AT_ONCE = 2;

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
  const unreadable = new Set<string>();
  let latest: { readonly pieces: readonly Rows[]; readonly rows: Rows } = { pieces: [], rows: [] };

  async function read({ id, full_name }: RegisteredRepository): Promise<void> {
    const gitDirectory = registry.gitDirectory(id);
    const heads = await readHeads(git, gitDirectory);
    const before = known.get(id);
    if (before !== undefined && areEqual(before.heads, heads)) return;
    const tables: WorkbookTables = before?.tables ?? new Map();
    await readHistories(git, gitDirectory, new Set(heads.values()), tables);
    known.set(id, { heads, rows: await makeRows(tables, full_name, heads), tables });
  }

  /** Reads a repository. If it is unreadable, returns the last reading. */
  async function rowsOf(repository: RegisteredRepository): Promise<Rows> {
    const { id, full_name, cloned } = repository;
    if (!cloned) return NO_ROWS;
    try {
      await read(repository);
      if (unreadable.delete(id)) tell(`${full_name}: its workbooks can be read again.`);
    } catch (error) {
      const message = `${full_name}: its workbooks cannot be read: ${reasonOf(error)}. They are listed as they were, as being processed.`;
      if (!unreadable.has(id)) tell(message, 'error');
      unreadable.add(id);
    }
    const rows = known.get(id)?.rows;
    if (rows !== undefined) return rows;
    // Leaving its rows out would look like deletion.
    const message = `the workbooks of ${full_name} cannot be read, and the list is not given without them`;
    throw new RequestError(503, 'incomplete', message);
  }

  async function readAll(): Promise<Rows> {
    const pieces = await Promise.all(
      registry.list().map((repository) => places.run(() => rowsOf(repository))),
    );
    // Repositories are added, and never removed.
    const isSame = pieces.every((piece, index) => piece === latest.pieces[index]);
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
    unreadable: (): ReadonlySet<string> => unreadable,
  };
}

/** The same array each time, so that it is not taken for a change. */
const NO_ROWS: Rows = [];

function compareRows(left: WorkbookRow, right: WorkbookRow): number {
  return byCodeUnits(left.id, right.id) || byCodeUnits(left.branch, right.branch);
}

function areEqual(left: Heads, right: Heads): boolean {
  return left.size === right.size && [...left].every(([branch, head]) => right.get(branch) === head);
}

/** Every few milliseconds, other work has its turn. */
const ROWS_AT_ONCE = 1000;

/** Makes the rows of one repository. Branches share the version of a workbook. */
async function makeRows(tables: WorkbookTables, integration: string, heads: Heads): Promise<Rows> {
  const branches = [...heads]
    .sort(([left], [right]) => byCodeUnits(left, right))
    .map(([branch, head]) => ({ branch, table: tables.get(head) }));
  const paths = new Set<string>();
  for (const table of tables.values()) for (const path of table.keys()) paths.add(path);
  const rows: WorkbookRow[] = [];
  let turnAt = 0;
  for (const path of [...paths].sort(byCodeUnits)) {
    if (rows.length >= turnAt) {
      await othersFirst();
      turnAt = rows.length + ROWS_AT_ONCE;
    }
    const id = `${integration}/${path}`;
    const kind = workbookKindOf(path);
    for (const { branch, table } of branches) {
      const found = table?.get(path);
      if (found === undefined) continue;
      const { version, blobId } = found;
      rows.push({ id, integration, branch, path, version, contentKey: `${blobId} ${kind}` });
    }
  }
  return rows;
}
