import { setImmediate as othersFirst } from 'node:timers/promises';

import { shareWork } from '../../lib/concurrency/shared-work.ts';
import type { WorkbookRow } from '../http/library.ts';
import { RequestError } from '../../lib/http/request-error.ts';
import { type BranchReader, createBranchReader, type Heads } from './branch-reader.ts';
import type { Git } from './git.ts';
import { createHistoryReader, type HistoryReader } from './history.ts';
import { mergeRows, type Piece, readRows } from './rows.ts';
import type { Registry } from './registry.ts';
import type { RegisteredRepository } from './registry-index.ts';

/** Told of a repository when it cannot be read any more, and when it can be again. */
export type ReadingEvent = { readonly repository: RegisteredRepository } & (
  | { readonly kind: 'unreadable'; readonly error: unknown }
  | { readonly kind: 'readable' }
);

interface RepositoryRows extends Piece {
  readonly heads: Heads;
}

/** So many repositories are looked at before others get their turn: about two milliseconds. */
const REPOSITORIES_AT_ONCE = 100;

/** Lists the workbooks of all repositories, and remembers what it has read. */
export function createWorkbookListing(
  git: Git,
  registry: Pick<Registry, 'list' | 'gitDirectory'>,
  branches: BranchReader = createBranchReader(git),
  onEvent: (event: ReadingEvent) => void = () => {},
) {
  const histories = new Map<string, HistoryReader>();
  const pieces = new Map<string, RepositoryRows>();
  const tolerant = createTolerance((id) => pieces.get(id), onEvent);
  let latest: { readonly pieces: readonly Piece[]; readonly rows: readonly WorkbookRow[] } = {
    pieces: [],
    rows: [],
  };

  async function pieceOf({ id, full_name }: RegisteredRepository): Promise<Piece> {
    const heads = await branches.heads(registry.gitDirectory(id));
    const prefix = `${full_name}/`;
    const known = pieces.get(id);
    if (known?.heads === heads && known.prefix === prefix) return known;
    const reader = histories.get(id) ?? createHistoryReader(git, registry.gitDirectory(id));
    histories.set(id, reader);
    const piece = { prefix, heads, rows: await readRows(reader, full_name, heads) };
    pieces.set(id, piece);
    return piece;
  }

  async function readPieces(repositories: readonly RegisteredRepository[]): Promise<Piece[]> {
    const reads: Array<Promise<Piece>> = [];
    for (const repository of repositories) {
      const read = tolerant.read(repository, pieceOf);
      // It is awaited below; what fails meanwhile is not unheard.
      read.catch(() => undefined);
      reads.push(read);
      if (reads.length % REPOSITORIES_AT_ONCE === 0) await othersFirst();
    }
    return Promise.all(reads);
  }

  function forgetOthers(repositories: readonly RegisteredRepository[]): void {
    const ids = new Set(repositories.map(({ id }) => id));
    for (const known of [histories, pieces])
      for (const id of known.keys()) if (!ids.has(id)) known.delete(id);
    tolerant.keepOnly(ids);
    branches.keepOnly(new Set(repositories.map(({ id }) => registry.gitDirectory(id))));
  }

  async function readAll(): Promise<readonly WorkbookRow[]> {
    const repositories = registry.list();
    const read = await readPieces(repositories);
    const isSame =
      read.length === latest.pieces.length && read.every((piece, index) => piece === latest.pieces[index]);
    if (!isSame) {
      latest = { pieces: read, rows: mergeRows(read) };
      forgetOthers(repositories);
    }
    return latest.rows;
  }

  return {
    /**
     * All rows as they are at the moment of the call, sorted by id and branch; the same array as long as no branch has moved. Of a
     * repository that cannot be read they are those of when it could be.
     * @throws RequestError 503 when there are none of such a repository: without them the list would pass for a whole one
     */
    rows: shareWork(readAll),
    /** Ids of the repositories that could not be read the last time. */
    unreadable: tolerant.unreadable,
  };
}

/**
 * Reads repositories one of which may be damaged, without a harm to the list of all others.
 * @param lastOf gives what was read of a repository the last time
 */
function createTolerance(lastOf: (id: string) => Piece | undefined, onEvent: (event: ReadingEvent) => void) {
  const unreadable = new Set<string>();
  const absent = new Map<string, Piece>();

  function instead({ id, full_name, cloned, damaged }: RegisteredRepository): Piece {
    const last = lastOf(id);
    if (last !== undefined) return last;
    if (cloned || damaged === true) throw unlisted(full_name);
    // It never was there: nobody has its workbooks on a list.
    const nothing = absent.get(id) ?? { prefix: `${full_name}/`, rows: [] };
    absent.set(id, nothing);
    return nothing;
  }

  return {
    /**
     * Reads a repository; gives what was read the last time where it cannot be.
     * @throws RequestError 503 where nothing was
     */
    async read(
      repository: RegisteredRepository,
      pieceOf: (repository: RegisteredRepository) => Promise<Piece>,
    ): Promise<Piece> {
      const { id } = repository;
      try {
        const piece = await pieceOf(repository);
        if (unreadable.delete(id)) onEvent({ kind: 'readable', repository });
        return piece;
      } catch (error) {
        if (!unreadable.has(id)) onEvent({ kind: 'unreadable', repository, error });
        unreadable.add(id);
        return instead(repository);
      }
    },
    unreadable: (): ReadonlySet<string> => unreadable,
    keepOnly(ids: ReadonlySet<string>): void {
      for (const known of [unreadable, absent])
        for (const id of known.keys()) if (!ids.has(id)) known.delete(id);
    },
  };
}

function unlisted(fullName: string): RequestError {
  const message = `the workbooks of ${fullName} cannot be read, and the list is not given without them`;
  return new RequestError(503, 'incomplete', message);
}
