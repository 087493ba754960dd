import { repositorySchema } from '../../lib/api/schemas.ts';
import type { Repository } from './listing.ts';

/** What the rows of the list of repositories say. */
export interface RepositoryRows {
  readonly repositories: readonly Repository[];
  /** False when rows could not be understood or contradict each other, so that absence proves nothing. */
  readonly isComplete: boolean;
  /** A sentence each. */
  readonly problems: readonly string[];
}

/**
 * Reads the rows one by one, so that one bad row hides no other. Of rows that give one id different names none counts:
 * to believe the wrong one would move a tree. Nothing is lost by that, as such a list proves nobody's absence.
 */
export function readRows(rows: readonly unknown[]): RepositoryRows {
  const byId = new Map<string, Repository>();
  const contradicted = new Set<string>();
  let malformed = 0;
  for (const row of rows) {
    const repository = readRow(row);
    if (repository === null) {
      malformed += 1;
      continue;
    }
    const before = byId.get(repository.id);
    if (before !== undefined && !isSameName(before, repository)) contradicted.add(repository.id);
    if (before === undefined || facts(repository) < facts(before)) byId.set(repository.id, repository);
  }
  return {
    repositories: [...byId.values()].filter(({ id }) => !contradicted.has(id)),
    isComplete: malformed === 0 && contradicted.size === 0,
    problems: [
      ...(malformed === 0 ? [] : [`${malformed} rows of the list of repositories are malformed`]),
      ...[...contradicted].map(
        (id) => `the list of repositories gives ${JSON.stringify(id)} several names, of which none counts`,
      ),
    ],
  };
}

/** Longer than any path that a file system takes (Linux, PATH_MAX) or a server does in an address (RFC 9110, 4.1). */
const MAX_NAME_LENGTH = 4096;

/** Control characters in an id would make the keys of two targets one. */
const CONTROL = /\p{Cc}/u;

function readRow(row: unknown): Repository | null {
  const parsed = repositorySchema.safeParse(row);
  if (!parsed.success) return null;
  const { id, name, full_name: fullName, url, created_at: createdAt } = parsed.data;
  if ([id, name, fullName].some((text) => text.length > MAX_NAME_LENGTH) || CONTROL.test(id)) return null;
  return { id, name, fullName, url: url ?? null, createdAt: createdAt ?? null };
}

function isSameName(one: Repository, other: Repository): boolean {
  return one.name === other.name && one.fullName === other.fullName;
}

/** Chooses between rows of one name the same one in whatever order they come. */
function facts(repository: Repository): string {
  return JSON.stringify([repository.url, repository.createdAt]);
}
