import { MirrorError, toMirrorError } from '../model/errors.ts';
import type { Approvals, GuardPolicy } from '../model/guard.ts';
import type { Action } from '../model/actions.ts';
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
}

/** The result of an action that moved no bytes. */
export function resultOf(action: Action, outcome: Outcome): ActionResult {
  return { action, outcome, downloadedBytes: 0, changedFiles: 0 };
}

/** What an action that failed came to. @throws MirrorError what ends the whole pass */
export function failed(error: unknown, action: Action, signal: AbortSignal): Outcome {
  const mirrorError = toMirrorError(error);
  if (signal.aborted) throw new MirrorError('pass.abandoned', 'The pass was abandoned.', { cause: error });
  if (mirrorError.code === 'credentials.refused') throw mirrorError;
  const { code, message, hint, retryAfterMs } = mirrorError;
  return {
    kind: 'failed',
    code,
    action: mirrorError.action,
    message,
    hint: hint ?? null,
    retryAfterMs: retryAfterMs ?? 0,
    fingerprint: action.fingerprint,
  };
}
