import type { Approvals, GuardPolicy } from './guard.ts';
import type { TargetRecord, OtherTree, Published } from './record.ts';
import type { Listing } from '../upstream/listing.ts';
import type { Shard } from './shard.ts';

/** Downloads when workbooks have new versions: those workbooks or all contents; `auto`: just those workbooks in drag-and-drop repositories. */
export type ContentPolicy = 'auto' | 'workbooks' | 'all';

/** The operator's choice of what to mirror. */
export interface Selection {
  /** Whether the include and exclude filters let a branch of a repository through. */
  readonly selects: (repositoryFullName: string, branch: string) => boolean;
  /** Branches of a repository that are mirrored even if no listing names them. */
  readonly configuredBranches: (repositoryFullName: string) => readonly ConfiguredBranch[];
  /** The patterns of the settings, each by itself. */
  readonly patterns: readonly SelectionPattern[];
}

/** A pattern of the settings. */
export interface SelectionPattern {
  /** The setting, by its dotted name. */
  readonly setting: string;
  readonly pattern: string;
  /** The part of it that is held against names. */
  readonly name: string;
  /** Full names of repositories, or names of branches. */
  readonly of: 'repository' | 'branch';
  readonly matches: (name: string) => boolean;
}

/** A branch that the settings name. */
export interface ConfiguredBranch {
  readonly branch: string;
  /** True when the settings name this very target, so that its absence is a failure; false for a glob's. */
  readonly required: boolean;
}

/** The operator's choices. Durations in milliseconds. */
export interface PlanPolicy {
  readonly selection: Selection;
  readonly fullCheckMs: number;
  readonly processingPatienceMs: number;
  /** Complete answers in a row that must lack a target before its tree is retired. */
  readonly retireAfterPasses: number;
  readonly guard: GuardPolicy;
  readonly content: ContentPolicy;
  /** Digest of the settings by which a version is found to be bad: what an archive may hold, and who is asked before publishing. */
  readonly verdictDigest: string;
}

/** All that a plan is computed from. */
export interface PlanInput {
  readonly listing: Listing;
  readonly published: readonly Published[];
  /** The trees beside them that other instances mirror. */
  readonly others: readonly OtherTree[];
  /** The share of this instance; null where it mirrors all repositories. */
  readonly shard: Shard | null;
  /** Paths whose manifest cannot be read just now. */
  readonly unreadable: ReadonlySet<string>;
  /** By {@link targetKey}; none of their times lies in the future. */
  readonly records: ReadonlyMap<string, TargetRecord>;
  readonly approvals: Approvals;
  readonly policy: PlanPolicy;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
  /** True when a person asked for the pass: neither back-off nor quarantine is a reason to wait then. */
  readonly urgent: boolean;
  /** Paths of targets that a person wants tried at once. */
  readonly retries: ReadonlySet<string>;
}
