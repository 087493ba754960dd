import { byCodeUnits, type Manifest } from '../../mirror/store/manifest.ts';
import { repositoryPath } from '../../lib/paths/safe-path.ts';
import { latestFirst } from '../../lib/time/wrong-clock.ts';
import { HEAD_BRANCH, branchSegment, serviceBranch } from '../../mirror/upstream/listing.ts';
import type { Repository, WorkbookRow } from '../http/library.ts';

/** A published target, by its manifest. */
export interface MirroredTarget {
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly path: string;
  readonly repository: Manifest['repository'];
  readonly branch: string;
  /** When the manifest was written, in milliseconds since the epoch. */
  readonly writtenAtMs: number;
  /** Milliseconds since the epoch. */
  readonly verifiedAtMs: number;
  /** Milliseconds since the epoch. */
  readonly publishedAtMs: number;
  readonly settled: boolean;
  /** The workbooks of the listing that it holds. */
  readonly workbooks: ReadonlyArray<
    Pick<Manifest['files'][number], 'path' | 'sizeBytes' | 'sha256'> & MirroredVersion
  >;
}

type MirroredVersion = { readonly workbook: NonNullable<Manifest['files'][number]['workbook']> };

/** Takes from a manifest what the lists need. */
export function targetOf(path: string, manifest: Manifest, writtenAtMs: number): MirroredTarget {
  const { repository, branch, verifiedAtMs, publishedAtMs, settled, files } = manifest;
  const workbooks = files.flatMap(({ path: name, sizeBytes, sha256, workbook }) =>
    workbook === undefined ? [] : [{ path: name, sizeBytes, sha256, workbook }],
  );
  return { path, repository, branch, writtenAtMs, verifiedAtMs, publishedAtMs, settled, workbooks };
}

/** A repository of the mirror. */
export interface MirroredRepository {
  readonly shown: Repository;
  /** One for each branch. */
  readonly targets: ReadonlyMap<string, MirroredTarget>;
}

/**
 * The repositories of a mirror, by id, in the order of their names. Where the manifests of one disagree, as they do while the trees of
 * a renamed one move, the manifest that was written last names it. Of two trees of one branch the one in its proper place counts, then
 * the one verified last: the other is a copy that someone made, or that a move left behind.
 */
export function repositoriesOf(targets: readonly MirroredTarget[]): ReadonlyMap<string, MirroredRepository> {
  const groups = new Map<string, MirroredTarget[]>();
  for (const target of targets) {
    const group = groups.get(target.repository.id);
    if (group === undefined) groups.set(target.repository.id, [target]);
    else group.push(target);
  }
  const repositories = [...groups].map(([id, group]) => [id, repositoryOf(id, group)] as const);
  return new Map(
    repositories.sort(
      ([a, { shown: one }], [b, { shown: other }]) =>
        byCodeUnits(one.full_name, other.full_name) || byCodeUnits(a, b),
    ),
  );
}

function repositoryOf(id: string, group: readonly MirroredTarget[]): MirroredRepository {
  const byTime = latestFirst(Date.now());
  const newest = [...group].sort(
    (a, b) => byTime(a.writtenAtMs, b.writtenAtMs) || byCodeUnits(a.path, b.path),
  );
  const named = newest[0]?.repository;
  const createdAt = newest.find(({ repository }) => typeof repository.createdAt === 'string');
  const targets = new Map<string, MirroredTarget>();
  const best = [...group].sort(
    (a, b) =>
      Number(isAtHome(b)) - Number(isAtHome(a)) ||
      byTime(a.verifiedAtMs, b.verifiedAtMs) ||
      byCodeUnits(a.path, b.path),
  );
  for (const target of best) if (!targets.has(target.branch)) targets.set(target.branch, target);
  return {
    shown: {
      id,
      name: named?.name ?? id,
      full_name: named?.fullName ?? id,
      url: named?.url ?? null,
      created_at: createdAt?.repository.createdAt ?? null,
    },
    targets,
  };
}

function isAtHome({ path, repository, branch }: MirroredTarget): boolean {
  return path === `${repositoryPath(repository.fullName)}/${branchSegment(branch)}`;
}

/** Branches that are given when a request names none and there are several, in this order. */
const USUAL_BRANCHES = ['main', 'master'];

/**
 * The branch that is given when a request names none (service specification, section 4.1, leaves it open): what the service gave
 * without one, else the only one, else a usual one.
 * @returns null where nothing says which one
 */
export function defaultBranch(branches: readonly string[]): string | null {
  if (branches.includes(HEAD_BRANCH)) return HEAD_BRANCH;
  const [only] = branches;
  if (only !== undefined && branches.length === 1) return only;
  return USUAL_BRANCHES.find((branch) => branches.includes(branch)) ?? null;
}

/** A workbook's id begins with the name of its repository (section 2.2), also while its tree has yet to follow a new name. */
function presentId(id: string, nameThen: string, nameNow: string): string {
  return id.startsWith(`${nameThen}/`) ? nameNow + id.slice(nameThen.length) : id;
}

/** The workbooks of a mirror as v1 lists them, sorted by id and branch. */
export function rowsOf(repositories: ReadonlyMap<string, MirroredRepository>): WorkbookRow[] {
  const rows: WorkbookRow[] = [];
  for (const { shown, targets } of repositories.values()) {
    for (const { branch, repository, workbooks } of targets.values()) {
      for (const { path, workbook, sizeBytes: size, sha256: digest } of workbooks) {
        rows.push({
          id: presentId(workbook.id, repository.fullName, shown.full_name),
          integration: shown.full_name,
          branch: serviceBranch(branch),
          path,
          version: {
            id: workbook.versionId,
            author: workbook.author,
            action: workbook.action ?? null,
            createdAt: workbook.createdAt,
            message: workbook.message,
            parentId: workbook.parentId ?? null,
          },
          // The bytes are proven by it, also where they are those of the version before.
          file: { size, digest },
        });
      }
    }
  }
  return rows.sort((a, b) => byCodeUnits(a.id, b.id) || byCodeUnits(a.branch, b.branch));
}
