import { foldName } from '../../lib/paths/safe-path.ts';
import { latestFirst } from '../../lib/time/wrong-clock.ts';
import { branchSegment, HEAD_BRANCH, type Listing, type Repository, targetKey } from '../upstream/listing.ts';
import type { ActionSubject, PlanInput } from './actions.ts';
import { assignBranchSegments, assignRepositoryPaths, lastSegment, parentPath } from './paths.ts';
import { treeKey, type Published, targetOf } from './record.ts';
import { owns, type Selection } from './selection.ts';
import { isDeletion, isSettled, type RepositoryRows, rowsByName, targetDigest } from './workbooks.ts';

/** A target, with everything that the plan needs to decide on it. */
export interface Candidate extends ActionSubject {
  /**
   * `listed`: the service lists its repository. Otherwise, why its tree leaves:
   *
   * - `repository-gone`: a tree whose repository the service does not list.
   * - `moved`: a tree on this instance's own disk that another instance mirrors now.
   * - `duplicate`: a second tree of a target, left by a copy or by a move that was not recognised.
   */
  readonly kind: 'listed' | 'repository-gone' | 'moved' | 'duplicate';
  readonly selected: boolean;
  /** Whether the settings name this very target, so that its absence is a failure. */
  readonly isRequired: boolean;
  /**
   * For the branch `HEAD`: whether a named branch of its repository is known, and whether one is mirrored that takes its place.
   * `not-yet`: one is known and none mirrored, and `HEAD` has a tree, about which the list says nothing.
   */
  readonly superseded: 'no' | 'known' | 'not-yet' | 'published';
  /** Whether a row names its branch. */
  readonly isNamed: boolean;
  /** Whether the service has finished processing the rows about it. */
  readonly isSettled: boolean;
  /** Whether a target that is gone still has rows in the list of workbooks, under a name that no other repository has now. */
  readonly isContradicted: boolean;
}

/** All that is, was or should be mirrored; `HEAD` while no named branch takes its place (manual, "On disk"). */
export function findCandidates(facts: PlanInput): Candidate[] {
  const { listing, published, others, shard, policy } = facts;
  const { selection } = policy;
  const paths = assignRepositoryPaths(listing.repositories, [...published, ...others]);
  const treesByRepository = Map.groupBy(published, (tree) => tree.repository.id);
  const rows = rowsByName(listing.workbooks);
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
  const leaving = published.filter((tree) => !known.has(treeKey(tree)));
  const unlisted = leaving.length === 0 ? new Set<string>() : unlistedNames(listing);
  const gone = leaving.map((tree) => {
    const { id, fullName } = tree.repository;
    // An installation may name repositories by their ids.
    const isContradicted = [fullName, id].some((name) => unlisted.has(foldName(name)));
    // All trees of a listed repository of this share are among the candidates, or duplicates of them.
    const kind = listedIds.has(id) ? 'moved' : 'repository-gone';
    return treeCandidate(kind, tree, rows(fullName), selection, isContradicted);
  });
  return [...candidates, ...gone];
}

/** The names, without regard to case and Unicode form, of repositories that have rows and are not listed. */
function unlistedNames({ repositories, workbooks }: Listing): ReadonlySet<string> {
  const names = new Set(workbooks?.map(({ repository }) => repository));
  for (const { fullName } of repositories) names.delete(fullName);
  return new Set([...names].map(foldName));
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
    moveFrom: null,
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
    fingerprint: targetDigest(rows, branch, tree?.borrowed, tree?.settled),
    isNamed: isNamedIn(rows, branch),
    isSettled: isSettled(rows, branch),
  };
}

/** Whether a row shows that a workbook is on a branch. */
function isNamedIn(rows: RepositoryRows | null, branch: string): boolean {
  return rows?.byBranch.get(branch)?.some((row) => !isDeletion(row)) === true;
}

function candidatesOf(
  repository: Repository,
  path: string,
  trees: readonly Published[],
  rows: RepositoryRows | null,
  { policy: { selection }, nowMs, listing: { unread } }: PlanInput,
): Candidate[] {
  const { id: repositoryId, fullName } = repository;
  const configured = selection.configuredBranches(fullName);
  const chosen = chooseTrees(trees, path, nowMs);
  const named = new Set([
    ...[...(rows?.byBranch.keys() ?? [])].filter((branch) => isNamedIn(rows, branch)),
    // A branch that only malformed rows name has workbooks all the same.
    ...(unread.branches?.get(fullName) ?? []),
    ...configured.map(({ branch }) => branch),
    ...chosen.keys(),
  ]);
  named.delete(HEAD_BRANCH);
  const mirrored = [...named].flatMap((branch) => {
    const tree = chosen.get(branch);
    return tree?.treePresent === true && selection.selects(fullName, branch) ? tree : [];
  });
  const headIs = supersededBy(mirrored, chosen.get(HEAD_BRANCH), named.size > 0);
  const branches = [...named].sort();
  if (headIs === 'no' || chosen.has(HEAD_BRANCH)) branches.push(HEAD_BRANCH);
  const taken = new Map([...chosen].map(([branch, tree]) => [branch, lastSegment(tree.path)]));
  const segments = assignBranchSegments(branches, taken);
  const candidateOf = (branch: string): Candidate => {
    const place = `${path}/${segments.get(branch) ?? ''}`;
    const tree = chosen.get(branch) ?? null;
    const isInPlace = tree === null || (tree.path === place && tree.repository.fullName === fullName);
    return {
      kind: 'listed',
      target: { repositoryId, branch },
      repository,
      path: place,
      published: tree,
      moveFrom: isInPlace ? null : tree.path,
      selected: selection.selects(fullName, branch),
      // The first setting for a branch counts.
      isRequired: configured.find((each) => each.branch === branch)?.required === true,
      superseded: branch === HEAD_BRANCH ? headIs : 'no',
      ...listedFacts(rows, branch, tree),
      isContradicted: false,
    };
  };
  const duplicates = trees.filter((tree) => {
    const counting = chosen.get(tree.branch);
    return tree.treePresent && counting !== tree && counting?.treePresent === true;
  });
  return [
    ...branches.map(candidateOf),
    ...duplicates.map((tree) => treeCandidate('duplicate', tree, null, selection)),
  ];
}

/** Whether a named branch takes the place of `HEAD`. One with fewer files than the tree of `HEAD` does not: that tree is another branch's. */
function supersededBy(
  mirrored: readonly Published[],
  head: Published | undefined,
  isAnyNamed: boolean,
): Candidate['superseded'] {
  if (!isAnyNamed) return 'no';
  const { fileCount = 0, treePresent = false } = head ?? {};
  // Until a named branch is mirrored, a tree of `HEAD` is all that there is of the repository.
  if (mirrored.length === 0) return treePresent ? 'not-yet' : 'known';
  return !treePresent || mirrored.some((tree) => tree.fileCount >= fileCount) ? 'published' : 'no';
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
  // The last tree of a branch stays in the map.
  return new Map(bestFirst.toReversed().map((tree) => [tree.branch, tree]));
}
