import { hash } from 'node:crypto';
import { encodeSegment, foldName, markSegment, repositoryPath } from '../../lib/paths/safe-path.ts';
import { latestFirst } from '../../lib/time/wrong-clock.ts';
import { byCodeUnits } from '../store/manifest.ts';
import { branchSegment, HEAD_BRANCH, type Listing, type Repository, targetKey } from '../upstream/listing.ts';
import type { ActionSubject, PlanInput } from './actions.ts';
import { type Published, targetOf } from './record.ts';
import { owns, type Selection } from './selection.ts';
import { groupRows, isSettled, type RepositoryRows, rowsByRepository, targetDigest } from './workbooks.ts';

/** A target, with everything that the plan needs to decide on it. */
export interface Candidate extends Omit<ActionSubject, 'moveFrom' | 'deselection'> {
  /**
   * - `listed`: the service lists its repository.
   * - `gone`: a tree whose repository the service does not list.
   * - `moved`: a tree on this instance's own disk that another instance mirrors now.
   * - `duplicate`: a second tree of a target, left by a copy or by a move that was not recognised.
   */
  readonly kind: 'listed' | 'gone' | 'moved' | 'duplicate';
  readonly selected: boolean;
  /** Whether the settings name this very target, so that its absence is a failure. */
  readonly isRequired: boolean;
  /** For the branch `HEAD`: whether a named branch of its repository is known, and whether one is mirrored. */
  readonly superseded: 'no' | 'known' | 'published';
  /** Whether a row names its branch. */
  readonly isNamed: boolean;
  /** Whether the service has finished processing the rows on its branch. */
  readonly isSettled: boolean;
  /** Whether a target that is gone still has rows in the list of workbooks, under a name that no other repository has now. */
  readonly isContradicted: boolean;
}

/**
 * Everything that is, was or should be mirrored: the branches that versions name, the mirrored ones and the configured
 * ones; `HEAD` if no branch of a repository is known (manual, "On disk").
 */
export function findCandidates(facts: PlanInput): Candidate[] {
  const { listing, published, others, shard, policy } = facts;
  const { selection } = policy;
  const paths = assignRepositoryPaths(listing.repositories, [...published, ...others]);
  const treesByRepository = Map.groupBy(published, (tree) => tree.repository.id);
  const rows = rowsByName(listing);
  const candidates = listing.repositories
    .filter(({ id }) => owns(shard, id))
    .flatMap((repository) =>
      candidatesOf(
        repository,
        paths.get(repository.id) ?? repository.id,
        treesByRepository.get(repository.id) ?? [],
        rows(repository.fullName),
        facts,
      ),
    );
  const known = new Set(candidates.map(({ target }) => targetKey(target)));
  const listedIds = new Set(listing.repositories.map(({ id }) => id));
  const listedNames = new Set(listing.repositories.map(({ fullName }) => fullName));
  const gone = published
    .filter((tree) => !known.has(targetKey(targetOf(tree))))
    .map((tree) => {
      const { id, fullName } = tree.repository;
      const ofName = rows(fullName);
      const isContradicted = (ofName?.byBranch.size ?? 0) > 0 && !listedNames.has(fullName);
      // All trees of a listed repository of this share are among the candidates, or duplicates of them.
      const kind = listedIds.has(id) ? 'moved' : 'gone';
      return treeCandidate(kind, tree, ofName, selection, isContradicted);
    });
  return [...candidates, ...gone];
}

/** Makes a function that gives the rows of a repository; null if the service has no list of workbooks. */
function rowsByName({ workbooks }: Listing): (fullName: string) => RepositoryRows | null {
  if (workbooks === null) return () => null;
  const byName = rowsByRepository(workbooks);
  return (fullName) => byName.get(fullName) ?? groupRows([]);
}

/** A tree whose target the service does not list, or a duplicate. */
function treeCandidate(
  kind: Exclude<Candidate['kind'], 'listed'>,
  tree: Published,
  rows: RepositoryRows | null,
  selection: Selection,
  isContradicted = false,
): Candidate {
  const { repository, branch, path } = tree;
  return {
    kind,
    target: targetOf(tree),
    repository,
    path,
    published: tree,
    selected: selection.selects(repository.fullName, branch),
    isRequired: false,
    superseded: 'no',
    ...listedFacts(rows, branch, tree),
    isContradicted,
  };
}

function listedFacts(
  rows: RepositoryRows | null,
  branch: string,
  tree: Published | null,
): Pick<Candidate, 'fingerprint' | 'isNamed' | 'isSettled'> {
  if (rows === null) return { fingerprint: null, isNamed: false, isSettled: true };
  return {
    fingerprint: targetDigest(rows, branch, tree?.borrowed),
    isNamed: rows.byBranch.has(branch),
    isSettled: isSettled(rows, branch),
  };
}

function candidatesOf(
  repository: Repository,
  path: string,
  trees: readonly Published[],
  rows: RepositoryRows | null,
  { policy: { selection }, nowMs }: PlanInput,
): Candidate[] {
  const { id: repositoryId, fullName } = repository;
  const configured = selection.configuredBranches(fullName);
  const chosen = chooseTrees(trees, path, nowMs);
  const named = new Set([
    ...(rows?.byBranch.keys() ?? []),
    ...configured.map(({ branch }) => branch),
    ...chosen.keys(),
  ]);
  named.delete(HEAD_BRANCH);
  const isMirrored = (branch: string): boolean =>
    chosen.get(branch)?.treePresent === true && selection.selects(fullName, branch);
  const headIs = named.size === 0 ? 'no' : [...named].some(isMirrored) ? 'published' : 'known';
  const branches = [...named].sort();
  if (headIs === 'no' || chosen.has(HEAD_BRANCH)) branches.push(HEAD_BRANCH);
  const taken = new Map([...chosen].map(([branch, tree]) => [branch, lastSegment(tree.path)]));
  const segments = assignBranchSegments(branches, taken);
  const candidateOf = (branch: string): Candidate => ({
    kind: 'listed',
    target: { repositoryId, branch },
    repository,
    path: `${path}/${segments.get(branch) ?? ''}`,
    published: chosen.get(branch) ?? null,
    selected: selection.selects(fullName, branch),
    // The first setting for a branch counts.
    isRequired: configured.find((each) => each.branch === branch)?.required === true,
    superseded: branch === HEAD_BRANCH ? headIs : 'no',
    ...listedFacts(rows, branch, chosen.get(branch) ?? null),
    isContradicted: false,
  });
  const duplicates = trees.filter((tree) => {
    const counting = chosen.get(tree.branch);
    return tree.treePresent && counting !== tree && counting?.treePresent === true;
  });
  return [
    ...branches.map(candidateOf),
    ...duplicates.map((tree) => treeCandidate('duplicate', tree, null, selection)),
  ];
}

/** The tree that counts for each branch: the one in its proper place; if there are several or none, the one verified last. */
function chooseTrees(
  trees: readonly Published[],
  assignedPath: string,
  nowMs: number,
): ReadonlyMap<string, Published> {
  const rank = (tree: Published): number =>
    (tree.treePresent ? 4 : 0) +
    (parentPath(tree.path) === assignedPath ? 2 : 0) +
    (lastSegment(tree.path) === branchSegment(tree.branch) ? 1 : 0);
  const byTime = latestFirst(nowMs);
  const bestFirst = trees.toSorted((a, b) => rank(b) - rank(a) || byTime(a.verifiedAtMs, b.verifiedAtMs));
  return new Map(bestFirst.toReversed().map((tree) => [tree.branch, tree]));
}

/** A tree, and the target that owns its place. */
type PlacedTree = Pick<Published, 'path' | 'repository' | 'branch'>;

/**
 * The trees in the same order on every instance, so that all give colliding names the same mark. A tree in its proper place
 * comes first: otherwise a copy that someone made would move it.
 */
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
  const heirs = new Map<string, string>();
  for (const { id, fullName } of oldestFirst) {
    if (!mirrored.has(id) && !heirs.has(fullName)) heirs.set(fullName, id);
  }
  return heirs;
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

/** Whether trees at a new path would lie inside the repository's own present trees, or around them. */
function nestsInOwn(path: string, ownTrees: readonly PlacedTree[]): boolean {
  const present = ownTrees.map((tree) => foldName(tree.path));
  const next = ownTrees.map((tree) => foldName(`${path}/${lastSegment(tree.path)}`));
  return next.some((one) =>
    present.some((other) => one.startsWith(`${other}/`) || other.startsWith(`${one}/`)),
  );
}

/** A mark may collide with another repository's real name, however unlikely; each round makes the path longer. */
const MAX_ROUNDS = 100;

function freePath(repository: Repository, claims: Claims, ownTrees: readonly PlacedTree[]): string {
  const mark = encodeSegment(repository.id.slice(0, 8));
  let path = repositoryPath(repository.fullName);
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const isInOwn = nestsInOwn(path, ownTrees);
    const depth = claims.clashAt(path, repository.id) ?? (isInOwn ? path.split('/').length : null);
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
function parentPath(path: string): string {
  return path.slice(0, path.lastIndexOf('/'));
}

/** The branch's part of a target's path. */
function lastSegment(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
