import { latestFirst } from '../../lib/time/wrong-clock.ts';
import { RepositoryRows, rowsByRepository } from './workbooks.ts';
import type { PlanInput } from './input.ts';
import type { OtherTree, Published } from './record.ts';
import { type ConfiguredBranch, owns, type Selection } from './selection.ts';
import { assignRepositoryPaths, BranchSegments, lastSegment, parentPath, placesOf } from './target-paths.ts';
import {
  HEAD_BRANCH,
  targetKey,
  type Repository,
  type TargetId,
  branchSegment,
} from '../upstream/listing.ts';

/** A target, with all that the plan needs to decide about it. */
export interface Candidate {
  readonly target: TargetId;
  readonly repository: Pick<Repository, 'id' | 'name' | 'fullName' | 'url'>;
  /** Where its tree belongs, below `mirror/`. */
  readonly path: string;
  /** Null when the service does not list the repository (any more). */
  readonly listed: Repository | null;
  /** Rows of the whole repository; null where the service has no list of workbooks. */
  readonly rows: RepositoryRows | null;
  readonly published: Published | null;
  /** The tree of another, gone repository that stands where this one's belongs. */
  readonly occupant: Published | null;
  /** Whether a tree stands there that another instance mirrors. */
  readonly occupiedByOther: boolean;
  readonly configured: ConfiguredBranch | null;
  readonly selected: boolean;
  /** True for a tree that this instance has on a disk of its own, and that another one mirrors now. */
  readonly moved: boolean;
  /** True for a second tree of a target of which another one counts: a move that was not recognised, or a copy, left it. */
  readonly duplicate: boolean;
  /** For the branch `HEAD`: whether a named branch of its repository is known, and whether one is mirrored. */
  readonly superseded: 'no' | 'known' | 'published';
}

/** The facts from which it follows what is to be mirrored. */
type CandidateFacts = Pick<PlanInput, 'listing' | 'published' | 'others' | 'shard' | 'nowMs'> & {
  readonly policy: Pick<PlanInput['policy'], 'selection'>;
};

/**
 * Everything that is, was or should be mirrored: the branches that versions name, those already mirrored and those
 * configured; `HEAD` where no branch of a repository is known (manual, "On disk").
 */
export function findCandidates({
  listing,
  published,
  others,
  shard,
  nowMs,
  policy: { selection },
}: CandidateFacts): Candidate[] {
  const paths = assignRepositoryPaths(listing.repositories, placesOf([...published.map(placed), ...others]));
  const treesByRepository = Map.groupBy(published, (tree) => tree.repository.id);
  const treesByPath = new Map(published.map((tree) => [tree.path, tree]));
  const othersByPath = new Map(others.map((tree) => [tree.path, tree]));
  const rows = listing.workbooks === null ? null : rowsByRepository(listing.workbooks);
  const candidates = listing.repositories
    .filter(({ id }) => owns(shard, id))
    .flatMap((repository) =>
      candidatesOf(repository, {
        path: paths.get(repository.id) ?? repository.id,
        trees: treesByRepository.get(repository.id) ?? [],
        rows: rowsOf(rows, repository),
        treesByPath,
        othersByPath,
        selection,
        nowMs,
      }),
    );
  const known = new Set(candidates.map((candidate) => targetKey(candidate.target)));
  const gone = published.filter(
    (tree) => !known.has(targetKey({ repositoryId: tree.repository.id, branch: tree.branch })),
  );
  const listed = new Map(listing.repositories.map((repository) => [repository.id, repository]));
  return [
    ...candidates,
    ...gone.map((tree) => {
      const candidate = goneCandidate(tree, rows, selection);
      const repository = listed.get(tree.repository.id);
      // All trees of a repository of this share that is listed are among the candidates, or duplicates of them.
      const isMoved = repository !== undefined && !owns(shard, repository.id);
      return isMoved ? Object.assign(candidate, { listed: repository, moved: true }) : candidate;
    }),
  ];
}

/** The rows of a repository. @param rows those of all, by full name; null where the service has no list of workbooks */
function rowsOf(
  rows: ReadonlyMap<string, RepositoryRows> | null,
  { fullName }: Pick<Repository, 'fullName'>,
): RepositoryRows | null {
  return rows === null ? null : (rows.get(fullName) ?? new RepositoryRows([]));
}

/** As much of a tree of this instance as others know of it. */
function placed({ path, repository, branch }: Published): OtherTree {
  return { path, repositoryId: repository.id, fullName: repository.fullName, branch };
}

interface RepositoryContext {
  readonly path: string;
  readonly trees: readonly Published[];
  readonly rows: RepositoryRows | null;
  readonly treesByPath: ReadonlyMap<string, Published>;
  readonly othersByPath: ReadonlyMap<string, OtherTree>;
  readonly selection: Selection;
  readonly nowMs: number;
}

function candidatesOf(repository: Repository, context: RepositoryContext): Candidate[] {
  const { trees, rows, selection } = context;
  const configured = new Map(
    // Of several of one branch the first counts.
    selection
      .configuredBranches(repository.fullName)
      .toReversed()
      .map((each) => [each.branch, each]),
  );
  const treesByBranch = chooseTrees(trees, context.path, context.nowMs);
  const named = new Set([...(rows?.branches.keys() ?? []), ...configured.keys(), ...treesByBranch.keys()]);
  named.delete(HEAD_BRANCH);
  const segments = new BranchSegments(
    new Map([...treesByBranch].map(([branch, tree]) => [branch, lastSegment(tree.path)])),
  );
  const branches = [...named].sort();
  const withHead = named.size === 0 || treesByBranch.has(HEAD_BRANCH) ? [...branches, HEAD_BRANCH] : branches;
  const candidates = withHead.map((branch): Candidate => {
    const path = `${context.path}/${segments.assign(branch)}`;
    const occupant = context.treesByPath.get(path) ?? null;
    return {
      target: { repositoryId: repository.id, branch },
      repository,
      path,
      listed: repository,
      rows,
      published: treesByBranch.get(branch) ?? null,
      occupant: occupant !== null && occupant.repository.id !== repository.id ? occupant : null,
      occupiedByOther: context.othersByPath.has(path),
      configured: configured.get(branch) ?? null,
      selected: selection.selects(repository.fullName, branch),
      moved: false,
      duplicate: false,
      superseded: branch === HEAD_BRANCH ? supersededBy(named, treesByBranch, repository, selection) : 'no',
    };
  });
  return [...candidates, ...duplicatesOf(repository, trees, treesByBranch, selection)];
}

function supersededBy(
  named: ReadonlySet<string>,
  trees: ReadonlyMap<string, Published>,
  { fullName }: Repository,
  selection: Selection,
): Candidate['superseded'] {
  if (named.size === 0) return 'no';
  const isMirrored = (branch: string): boolean =>
    trees.get(branch)?.treePresent === true && selection.selects(fullName, branch);
  return [...named].some(isMirrored) ? 'published' : 'known';
}

function goneCandidate(
  tree: Published,
  rows: ReadonlyMap<string, RepositoryRows> | null,
  selection: Selection,
): Candidate {
  return {
    target: { repositoryId: tree.repository.id, branch: tree.branch },
    repository: tree.repository,
    path: tree.path,
    listed: null,
    rows: rowsOf(rows, tree.repository),
    published: tree,
    occupant: null,
    occupiedByOther: false,
    configured: null,
    selected: selection.selects(tree.repository.fullName, tree.branch),
    moved: false,
    duplicate: false,
    superseded: 'no',
  };
}

/** The tree that counts for each branch: the one in its place or, of several or none, the one verified last. */
function chooseTrees(
  trees: readonly Published[],
  assignedPath: string,
  nowMs: number,
): Map<string, Published> {
  const rank = (tree: Published): number =>
    (tree.treePresent ? 4 : 0) +
    (parentPath(tree.path) === assignedPath ? 2 : 0) +
    (lastSegment(tree.path) === branchSegment(tree.branch) ? 1 : 0);
  const byTime = latestFirst(nowMs);
  const best = [...trees].sort((a, b) => rank(b) - rank(a) || byTime(a.verifiedAtMs, b.verifiedAtMs));
  const chosen = new Map<string, Published>();
  for (const tree of best) if (!chosen.has(tree.branch)) chosen.set(tree.branch, tree);
  return chosen;
}

/** The trees that do not count, because another one of their target does. */
function duplicatesOf(
  repository: Repository,
  trees: readonly Published[],
  chosen: ReadonlyMap<string, Published>,
  selection: Selection,
): Candidate[] {
  return trees
    .filter((tree) => {
      const counting = chosen.get(tree.branch);
      return tree.treePresent && counting !== tree && counting?.treePresent === true;
    })
    .map((tree) =>
      Object.assign(goneCandidate(tree, null, selection), { listed: repository, duplicate: true }),
    );
}
