import type { PullAction } from '../plan/actions.ts';
import type { Approvals, DeletionLimit } from '../plan/guard.ts';
import type { Manifest } from '../store/manifest.ts';
import type { PullMeter } from './pull-monitor.ts';
import type { Listing, Repository, WorkbookRow } from '../upstream/listing.ts';

/** What a pull is about. */
export interface PullRequest {
  readonly action: PullAction;
  readonly repository: Repository;
  /** Rows of the whole repository; null where the service has no list of workbooks. */
  readonly rows: readonly WorkbookRow[] | null;
  readonly listing: Pick<Listing, 'takenAtMs'>;
  /** How many files may be deleted without a person's word. */
  readonly guard: DeletionLimit;
  readonly approvals: Approvals;
  /** Takes in how far it is. */
  readonly meter: PullMeter;
  readonly signal: AbortSignal;
}

/** The published tree, and how far it may be believed. */
export interface PublishedState {
  /** Null when nothing is published. */
  readonly manifest: Manifest | null;
  /** Whether the tree differs from its manifest. */
  readonly isDamaged: boolean;
  /** Whether the published copy of a file may be taken for what its manifest says. */
  readonly isTrusted: (path: string) => boolean;
}
