import { encodeSegment } from '../../lib/paths/safe-path.ts';
import type { Cached } from './answers.ts';

/** A repository of the service, with the fields that mirroring needs (service specification, section 2.1). */
export interface Repository {
  readonly id: string;
  readonly name: string;
  readonly fullName: string;
  /** The Git address of an external repository; null for a drag-and-drop repository. */
  readonly url: string | null;
  /** ISO 8601; null if the service does not say. */
  readonly createdAt: string | null;
}

/** One row of the list of workbooks: the latest version of a workbook, and on which branch it was made (section 2.2). */
export interface WorkbookRow {
  /** `<integration>/<file path>`. */
  readonly id: string;
  /** Path inside the repository, without the leading slash. */
  readonly path: string;
  /** The `full_name` of the repository it belongs to (the API's `integration`). */
  readonly repository: string;
  readonly branch: string;
  readonly versionId: string;
  readonly author: string | null;
  readonly message: string | null;
  /** ISO 8601; null if the service does not say. */
  readonly createdAt: string | null;
  /** The kind of change, e.g. `modify`; null if the service does not say. */
  readonly action?: string | null;
  /** The version before this one; null if the service does not say. */
  readonly parentId?: string | null;
  /** The version's processing status; `success` is the one value that the specification names (section 2.3). */
  readonly versionStatus: string | null;
  readonly processing: number;
  readonly failure: number;
  /** Size of the version's file; left out if the service does not say. */
  readonly sizeBytes?: number;
  /** SHA-256 of the version's file, in hexadecimal digits; left out if the service does not say. */
  readonly sha256?: string;
}

/** The repositories about which a list may lack rows: malformed ones, rows under other names, or rows that no page has. */
export interface UnreadRows {
  /** By their full names. */
  readonly repositories: ReadonlySet<string>;
  /** Whether a row does not name its repository, so that it may belong to any. */
  readonly isAnywhere: boolean;
  /** The branches that malformed rows name, by the full names of their repositories; left out for none. */
  readonly branches?: ReadonlyMap<string, readonly string[]>;
}

/** The answer of a poll: everything that the service lists. */
export interface Listing {
  /** The address of the service, without anything secret. */
  readonly address: string;
  /**
   * When the poll began or, if caches answered, when the oldest of their answers was made, in milliseconds since the epoch: everything in
   * the listing is at least as new as this.
   */
  readonly takenAtMs: number;
  /** The oldest of its answers from a cache: absence from it proves nothing new. Null for none. */
  readonly cached: Cached | null;
  /** The service's clock during the poll, in milliseconds since the epoch; null if its answer gave no time. */
  readonly serviceTimeMs: number | null;
  readonly repositories: readonly Repository[];
  /** False if the list of repositories had malformed rows or further pages: absence from it then proves nothing. */
  readonly repositoriesComplete: boolean;
  /** Null if the list of workbooks (v1) is not available. */
  readonly workbooks: readonly WorkbookRow[] | null;
  /** The repositories about which that list verifies nothing. */
  readonly unread: UnreadRows;
  /** False if pages shifted, counts disagreed or rows were malformed: absence then proves nothing. */
  readonly workbooksComplete: boolean;
  /** Faults of the answers, a sentence each. */
  readonly problems: readonly string[];
}

/** Whether the list of workbooks has all rows of a repository, so that absence from it says something. */
export function hasAllRows(
  { workbooks, workbooksComplete, unread }: Pick<Listing, 'workbooks' | 'workbooksComplete' | 'unread'>,
  { fullName }: Pick<Repository, 'fullName'>,
): boolean {
  return workbooks !== null && workbooksComplete && !unread.isAnywhere && !unread.repositories.has(fullName);
}

/** The branch name for contents that the service gives without `branch` (manual, "On disk"). */
export const HEAD_BRANCH = 'HEAD';

/** The name here for a branch that the service really calls `HEAD`: it must not be confused with the one above. */
const NAMED_HEAD = '%48EAD';

/** The name here for a branch of the service: its own, except for `HEAD`, and for names that would collide with its substitute. */
export function knownBranch(serviceName: string): string {
  if (serviceName === HEAD_BRANCH) return NAMED_HEAD;
  return /^%(?:25)*48EAD$/.test(serviceName) ? `%25${serviceName.slice(1)}` : serviceName;
}

/** The service's own name of a branch: undoes {@link knownBranch}. */
export function serviceBranch(branch: string): string {
  if (branch === NAMED_HEAD) return HEAD_BRANCH;
  return /^%25(?:25)*48EAD$/.test(branch) ? `%${branch.slice(3)}` : branch;
}

/** The segment of a branch below its repository's path, unless another branch has it. */
export function branchSegment(branch: string): string {
  return branch === NAMED_HEAD ? NAMED_HEAD : encodeSegment(branch);
}

/** One branch of one repository: the unit that is pulled and published. */
export interface TargetId {
  readonly repositoryId: string;
  readonly branch: string;
}

/** A key that is unique for a target and usable in a map. */
export function targetKey(target: TargetId): string {
  return `${target.repositoryId}\n${target.branch}`;
}
