import { latestFirst } from '../../lib/time/wrong-clock.ts';
import { byCodeUnits, type Manifest } from '../../mirror/store/manifest.ts';
import { HEAD_BRANCH, serviceBranch } from '../../mirror/upstream/listing.ts';
import type { ProcessingStatus, Repository, WorkbookRow, Workbooks } from '../http/library.ts';

/** A published target. */
export interface MirroredTarget {
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly path: string;
  /** When the manifest was written, in milliseconds since the epoch. */
  readonly writtenAtMs: number;
  readonly manifest: Manifest;
}

/** A repository of the mirror. */
export interface MirroredRepository {
  readonly shown: Repository;
  /** One for each branch. */
  readonly targets: ReadonlyMap<string, MirroredTarget>;
}

/**
 * The repositories of a mirror, by id, sorted by name. If the manifests of one disagree, for example while a renamed one
 * moves, the newest manifest names it. If a branch has two trees, for example after a copy, the one verified last counts.
 */
export function repositoriesOf(targets: readonly MirroredTarget[]): ReadonlyMap<string, MirroredRepository> {
  const groups = Map.groupBy(targets, ({ manifest }) => manifest.repository.id);
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
  const sortedBy = (timeOf: (target: MirroredTarget) => number): MirroredTarget[] =>
    [...group].sort((a, b) => byTime(timeOf(a), timeOf(b)) || byCodeUnits(a.path, b.path));
  const newest = sortedBy(({ writtenAtMs }) => writtenAtMs).map(({ manifest }) => manifest.repository);
  const oldestFirst = sortedBy(({ manifest }) => manifest.verifiedAtMs).reverse();
  return {
    shown: {
      id,
      name: newest[0]?.name ?? id,
      full_name: newest[0]?.fullName ?? id,
      url: newest[0]?.url ?? null,
      created_at: newest.find(({ createdAt }) => createdAt !== null)?.createdAt ?? null,
    },
    targets: new Map(oldestFirst.map((target) => [target.manifest.branch, target])),
  };
}

/**
 * The branch for requests that name none (service specification, section 4.1, leaves it open): the one that the service
 * used, else the only one, else a usual one.
 * @returns null if there is no such branch
 */
export function defaultBranch(branches: readonly string[]): string | null {
  const [only] = branches;
  if (only !== undefined && branches.length === 1) return only;
  return [HEAD_BRANCH, 'main', 'master'].find((branch) => branches.includes(branch)) ?? null;
}

/** The id of a workbook begins with the name of its repository (section 2.2), even if its tree has not been renamed yet. */
function presentId(id: string, nameThen: string, nameNow: string): string {
  return id.startsWith(`${nameThen}/`) ? nameNow + id.slice(nameThen.length) : id;
}

const DONE: ProcessingStatus = { status: 'success', processing: 0, failure: 0 };
/** Status of a tree pulled while the service was processing it: the same version is pulled again after that. */
const UNSETTLED: ProcessingStatus = { status: 'processing', processing: 1, failure: 0 };

/** The workbooks of a mirror as v1 lists them, sorted by id and branch. */
export function workbooksOf(repositories: ReadonlyMap<string, MirroredRepository>): Workbooks {
  const rows: WorkbookRow[] = [];
  const unsettled = new Set<WorkbookRow>();
  for (const { shown, targets } of repositories.values()) {
    for (const { manifest } of targets.values()) {
      for (const { path, workbook, sizeBytes: size, sha256: digest } of manifest.files) {
        if (workbook === undefined) continue;
        const { id, versionId, author, action, createdAt, message, parentId } = workbook;
        const row = {
          id: presentId(id, manifest.repository.fullName, shown.full_name),
          integration: shown.full_name,
          branch: serviceBranch(manifest.branch),
          path,
          version: { id: versionId, author, action, createdAt, message, parentId },
          // The digest identifies the bytes, even if a new version did not change them.
          file: { size, digest },
        };
        rows.push(row);
        if (!manifest.settled) unsettled.add(row);
      }
    }
  }
  rows.sort((a, b) => byCodeUnits(a.id, b.id) || byCodeUnits(a.branch, b.branch));
  return { rows, statusOf: (row) => (unsettled.has(row) ? UNSETTLED : DONE) };
}
