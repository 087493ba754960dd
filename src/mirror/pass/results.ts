import type { ListedTarget, Outcome } from '../plan/record.ts';
import { callError } from '../../lib/errors/disk-errors.ts';
import {
  type ErrorCode,
  EXIT_CODES,
  type ExitCode,
  MirrorError,
  toMirrorError,
} from '../../lib/errors/errors.ts';
import { type Lease, LeasedError } from '../store/leases/lease.ts';
import { type Action, holdOf, holdRule } from '../plan/actions.ts';
import { ContradictedError } from '../plan/contradictions.ts';
import { type SelectionCheck, selectsNothing } from '../plan/selection.ts';
import { type Listing, targetKey } from '../upstream/listing.ts';
import type { PassEventSink, PassFinished, ReportedOnce, Trigger } from './events.ts';

/** One action with its outcome, the bytes downloaded for it, and the number of files that it changed. */
export interface ActionResult {
  readonly action: Action;
  readonly outcome: Outcome | Unfinished;
  readonly downloadedBytes: number;
  readonly changedFiles: number;
}

/** A pull that goes on beside the passes, or waits for a place. It is recorded when it ends, and counts for nothing until then. */
export interface Unfinished {
  readonly kind: 'unfinished';
  readonly hasBegun: boolean;
}

/** An action that came to its end. */
export interface EndedResult extends ActionResult {
  readonly outcome: Outcome;
}

/** The result of an action that moved no bytes. */
export function resultOf(action: Action, outcome: Outcome): EndedResult {
  return { action, outcome, downloadedBytes: 0, changedFiles: 0 };
}

/** The ways in which a lease that holds a target is reported. */
interface LeaseReports {
  readonly emit: PassEventSink;
  readonly reported: ReportedOnce;
}

/** An action that waits for the end of a lease. It says nothing about the target, and costs it nothing. */
export function heldByLease(
  { reported, emit }: LeaseReports,
  action: Action,
  { id, untilMs, holder }: Lease,
): EndedResult {
  if (reported.news('lease', [id]).length > 0) emit({ name: 'lease.waited', untilMs, holder });
  return resultOf(holdOf(action, 'lease', { untilMs }), { kind: 'held' });
}

/** Codes of errors that every other target would meet as well. */
const ENDS_PASS: ReadonlySet<ErrorCode> = new Set([
  'credentials.refused',
  'directory.taken',
  'program.replaced',
]);

/** The result of an action that failed. @throws MirrorError for errors that end the whole pass */
export function failed(
  reports: LeaseReports,
  action: Action,
  thrown: unknown,
  signal: AbortSignal,
): EndedResult {
  const error = toMirrorError(callError(thrown, `mirroring ${action.path}`));
  if (signal.aborted) throw new MirrorError('pass.abandoned', 'The pass was abandoned.', { cause: thrown });
  if (ENDS_PASS.has(error.code)) throw error;
  if (error instanceof LeasedError) return heldByLease(reports, action, error.lease);
  return resultOf(action, {
    kind: 'failed',
    code: error.code,
    action: error.action,
    message: error.message,
    hint: error.hint ?? null,
    retryAfterMs: error.retryAfterMs ?? 0,
    fingerprint: action.fingerprint,
    ...(error instanceof ContradictedError ? { doubt: error.doubt } : {}),
  });
}

/** The numbers of a pass, for its last event. @param durationMs milliseconds */
export function summarise(
  trigger: Trigger,
  listing: Listing,
  results: readonly ActionResult[],
  durationMs: number,
): PassFinished {
  const count = (test: (result: ActionResult) => boolean): number => results.filter(test).length;
  return {
    trigger,
    durationMs,
    targets: results.length,
    pulled: count(({ outcome }) => outcome.kind === 'pulled'),
    changed: count(({ changedFiles }) => changedFiles > 0),
    tried: count(({ action, outcome }) => action.kind === 'pull' && outcome.kind !== 'unfinished'),
    failed: count(({ outcome }) => outcome.kind === 'failed'),
    held: count(isHeld),
    missing: count(({ outcome }) => outcome.kind === 'missing'),
    downloadedBytes: results.reduce((sum, result) => sum + result.downloadedBytes, 0),
    changedFiles: results.reduce((sum, result) => sum + result.changedFiles, 0),
    pulling: count(({ outcome }) => outcome.kind === 'unfinished' && outcome.hasBegun),
    waiting: count(({ outcome }) => outcome.kind === 'unfinished' && !outcome.hasBegun),
    processing: (listing.workbooks ?? []).filter((row) => row.processing > 0).length,
  };
}

/** Whether a pass left a target as it is on purpose, although the operator wants it. */
function isHeld({ action, outcome }: Pick<ActionResult, 'action' | 'outcome'>): boolean {
  if (action.deselection !== undefined) return true;
  return (
    (outcome.kind === 'guarded' || outcome.kind === 'held') && holdRule(action.reason).isHarmless !== true
  );
}

/**
 * The exit code of what a pass did: 0 only if something is selected, where there is something, nothing failed and nothing is held. What else
 * there is to say of the targets after it, `whyNotWell` knows.
 */
export function exitCodeOfPass(
  results: readonly Pick<ActionResult, 'action' | 'outcome'>[],
  selection: SelectionCheck,
  { repositoriesComplete }: Pick<Listing, 'repositoriesComplete'>,
): ExitCode {
  if (results.some(({ outcome }) => outcome.kind === 'failed' && outcome.code === 'internal.defect')) {
    return EXIT_CODES.defect;
  }
  const isIncomplete = results.some((result) => result.outcome.kind === 'failed' || isHeld(result));
  // A workbook whose row cannot be read is listed, and not mirrored.
  return isIncomplete || !repositoriesComplete || selectsNothing(selection)
    ? EXIT_CODES.incomplete
    : EXIT_CODES.ok;
}

/** Failures that any target meets while they last: they are of the service or of the disk. */
const SHARED_FAILURES: ReadonlySet<string> = new Set<ErrorCode>([
  'service.unreachable',
  'service.timeout',
  'service.busy',
  'disk.full',
  'directory.replaced',
]);

/**
 * Whether a pass that came to its end mirrored everything that can be mirrored (manual, "Exit codes"): every selected target is
 * verified, or failed, is held or in quarantine for a reason that is its own.
 */
export function isAllThatCanBe(
  results: readonly Pick<ActionResult, 'action' | 'outcome'>[],
  selection: SelectionCheck,
): boolean {
  const isShared = ({ action, outcome }: Pick<ActionResult, 'action' | 'outcome'>): boolean =>
    outcome.kind === 'unfinished' ||
    (outcome.kind === 'held' && holdRule(action.reason).isShared === true) ||
    (outcome.kind === 'failed' && SHARED_FAILURES.has(outcome.code));
  return !results.some(isShared) && !selectsNothing(selection);
}

/**
 * The lost targets that a later pass is still to bring back: all but those that a complete listing lacks, that the settings do not
 * select, or of which the service has no contents.
 */
export function stillAwaited(
  lost: readonly ListedTarget[],
  { repositoriesComplete }: Listing,
  results: readonly ActionResult[],
): readonly ListedTarget[] {
  if (!repositoriesComplete) return lost;
  const outcomes = new Map(
    results.map(({ action, outcome }) => [targetKey(action.target), outcome.kind] as const),
  );
  return lost.filter((target) => {
    const outcome = outcomes.get(targetKey(target));
    return outcome !== undefined && outcome !== 'absent' && outcome !== 'retired';
  });
}
