import { hash } from 'node:crypto';
import { encodeSegment, foldName, markSegment, repositoryPath } from '../../lib/paths/safe-path.ts';
import { byCodeUnits } from '../store/manifest.ts';
import { branchSegment, type Repository } from '../upstream/listing.ts';
import type { Published } from './record.ts';

/** A tree, and the target that owns its place. */
type PlacedTree = Pick<Published, 'path' | 'repository' | 'branch'>;

/** In the same order on every instance. A tree in its proper place comes first: a copy that someone made must not move it. */
function inOrder(trees: readonly PlacedTree[]): PlacedTree[] {
  const isAway = ({ path, repository, branch }: PlacedTree): number =>
    path === `${repositoryPath(repository.fullName)}/${branchSegment(branch)}` ? 0 : 1;
  return trees.toSorted((a, b) => isAway(a) - isAway(b) || byCodeUnits(a.path, b.path));
}

/** By code units, which sort equally written times correctly: loading the rules of a locale takes 2 MB. */
function byAge(a: Repository, b: Repository): number {
  return byCodeUnits(a.createdAt ?? '', b.createdAt ?? '') || byCodeUnits(a.id, b.id);
}

/**
 * Gives every repository its path below `mirror/`. A repository that is mirrored under its present name stays where it
 * is; if two paths would be equal, the later one gets `~` and the first 8 digits of its id (manual, "On disk").
 * @param trees all existing trees; the place of a gone repository is free for a new repository of the same name
 * @returns path by repository id
 */
export function assignRepositoryPaths(
  repositories: readonly Repository[],
  trees: readonly PlacedTree[],
): Map<string, string> {
  const listed = new Map(repositories.map((repository) => [repository.id, repository]));
  const assigned = new Map<string, string>();
  const claims = new Claims();
  const assign = (id: string, path: string): void => {
    assigned.set(id, path);
    claims.add(path, { owner: id, givesWayTo: null });
  };
  const occupied = inOrder(trees);
  for (const { repository, path } of occupied) {
    const { id, fullName } = repository;
    const isNamedSo = listed.get(id)?.fullName === fullName;
    const place = parentPath(path);
    if (isNamedSo && !assigned.has(id) && claims.clashAt(place, id) === null) assign(id, place);
  }
  const oldestFirst = [...repositories].sort(byAge);
  const heirs = findHeirs(oldestFirst, occupied);
  for (const { repository, path } of occupied) {
    const { id, fullName } = repository;
    const heir = listed.get(id)?.fullName === fullName ? undefined : heirs.get(fullName);
    claims.add(parentPath(path), { owner: id, givesWayTo: heir ?? null });
  }
  const treesById = Map.groupBy(occupied, ({ repository }) => repository.id);
  for (const repository of oldestFirst) {
    const { id } = repository;
    if (!assigned.has(id)) assign(id, freePath(repository, claims, treesById.get(id) ?? []));
  }
  return assigned;
}

/** For each full name the unmirrored repository that takes over a place whose owner no longer has that name. */
function findHeirs(oldestFirst: readonly Repository[], occupied: readonly PlacedTree[]): Map<string, string> {
  const mirrored = new Set(occupied.map(({ repository }) => repository.id));
  const unmirrored = oldestFirst.filter(({ id }) => !mirrored.has(id));
  // The last repository of a name stays in the map.
  return new Map(unmirrored.toReversed().map(({ id, fullName }) => [fullName, id]));
}

interface Claim {
  readonly owner: string;
  /** The id of the repository that may take the path over, because its owner is gone or renamed. */
  readonly givesWayTo: string | null;
}

/** Paths in use, compared without case and Unicode form. The first claim of a path counts, unless it gives way. */
class Claims {
  private readonly paths = new Map<string, Claim>();
  /** Owners of paths below each path. */
  private readonly below = new Map<string, Set<string>>();

  add(path: string, claim: Claim): void {
    const segments = foldName(path).split('/');
    const folded = segments.join('/');
    const present = this.paths.get(folded);
    if (present === undefined || present.givesWayTo !== null) this.paths.set(folded, claim);
    for (let depth = 1; depth < segments.length; depth += 1) {
      const parent = segments.slice(0, depth).join('/');
      const owners = this.below.get(parent);
      if (owners === undefined) this.below.set(parent, new Set([claim.owner]));
      else owners.add(claim.owner);
    }
  }

  /**
   * Whether a path is in use by another repository, or lies below one that is, or above one.
   * @returns the number of segments down to the collision; null if the path is free for the repository
   */
  clashAt(path: string, id: string): number | null {
    const segments = foldName(path).split('/');
    for (let depth = 1; depth < segments.length; depth += 1) {
      const claim = this.paths.get(segments.slice(0, depth).join('/'));
      if (claim !== undefined && claim.owner !== id) return depth;
    }
    const folded = segments.join('/');
    const claim = this.paths.get(folded);
    const isOpen = claim === undefined || claim.owner === id || claim.givesWayTo === id;
    const owners = this.below.get(folded);
    const isAbove = owners !== undefined && (owners.size > 1 || !owners.has(id));
    return isOpen && !isAbove ? null : segments.length;
  }
}

/**
 * Whether trees at a new path would lie inside the repository's own present trees, or around them.
 * @returns as {@link Claims.clashAt}
 */
function clashWithOwn(path: string, ownTrees: readonly PlacedTree[]): number | null {
  const next = ownTrees.map((tree) => foldName(`${path}/${lastSegment(tree.path)}`));
  const clash = ownTrees
    .map((tree) => foldName(tree.path))
    .find((other) => next.some((one) => one.startsWith(`${other}/`) || other.startsWith(`${one}/`)));
  return clash === undefined ? null : Math.min(clash.split('/').length, path.split('/').length);
}

/** A mark may collide with another repository's real name, however unlikely; each round makes the path longer. */
const MAX_ROUNDS = 100;

function freePath(repository: Repository, claims: Claims, ownTrees: readonly PlacedTree[]): string {
  const mark = encodeSegment(repository.id.slice(0, 8));
  let path = repositoryPath(repository.fullName);
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const depth = claims.clashAt(path, repository.id) ?? clashWithOwn(path, ownTrees);
    if (depth === null) break;
    path = path
      .split('/')
      .map((segment, at) => (at === depth - 1 ? markSegment(segment, mark) : segment))
      .join('/');
  }
  return path;
}

/**
 * Gives branches of a repository their segments below its path: if two differ only in case or Unicode form, the later one gets
 * `~` and the first digits of a hash of its name.
 * @param taken the segments in use, by branch, which stay
 */
export function assignBranchSegments(
  branches: readonly string[],
  taken: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const segments = new Map(taken);
  const inUse = new Set([...taken.values()].map(foldName));
  for (const branch of branches) {
    if (segments.has(branch)) continue;
    const plain = branchSegment(branch);
    const digits = hash('sha256', branch);
    let segment = plain;
    for (let length = 8; inUse.has(foldName(segment)) && length <= digits.length; length += 8)
      segment = markSegment(plain, digits.slice(0, length));
    segments.set(branch, segment);
    inUse.add(foldName(segment));
  }
  return segments;
}

/** The repository's part of a target's path. */
export function parentPath(path: string): string {
  return path.slice(0, path.lastIndexOf('/'));
}

/** The branch's part of a target's path. */
export function lastSegment(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
