import { typeOf } from '../../lib/api/media-types.ts';
import type { ArchiveLimits } from '../archive/policy.ts';
import type { State } from '../state/state.ts';
import type { Manifest } from '../store/manifest.ts';
import type { MirrorStore } from '../store/disk.ts';
import type { PassService } from '../upstream/client.ts';
import type { PassEventSink, ReportedOnce, PullMonitor, PullMeter } from './events.ts';
import type { PullQueue, QueueLimits, PullControls } from './queue.ts';
import type { Action, PlanPolicy, PullAction } from '../plan/actions.ts';
import type { TargetRecord, RememberedTree } from '../plan/record.ts';
import type { Approvals, GuardPolicy } from '../plan/guard.ts';
import type { SelectionCheck } from '../plan/selection.ts';
import { type RepositoryRows, rowsByName } from '../plan/workbooks.ts';
import { hasAllRows, type Listing } from '../upstream/listing.ts';

/** A new state of a target. */
export interface NewState {
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly target: string;
  /** The new manifest. */
  readonly manifest: Manifest;
  /** The manifest of the tree before; null if nothing was published. */
  readonly previous: Manifest | null;
}

/** A new state of a target that waits to be published. */
export interface StagedState extends NewState {
  /** Where the whole new tree can be read, absolute. */
  readonly folder: string;
}

/** The service, the disk, the state cache, and the other things that outlive a pass. */
export interface PassContext {
  readonly service: PassService;
  readonly store: MirrorStore;
  readonly state: State;
  readonly archiveLimits: ArchiveLimits;
  /** Called with every new state before it is published; refuses it by throwing. Null if no such check is set. */
  readonly beforePublish: ((state: StagedState, signal: AbortSignal) => Promise<void>) | null;
  /** Called with every new state once it is durable and visible. */
  readonly onPublished: (state: NewState) => void;
  readonly emit: PassEventSink;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Remembers reported findings, so that each is reported once while it lasts. */
  readonly reported: ReportedOnce;
  /** Tracks the progress of pulls. */
  readonly monitor: PullMonitor;
  /** The queue that runs the pulls. */
  readonly queue: PullQueue;
}

/** The rules for planning and for carrying out the plan. */
export type PassPolicy = PlanPolicy & QueueLimits;

/** A plan, and the facts that it was computed from. */
export interface PlannedPass {
  readonly listing: Listing;
  readonly plan: readonly Action[];
  readonly records: ReadonlyMap<string, TargetRecord>;
  /** Summaries of the published trees to remember, by their paths. */
  readonly trees: ReadonlyMap<string, RememberedTree>;
  readonly approvals: Approvals;
  /** Paths of trees whose manifests cannot be read, and that no action is about: nothing that is mirrored belongs there. */
  readonly unplanned: readonly string[];
  readonly selection: SelectionCheck;
  /** Whether an operator let the pass mirror another service than the directory did before. */
  readonly isOtherService: boolean;
}

/** A pass that carries its plan out. */
export interface RunningPass extends PlannedPass {
  readonly context: PassContext;
  readonly policy: PassPolicy;
  readonly signal: AbortSignal;
}

/** The facts about a target's repository, from a listing and its plan. */
export interface RepositoryFacts {
  /** Null if the service has no list of workbooks. */
  readonly rows: RepositoryRows | null;
  /** Whether these are all: otherwise a missing row says nothing. */
  readonly hasAllRows: boolean;
  /**
   * Whether the list may lack rows of this very repository. A row of an unknown repository does not count: otherwise each pass would pull
   * every changed target.
   */
  readonly isUnread: boolean;
  /** The types of all listed workbooks, if the repository has none: a service need not list every type. Otherwise empty. */
  readonly typesOfOthers: ReadonlySet<string>;
  /** The branches of the repository that the plan knows of. */
  readonly branches: readonly string[];
  /** When the service was asked for its lists. Milliseconds since the epoch. */
  readonly listedAtMs: number;
}

/** Makes a function that returns the facts about the repository of an action. */
export function repositoryFacts({
  listing,
  plan,
}: Pick<PlannedPass, 'listing' | 'plan'>): (action: Action) => RepositoryFacts {
  const rowsOf = rowsByName(listing.workbooks);
  let types: ReadonlySet<string> | null = null;
  // One array for all pulls of a repository: it may have thousands of branches.
  const targets = Map.groupBy(plan, ({ target }) => target.repositoryId);
  const branches = new Map([...targets].map(([id, its]) => [id, its.map(({ target }) => target.branch)]));
  return ({ repository }) => {
    const rows = rowsOf(repository.fullName);
    return {
      rows,
      hasAllRows: hasAllRows(listing, repository),
      isUnread: listing.unread.repositories.has(repository.fullName),
      typesOfOthers:
        rows?.all.length === 0
          ? (types ??= new Set(listing.workbooks?.map(({ path }) => typeOf(path))))
          : new Set(),
      branches: branches.get(repository.id) ?? [],
      listedAtMs: listing.takenAtMs,
    };
  };
}

/** The published tree of a target, and how far it can be trusted. */
export interface PublishedState {
  /** Null when nothing is published. */
  readonly manifest: Manifest | null;
  /** Whether the tree differs from its manifest. */
  readonly isDamaged: boolean;
  /** Paths that someone added to the tree; null if they are unknown. */
  readonly foreign: readonly string[] | null;
  /** Whether the published copy of a file can be trusted to match its manifest. */
  readonly isTrusted: (path: string) => boolean;
}

/** Everything that receiving the contents of a target needs: nothing that publishes. */
export interface Reception extends RepositoryFacts {
  readonly context: Pick<PassContext, 'service' | 'archiveLimits'>;
  readonly action: PullAction;
  /** Whether the last contents contradicted the list: then "not modified" is not believed. */
  readonly isInDoubt: boolean;
  /** Receives the progress. */
  readonly meter: PullMeter;
  /** Called while it makes progress without bytes from the service. */
  readonly onProgress: () => void;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** The pull of one target, as data. It may outlast its pass by hours, and so holds only what it needs. */
export interface Pull extends Reception, Pick<PullControls, 'toPublish'> {
  readonly context: PassContext;
  readonly guard: GuardPolicy;
  readonly approvals: Approvals;
  /** The record of the target from before this pull. */
  readonly record: TargetRecord;
  /** The remembered summary of its published tree; null for none. */
  readonly tree: RememberedTree | null;
}
