import type { Approvals, GuardPolicy } from './guard.ts';
import type { TargetRecord, OtherTree, Published } from './record.ts';
import type { Listing } from '../upstream/listing.ts';
import type { Selection, Shard } from './selection.ts';

/** Downloads when workbooks have new versions: those workbooks or all contents; `auto`: just those workbooks in drag-and-drop repositories. */
export type ContentPolicy = 'auto' | 'workbooks' | 'all';

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
