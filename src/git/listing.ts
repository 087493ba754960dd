import { setImmediate as othersFirst } from 'node:timers/promises';

import type { WorkbookRow } from '../service/library.ts';
import { type BranchReader, createBranchReader, type Heads } from './branch-reader.ts';
import type { Git } from './git.ts';
import { createHistoryReader, type HistoryReader } from './history.ts';
import { mergeRows, type Piece } from './merge-rows.ts';
import type { Registry } from './registry.ts';
import type { RegisteredRepository } from './registry-index.ts';
import { readRows } from './repository-rows.ts';
import { createShared } from './share.ts';

/** The workbooks of all repositories. */
export interface WorkbookListing {
  /**
   * All rows as they are at the moment of the call, sorted by id and branch; the same array as long as no branch has moved.
   * @throws MirrorError `service.failed` when a repository cannot be read
   */
  readonly rows: () => Promise<readonly WorkbookRow[]>;
}

interface RepositoryRows extends Piece {
  readonly heads: Heads;
}

/** So many repositories are looked at before others get their turn: about two milliseconds. */
const REPOSITORIES_AT_ONCE = 100;

/** Makes a listing that remembers what it has read. */
export function createWorkbookListing(
  git: Git,
  registry: Registry,
  branches: BranchReader = createBranchReader(git),
): WorkbookListing {
  const histories = new Map<string, HistoryReader>();
  const pieces = new Map<string, RepositoryRows>();
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
      const read = pieceOf(repository);
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

  return { rows: createShared(readAll) };
}
