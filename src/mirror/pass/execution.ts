import type { ArchiveLimits } from '../archive/policy.ts';
import type { State } from '../state/state.ts';
import type { Manifest } from '../store/manifest.ts';
import type { MirrorStore } from '../store/disk.ts';
import type { PassService } from '../upstream/client.ts';
import type { PassEventSink, ReportedOnce } from './events.ts';
import type { PullMonitor, PullMeter } from './progress.ts';
import { type EndedResult, resultOf } from './results.ts';
import type { PullQueue, Turn } from './queue.ts';
import { type Action, holdOf, type PullAction } from '../plan/actions.ts';
import type { TargetRecord, RememberedTree } from '../plan/record.ts';
import { callError } from '../../lib/errors/disk-errors.ts';
import { type ErrorCode, MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import type { Approvals, GuardPolicy } from '../plan/guard.ts';
import { type Contradiction, describeDoubt, type Doubt } from '../plan/contradictions.ts';
import { type Lease, LeasedError } from '../store/leases/lease.ts';
import type { Listing, Repository, WorkbookRow } from '../upstream/listing.ts';

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

/** Everything that a pass uses. */
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
  /** Called whenever bytes were written for the pass. */
  readonly onProgress: () => void;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** Remembers reported findings, so that each is reported once for as long as it lasts. */
  readonly reported: ReportedOnce;
  /** Knows how far the pulls are. */
  readonly monitor: PullMonitor;
  /** Where pulls wait for their places, and run. */
  readonly queue: PullQueue;
}

/** How a plan is carried out. */
export interface ExecutePolicy {
  /** Prompt pulls at once. */
  readonly concurrency: number;
  /** A pull that takes longer is no prompt one: it gives its place to the next one. In milliseconds. */
  readonly slowAfterMs: number;
  readonly guard: GuardPolicy;
}

/** A plan, and what it was computed from beside the listing. */
export interface PlannedPass {
  readonly plan: readonly Action[];
  readonly records: ReadonlyMap<string, TargetRecord>;
  /** Summaries of the published trees to remember, by their paths. */
  readonly trees: ReadonlyMap<string, RememberedTree>;
  readonly approvals: Approvals;
  /** Whether a person let the pass mirror another service than the directory did before. */
  readonly isOtherService: boolean;
}

/** A plan on its way. */
export interface Execution extends PlannedPass {
  readonly context: PassContext;
  readonly policy: ExecutePolicy;
  readonly listing: Listing;
  readonly signal: AbortSignal;
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

/** Everything that receiving the contents of a target takes: nothing that publishes. */
export interface Reception extends RepositoryFacts {
  readonly context: Pick<PassContext, 'service' | 'archiveLimits' | 'onProgress'>;
  readonly action: PullAction;
  /** Takes in how far it is. */
  readonly meter: PullMeter;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** The pull of one target. It may outlast its pass by hours, and so holds nothing of it but what it needs. */
export interface Pull extends Reception, Pick<Execution, 'approvals'> {
  readonly context: PassContext;
  readonly policy: ExecutePolicy;
  /** The record of the target from before this pull. */
  readonly record: TargetRecord;
  /** The remembered summary of its published tree; null for none. */
  readonly tree: RememberedTree | null;
  readonly turn: Pick<Turn, 'toPublish'>;
}

/** An action that waits for the end of a lease. It says nothing about the target, and costs it nothing. */
export function heldByLease(
  { reported, emit }: Pick<PassContext, 'reported' | 'emit'>,
  action: Action,
  { id, untilMs, holder }: Lease,
): EndedResult {
  if (reported.news('lease', [id]).length > 0) emit({ name: 'lease.waited', untilMs, holder });
  return resultOf(holdOf(action, 'lease', { untilMs }), { kind: 'held' });
}

/** The list and the contents contradict each other, and not yet often enough for the contents to be believed. */
export class ContradictedError extends MirrorError {
  readonly doubt: Doubt;

  /** @param contradictions at least one */
  constructor(contradictions: readonly Contradiction[], doubt: Doubt) {
    const { message, hint } = describeDoubt(contradictions, doubt);
    super('contents.contradicted', message, { hint });
    this.doubt = doubt;
  }
}

/** Codes of errors that every other target would meet as well. */
const ENDS_PASS: ReadonlySet<ErrorCode> = new Set([
  'credentials.refused',
  'directory.taken',
  'program.replaced',
]);

/** The result of an action that failed. @throws MirrorError for errors that end the whole pass */
export function failed(
  { context, signal }: Pick<Execution, 'context' | 'signal'>,
  action: Action,
  error: unknown,
): EndedResult {
  const mirrorError = toMirrorError(callError(error, `mirroring ${action.path}`));
  if (signal.aborted) throw new MirrorError('pass.abandoned', 'The pass was abandoned.', { cause: error });
  if (ENDS_PASS.has(mirrorError.code)) throw mirrorError;
  if (error instanceof LeasedError) return heldByLease(context, action, error.lease);
  const { code, message, hint, retryAfterMs } = mirrorError;
  const doubt = error instanceof ContradictedError ? { doubt: error.doubt } : {};
  return resultOf(action, {
    kind: 'failed',
    code,
    action: mirrorError.action,
    message,
    hint: hint ?? null,
    retryAfterMs: retryAfterMs ?? 0,
    fingerprint: action.fingerprint,
    ...doubt,
  });
}
