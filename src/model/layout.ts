import { createHash } from 'node:crypto';

import { encodeSegment, foldName, markSegment, repositoryPath } from './safe-path.ts';
import type { Repository } from './service.ts';

/** A repository path below `mirror/` that is in use. */
export interface OccupiedPath {
  readonly repositoryId: string;
  readonly fullName: string;
  readonly path: string;
}

function byAge(a: Repository, b: Repository): number {
  const ages = (a.createdAt ?? '').localeCompare(b.createdAt ?? '');
  return ages === 0 ? (a.id < b.id ? -1 : 1) : ages;
}

/**
 * Gives every repository its path below `mirror/`. A repository that is mirrored under its present name stays where it
 * is; of two that would meet, the later one gets `~` and the first 8 digits of its id (README, "On disk").
 * @param repositories the repositories that the service lists
 * @param occupied the paths in use; that of a gone repository gives way to a new repository of the same name
 * @returns path by repository id
 */
export function assignRepositoryPaths(
  repositories: readonly Repository[],
  occupied: readonly OccupiedPath[],
): Map<string, string> {
  const listed = new Map(repositories.map((repository) => [repository.id, repository]));
  const names = new Set(repositories.map((repository) => repository.fullName));
  const assigned = new Map<string, string>();
  const claims = new Claims();
  for (const { repositoryId, fullName, path } of occupied) {
    const repository = listed.get(repositoryId);
    if (repository?.fullName !== fullName || assigned.has(repositoryId)) continue;
    if (claims.clashAt(path, repository) !== null) continue;
    assigned.set(repositoryId, path);
    claims.add(path, { owner: repositoryId, givesWayTo: null });
  }
  for (const { repositoryId, fullName, path } of occupied) {
    const givesWay = !listed.has(repositoryId) && names.has(fullName);
    claims.add(path, { owner: repositoryId, givesWayTo: givesWay ? fullName : null });
  }
  for (const repository of [...repositories].sort(byAge)) {
    if (assigned.has(repository.id)) continue;
    const path = freePath(repository, claims);
    assigned.set(repository.id, path);
    claims.add(path, { owner: repository.id, givesWayTo: null });
  }
  return assigned;
}

interface Claim {
  readonly owner: string;
  /** The full name of the repository that may take the path over, as its owner is gone. */
  readonly givesWayTo: string | null;
}

/** Paths in use, as a reader sees them that knows neither case nor Unicode form. The first claim of a path counts, unless it gives way. */
class Claims {
  private readonly paths = new Map<string, Claim>();
  private readonly parents = new Set<string>();

  add(path: string, claim: Claim): void {
    const segments = foldName(path).split('/');
    const folded = segments.join('/');
    const present = this.paths.get(folded);
    if (present === undefined || present.givesWayTo !== null) this.paths.set(folded, claim);
    for (let depth = 1; depth < segments.length; depth += 1)
      this.parents.add(segments.slice(0, depth).join('/'));
  }

  /**
   * Whether a path is in use, or lies below one that is, or above one.
   * @returns how many segments down the two meet; null when the path is free for the repository
   */
  clashAt(path: string, repository: Pick<Repository, 'id' | 'fullName'>): number | null {
    const segments = foldName(path).split('/');
    for (let depth = 1; depth < segments.length; depth += 1) {
      if (this.paths.has(segments.slice(0, depth).join('/'))) return depth;
    }
    const folded = segments.join('/');
    const claim = this.paths.get(folded);
    const isOpen =
      claim === undefined || claim.owner === repository.id || claim.givesWayTo === repository.fullName;
    return isOpen && !this.parents.has(folded) ? null : segments.length;
  }
}

/** Marks may meet other repositories' real names, however unlikely; each round makes the path longer. */
const MAX_ROUNDS = 100;

function freePath(repository: Repository, claims: Claims): string {
  const mark = encodeSegment(repository.id.slice(0, 8));
  let path = repositoryPath(repository.fullName);
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const depth = claims.clashAt(path, repository);
    if (depth === null) break;
    path = path
      .split('/')
      .map((segment, at) => (at === depth - 1 ? markSegment(segment, mark) : segment))
      .join('/');
  }
  return path;
}

/**
 * Gives a branch its segment below its repository's path: of two that differ only in case or Unicode form, the later one
 * gets `~` and the first digits of a hash of its name.
 * @param taken segments of the repository that are in use, by branch
 */
export function assignBranchSegment(branch: string, taken: ReadonlyMap<string, string>): string {
  const present = taken.get(branch);
  if (present !== undefined) return present;
  const inUse = new Set([...taken.values()].map(foldName));
  const digits = createHash('sha256').update(branch).digest('hex');
  let segment = encodeSegment(branch);
  for (let length = 8; inUse.has(foldName(segment)) && length <= digits.length; length += 8) {
    segment = markSegment(encodeSegment(branch), digits.slice(0, length));
  }
  return segment;
}
