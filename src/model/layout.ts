import { createHash } from 'node:crypto';

import { encodeSegment, foldName, repositoryPath } from './safe-path.ts';
import type { Repository } from './service.ts';

/** A repository path below `mirror/` that is in use. */
export interface OccupiedPath {
  readonly repositoryId: string;
  readonly fullName: string;
  readonly path: string;
}

/** Whether one path is, or lies below, the other, for a reader that sees neither case nor Unicode form. */
function pathsClash(one: string, other: string): boolean {
  const a = foldName(one);
  const b = foldName(other);
  return a === b || a.startsWith(`${b}/`) || b.startsWith(`${a}/`);
}

/** Puts `~` and a mark behind the segment at which the path would meet the other one. */
function markPath(path: string, other: string, mark: string): string {
  const segments = path.split('/');
  const index = Math.min(segments.length, other.split('/').length) - 1;
  return segments.map((segment, at) => (at === index ? `${segment}~${mark}` : segment)).join('/');
}

function byAge(a: Repository, b: Repository): number {
  const ages = (a.createdAt ?? '').localeCompare(b.createdAt ?? '');
  return ages === 0 ? (a.id < b.id ? -1 : 1) : ages;
}

/**
 * Gives every repository its path below `mirror/`. A repository that is mirrored under its present name stays where it
 * is; of two that would meet, the later one gets `~` and the first 8 digits of its id (README, "On disk").
 * @param repositories the repositories that the service lists
 * @param occupied the paths in use; one whose repository is gone gives way to a new repository of the same name
 * @returns path by repository id
 */
export function assignRepositoryPaths(
  repositories: readonly Repository[],
  occupied: readonly OccupiedPath[],
): Map<string, string> {
  const listed = new Map(repositories.map((repository) => [repository.id, repository]));
  const listedNames = new Set(repositories.map((repository) => repository.fullName));
  const assigned = new Map<string, string>();
  const taken: Taken[] = [];
  for (const place of occupied) {
    const repository = listed.get(place.repositoryId);
    if (repository?.fullName === place.fullName && !assigned.has(place.repositoryId)) {
      assigned.set(place.repositoryId, place.path);
    }
    const givesWay = repository === undefined && listedNames.has(place.fullName);
    if (!givesWay) taken.push({ owner: place.repositoryId, path: place.path });
  }
  for (const repository of [...repositories].sort(byAge)) {
    if (assigned.has(repository.id)) continue;
    const path = freePath(repository, taken);
    assigned.set(repository.id, path);
    taken.push({ owner: repository.id, path });
  }
  return assigned;
}

interface Taken {
  readonly owner: string;
  readonly path: string;
}

function freePath(repository: Repository, taken: readonly Taken[]): string {
  const others = taken.filter((each) => each.owner !== repository.id);
  let path = repositoryPath(repository.fullName);
  for (let round = 0; round <= others.length; round += 1) {
    const clash = others.find((other) => pathsClash(path, other.path));
    if (clash === undefined) return path;
    path = markPath(path, clash.path, encodeSegment(repository.id.slice(0, 8)));
  }
  return path;
}

/**
 * Gives a branch its segment below its repository's path.
 * @param taken segments of the repository that are in use, by branch
 */
export function assignBranchSegment(branch: string, taken: ReadonlyMap<string, string>): string {
  const present = taken.get(branch);
  if (present !== undefined) return present;
  const segment = encodeSegment(branch);
  const folded = foldName(segment);
  for (const other of taken.values()) {
    if (foldName(other) === folded) {
      const mark = createHash('sha256').update(branch).digest('hex').slice(0, 8);
      return encodeSegment(branch).slice(0, 200) + `~${mark}`;
    }
  }
  return segment;
}
