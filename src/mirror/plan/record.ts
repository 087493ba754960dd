import { backOffDelayMs, type BackOffPolicy } from '../../lib/time/back-off.ts';
import type { ErrorAction, ErrorCode } from '../../lib/errors/errors.ts';
import type { HeldDeletion } from './guard.ts';
import { counted } from '../../lib/text/humanize.ts';
import type { RememberedTree } from './targets.ts';
import type { TargetId } from '../upstream/listing.ts';

/** Why the last attempt at a target failed, and when the next one is due. Times in milliseconds since the epoch. */
export interface Failure {
  readonly code: ErrorCode;
  readonly action: ErrorAction;
  readonly message: string;
  readonly hint: string | null;
  readonly sinceMs: number;
  readonly lastAtMs: number;
  /** Failures in a row. */
  readonly attempts: number;
  readonly nextAttemptAtMs: number;
  /** The digest of the versions that failed: a quarantine ends when it changes. */
  readonly fingerprint: string | null;
  /** As `PlanPolicy.verdictDigest` was: a quarantine ends when it changes, too. Null in records of earlier versions. */
  readonly verdictDigest: string | null;
}

/** A deletion that the guard held back. Times in milliseconds since the epoch. */
export interface Held extends HeldDeletion {
  readonly sinceMs: number;
  /** When the contents are looked at again without an approval. */
  readonly nextLookAtMs: number;
  /** The digest of the versions that would delete. */
  readonly fingerprint: string | null;
  /** The first of the files that would go; none where nothing would. */
  readonly first: readonly string[];
}

/** A decision that was taken about a target, once or several times in a row. */
export interface Decision {
  readonly kind: string;
  readonly reason: string;
  readonly result: string;
  readonly firstAtMs: number;
  readonly lastAtMs: number;
  readonly times: number;
}

/** What is remembered of a target beside its manifest. Losing it costs requests, never data. */
export interface TargetRecord {
  readonly target: TargetId;
  /** The repository's path below `mirror/`, for people. */
  readonly repository: string;
  /** When the target was last known to be what the service has; null when never. Milliseconds since the epoch. */
  readonly verifiedAtMs: number | null;
  /** When the contents were last compared whole. Milliseconds since the epoch. */
  readonly checkedAtMs: number | null;
  /** When every byte of the published tree was last read and found to be what its manifest says. Milliseconds since the epoch. */
  readonly examinedAtMs: number | null;
  /** `publishedAtMs` of the tree that these times speak of: they say nothing of another, such as one from an older backup. */
  readonly publishedAtMs: number | null;
  /** What its manifest says of its tree, so that it need not be read again; null where nothing is remembered. */
  readonly tree: RememberedTree | null;
  /** Complete answers in a row that lacked the target; an answer that proves nothing neither counts nor resets. */
  readonly missingPasses: number;
  /** Since when a target that was never mirrored waits for the service to finish with it. Milliseconds since the epoch. */
  readonly processingSinceMs: number | null;
  /** Since when the service has no contents for it, although nothing says that it should. Milliseconds since the epoch. */
  readonly absentSinceMs: number | null;
  readonly failure: Failure | null;
  /** What waits for `approve`. */
  readonly held: Held | null;
  /** The latest first. */
  readonly decisions: readonly Decision[];
}

/**
 * The record of a target of which nothing is remembered.
 * @param repository the repository's path below `mirror/`, where it is known
 */
export function emptyRecord(target: TargetId, repository = ''): TargetRecord {
  return {
    target,
    repository,
    verifiedAtMs: null,
    checkedAtMs: null,
    examinedAtMs: null,
    publishedAtMs: null,
    tree: null,
    missingPasses: 0,
    processingSinceMs: null,
    absentSinceMs: null,
    failure: null,
    held: null,
    decisions: [],
  };
}

/** What became of an action. */
export type Outcome =
  | { readonly kind: 'kept' }
  /** The contents were compared; `changedFiles` of them were published. */
  | {
      readonly kind: 'pulled';
      readonly changedFiles: number;
      /** Whether they were compared whole, and not just the workbooks with new versions. */
      readonly isWhole: boolean;
      /** As in the tree's manifest. Milliseconds since the epoch. */
      readonly publishedAtMs: number;
      /** Whether every byte of the tree was read or written. */
      readonly isExamined: boolean;
      /** What the manifest says that was published; null where none was. */
      readonly tree: RememberedTree | null;
    }
  | { readonly kind: 'held' }
  /** Too much would be deleted: it waits for a person's word. */
  | { readonly kind: 'guarded'; readonly held: HeldDeletion; readonly fingerprint: string | null }
  /** The service has nothing there, and a complete answer agrees. */
  | { readonly kind: 'missing' }
  | { readonly kind: 'absent' }
  | { readonly kind: 'retired' }
  | {
      readonly kind: 'failed';
      readonly code: ErrorCode;
      readonly action: ErrorAction;
      readonly message: string;
      readonly hint: string | null;
      readonly retryAfterMs: number;
      readonly fingerprint: string | null;
    };

/** How failed and absent targets are tried again. */
export interface RetryPolicy {
  readonly backOff: BackOffPolicy;
  /** A quarantined or stalled target is looked at again after this, in milliseconds. */
  readonly slowRetryMs: number;
}

const MAX_DECISIONS = 20;

function withDecision(
  decisions: readonly Decision[],
  kind: string,
  reason: string,
  result: string,
  nowMs: number,
): Decision[] {
  const [last, ...older] = decisions;
  if (last !== undefined && last.kind === kind && last.reason === reason && last.result === result) {
    return [{ ...last, lastAtMs: nowMs, times: last.times + 1 }, ...older];
  }
  return [{ kind, reason, result, firstAtMs: nowMs, lastAtMs: nowMs, times: 1 }, ...decisions].slice(
    0,
    MAX_DECISIONS,
  );
}

function nextFailure(
  previous: Failure | null,
  outcome: Extract<Outcome, { kind: 'failed' }>,
  policy: RetryPolicy,
  { nowMs, random, verdictDigest }: RecordStep,
): Failure {
  const attempts = (previous?.attempts ?? 0) + 1;
  const delayMs =
    outcome.action === 'retry'
      ? backOffDelayMs(policy.backOff, attempts, random, outcome.retryAfterMs)
      : Math.max(policy.slowRetryMs, outcome.retryAfterMs);
  return {
    code: outcome.code,
    action: outcome.action,
    message: outcome.message,
    hint: outcome.hint,
    sinceMs: previous?.sinceMs ?? nowMs,
    lastAtMs: nowMs,
    attempts,
    nextAttemptAtMs: nowMs + delayMs,
    fingerprint: outcome.fingerprint,
    verdictDigest,
  };
}

/** What a record becomes after an action. */
export interface RecordStep {
  /** The repository's path below `mirror/`. */
  readonly repository: string;
  readonly kind: string;
  readonly reason: string;
  readonly outcome: Outcome;
  /** `publishedAtMs` of the tree that stood there when the action was decided on; null where none did. */
  readonly publishedAtMs: number | null;
  /** What the manifest said then of the tree; null where there was none. */
  readonly tree: RememberedTree | null;
  /** When the listing was taken that the action was decided on, in milliseconds since the epoch. */
  readonly listedAtMs: number;
  readonly nowMs: number;
  /** A number from 0 up to 1. */
  readonly random: number;
  /** See `PlanPolicy.verdictDigest`. */
  readonly verdictDigest: string;
  /** See `Action.deselection`. */
  readonly deselection: HeldDeletion | undefined;
}

/** A record without the times that speak of another tree than the one that stands there. */
export function aboutTree(record: TargetRecord, publishedAtMs: number | null): TargetRecord {
  if (publishedAtMs === null || record.publishedAtMs === publishedAtMs) return record;
  return { ...record, publishedAtMs, verifiedAtMs: null, checkedAtMs: null, examinedAtMs: null };
}

/** The record after an action: a pure function of the one before it and of what happened. */
export function nextRecord(before: TargetRecord, step: RecordStep, policy: RetryPolicy): TargetRecord {
  const after = afterOutcome(before, step, policy);
  const { deselection, nowMs } = step;
  const isOther = after.held !== null && after.held.subject !== 'deselected';
  // What else waits for a person is told first.
  if (isOther) return after;
  const held = deselection === undefined ? null : heldSince(before.held, deselection, null, nowMs, policy);
  return { ...after, held };
}

function afterOutcome(before: TargetRecord, step: RecordStep, policy: RetryPolicy): TargetRecord {
  const { repository, tree } = step;
  const record = { ...aboutTree(before, step.publishedAtMs), repository, tree };
  const { outcome, listedAtMs, nowMs } = step;
  const decisions = withDecision(record.decisions, step.kind, step.reason, describe(outcome), nowMs);
  const seen = {
    ...record,
    decisions,
    missingPasses: 0,
    processingSinceMs: null,
    absentSinceMs: null,
    held: null,
  };
  switch (outcome.kind) {
    case 'kept':
      return {
        ...seen,
        verifiedAtMs: listedAtMs,
        failure: null,
        absentSinceMs: step.reason === 'absent' ? record.absentSinceMs : null,
      };
    case 'pulled':
      return {
        ...seen,
        verifiedAtMs: listedAtMs,
        checkedAtMs: outcome.isWhole ? listedAtMs : record.checkedAtMs,
        examinedAtMs: outcome.isExamined ? nowMs : record.examinedAtMs,
        publishedAtMs: outcome.publishedAtMs,
        tree: outcome.tree ?? tree,
        failure: null,
      };
    case 'held':
      return heldRecord({ ...record, decisions }, step);
    case 'guarded':
      return guardedRecord({ ...record, decisions }, outcome, nowMs, policy);
    case 'missing':
      return { ...record, decisions, missingPasses: record.missingPasses + 1, failure: null, held: null };
    case 'absent':
      return {
        ...seen,
        verifiedAtMs: listedAtMs,
        checkedAtMs: nowMs,
        failure: null,
        absentSinceMs: record.absentSinceMs ?? nowMs,
      };
    case 'retired':
      return { ...seen, tree: null, failure: null };
    case 'failed':
      return {
        ...record,
        decisions,
        missingPasses: 0,
        failure: nextFailure(record.failure, outcome, policy, step),
      };
  }
}

/** A target that is gone stays so while it is held, so that an approval need not wait for further answers. */
function guardedRecord(
  record: TargetRecord,
  { held, fingerprint }: Extract<Outcome, { kind: 'guarded' }>,
  nowMs: number,
  policy: RetryPolicy,
): TargetRecord {
  return {
    ...record,
    failure: null,
    missingPasses: held.subject === 'files' ? 0 : record.missingPasses + 1,
    held: heldSince(record.held, held, fingerprint, nowMs, policy),
  };
}

/** What waits for a person's word, since when, and as much of it as there ever was. */
function heldSince(
  before: Held | null,
  held: HeldDeletion,
  fingerprint: string | null,
  nowMs: number,
  policy: RetryPolicy,
): Held {
  const isSame = before?.subject === held.subject && before.digest === held.digest;
  return {
    ...held,
    ...(isSame && before.deletions > held.deletions ? { deletions: before.deletions, of: before.of } : {}),
    fingerprint,
    sinceMs: isSame ? before.sinceMs : nowMs,
    nextLookAtMs: nowMs + policy.slowRetryMs,
    first: held.first ?? (isSame ? before.first : []),
  };
}

/** Holds because an answer proves nothing, or has had no effect; the others know that the target is, or may be, there. */
const NO_EVIDENCE: ReadonlySet<string> = new Set(['listing-incomplete', 'no-repositories-listed', 'lease']);

function heldRecord(record: TargetRecord, { reason, nowMs }: RecordStep): TargetRecord {
  return {
    ...record,
    missingPasses: NO_EVIDENCE.has(reason) ? record.missingPasses : 0,
    processingSinceMs:
      reason === 'service-processing' ? (record.processingSinceMs ?? nowMs) : record.processingSinceMs,
  };
}

function describe(outcome: Outcome): string {
  if (outcome.kind === 'failed') return outcome.code;
  if (outcome.kind === 'guarded') {
    const { deletions, of, subject } = outcome.held;
    if (subject === 'restored') return 'kept, as it was restored';
    return `would delete ${deletions} of ${of} ${subject === 'target' ? 'targets' : 'files'}`;
  }
  if (outcome.kind === 'pulled') {
    return outcome.changedFiles === 0 ? 'same contents' : `${counted(outcome.changedFiles, 'file')} changed`;
  }
  return outcome.kind;
}
