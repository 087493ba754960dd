import { MirrorError, toMirrorError } from '../model/errors.ts';
import type { Approvals, GuardPolicy } from '../model/guard.ts';
import type { Action, HoldAction } from '../model/actions.ts';
import { type Lease, LeasedError } from '../model/lease.ts';
import type { Outcome, RetryPolicy, TargetRecord } from '../model/record.ts';
import type { Listing, Repository, WorkbookRow } from '../model/service.ts';
import type { PassContext, StagePort } from './ports.ts';

/** What became of one action. */
export interface ActionResult {
  readonly action: Action;
  readonly outcome: Outcome;
  readonly downloadedBytes: number;
  readonly changedFiles: number;
}

/** How a plan is carried out. */
export interface ExecutePolicy {
  /** Pulls at once. */
  readonly concurrency: number;
  readonly retry: RetryPolicy;
  readonly retireAfterPasses: number;
  readonly guard: GuardPolicy;
}

/** A plan, and what it was computed from beside the listing. */
export interface PlannedPass {
  readonly plan: readonly Action[];
  readonly records: ReadonlyMap<string, TargetRecord>;
  readonly approvals: Approvals;
}

/** A plan on its way. */
export interface Execution<Stage extends StagePort> extends PlannedPass {
  readonly context: PassContext<Stage>;
  readonly policy: ExecutePolicy;
  readonly listing: Listing;
  readonly repositories: ReadonlyMap<string, Repository>;
  readonly rows: ReadonlyMap<string, readonly WorkbookRow[]> | null;
  readonly signal: AbortSignal;
  /** Reports the lease that something waits for, the first time. */
  readonly noteLease: (lease: Lease) => void;
}

/** The result of an action that moved no bytes. */
export function resultOf(action: Action, outcome: Outcome): ActionResult {
  return { action, outcome, downloadedBytes: 0, changedFiles: 0 };
}

/** An action that waits for the end of a lease. It says nothing about the target, and costs it nothing. */
export function heldByLease(
  { noteLease }: Pick<Execution<StagePort>, 'noteLease'>,
  { target, repository, path, published, fingerprint, moveFrom }: Action,
  lease: Lease,
): ActionResult {
  noteLease(lease);
  const action: HoldAction = {
    kind: 'hold',
    target,
    repository,
    path,
    published,
    fingerprint,
    moveFrom,
    reason: 'lease',
    untilMs: lease.untilMs,
    missing: false,
    guarded: null,
  };
  return resultOf(action, { kind: 'held' });
}

/** What an action that failed came to. @throws MirrorError what ends the whole pass */
export function failed(
  execution: Pick<Execution<StagePort>, 'noteLease' | 'signal'>,
  action: Action,
  error: unknown,
): ActionResult {
  const mirrorError = toMirrorError(error);
  if (execution.signal.aborted)
    throw new MirrorError('pass.abandoned', 'The pass was abandoned.', { cause: error });
  if (mirrorError.code === 'credentials.refused') throw mirrorError;
  if (error instanceof LeasedError) return heldByLease(execution, action, error.lease);
  const { code, message, hint, retryAfterMs } = mirrorError;
  return resultOf(action, {
    kind: 'failed',
    code,
    action: mirrorError.action,
    message,
    hint: hint ?? null,
    retryAfterMs: retryAfterMs ?? 0,
    fingerprint: action.fingerprint,
  });
}
