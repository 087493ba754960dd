import type { ArchiveLimits } from '../archive/policy.ts';
import type { State } from '../state/state.ts';
import type { Manifest } from '../store/manifest.ts';
import type { MirrorStore } from '../store/disk.ts';
import type { PassService } from '../upstream/client.ts';
import type { PassEventSink, ReportedOnce, PullMonitor, PullMeter } from './events.ts';
import type { PullQueue, QueueLimits } from './queue.ts';
import type { Action, PullAction } from '../plan/actions.ts';
import type { TargetRecord, RememberedTree } from '../plan/record.ts';
import type { Approvals, GuardPolicy } from '../plan/guard.ts';
import type { SelectionCheck } from '../plan/selection.ts';
import type { Repository, WorkbookRow } from '../upstream/listing.ts';

/** A new state of a target. */
export interface NewState {
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly target: string;
  /** The new inventory. */
  readonly manifest: Manifest;
  /** The inventory of the tree before; null where nothing was published. */
  readonly previous: Manifest | null;
}

/** A new state of a target that waits for being published. */
export interface StagedState extends NewState {
  /** Where the whole new tree can be read, absolute. */
  readonly folder: string;
}

/** The service, the disk and the state cache, and what else outlives a pass. */
export interface PassContext {
  readonly service: PassService;
  readonly store: MirrorStore;
  readonly state: State;
  readonly archiveLimits: ArchiveLimits;
  /** Called with every new state before it is published; refuses it by throwing. Null where no such check is set. */
  readonly beforePublish: ((state: StagedState, signal: AbortSignal) => Promise<void>) | null;
  /** Called with every new state once it is durable and visible. */
  readonly onPublished: (state: NewState) => void;
  readonly emit: PassEventSink;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Remembers reported findings, so that each is reported once for as long as it lasts. */
  readonly reported: ReportedOnce;
  /** Knows how far the pulls are. */
  readonly monitor: PullMonitor;
  /** Where pulls wait for their places, and run. */
  readonly queue: PullQueue;
}

/** How a plan is carried out. */
export interface ExecutePolicy extends QueueLimits {
  readonly guard: GuardPolicy;
  /** Chooses the targets that are pulled now, by their paths, while the others wait for the next pass; left out for all. */
  readonly choose?: (paths: readonly string[]) => readonly string[];
}

/** A plan, and what it was computed from beside the listing. */
export interface PlannedPass {
  readonly plan: readonly Action[];
  readonly records: ReadonlyMap<string, TargetRecord>;
  /** Summaries of the published trees to remember, by their paths. */
  readonly trees: ReadonlyMap<string, RememberedTree>;
  readonly approvals: Approvals;
  readonly selection: SelectionCheck;
  /** Whether a person let the pass mirror another service than the directory did before. */
  readonly isOtherService: boolean;
}

/** The facts of a listing, and of the plan that was made of it, about the repository of a target. */
export interface RepositoryFacts {
  readonly repository: Repository;
  /** Rows of the whole repository; null where the service has no list of workbooks. */
  readonly rows: readonly WorkbookRow[] | null;
  /** The branches of the repository that the plan knows of. */
  readonly branches: readonly string[];
  /** When the service was asked for its lists. Milliseconds since the epoch. */
  readonly listedAtMs: number;
}

/** The pull of one target, as data. It may outlast its pass by hours, and so holds nothing of it but what it needs. */
export interface Pull extends RepositoryFacts {
  readonly action: PullAction;
  readonly approvals: Approvals;
  /** The record of the target from before this pull. */
  readonly record: TargetRecord;
  /** The remembered summary of its published tree; null for none. */
  readonly tree: RememberedTree | null;
}

/** The published tree of a target, and how far it may be believed. */
export interface PublishedState {
  /** Null when nothing is published. */
  readonly manifest: Manifest | null;
  /** Whether the tree differs from its manifest. */
  readonly isDamaged: boolean;
  /** Paths of what someone added to the tree; null where they are unknown. */
  readonly foreign: readonly string[] | null;
  /** Whether the published copy of a file may be taken for what its manifest says. */
  readonly isTrusted: (path: string) => boolean;
}

/** Everything that receiving the contents of a target takes: nothing that publishes. */
export interface Reception extends RepositoryFacts {
  readonly context: Pick<PassContext, 'service' | 'archiveLimits'>;
  readonly action: PullAction;
  /** Takes in how far it is. */
  readonly meter: PullMeter;
  /** Called while it goes on without bytes from the service. */
  readonly onProgress: () => void;
  /** Ends it. */
  readonly signal: AbortSignal;
}
