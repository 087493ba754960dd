import { counted } from '../../lib/text/humanize.ts';
import { backOffDelayMs } from '../../lib/time/back-off.ts';
import type { HeldDeletion } from './guard.ts';
import { holdRule } from './actions.ts';
import {
  aboutTree,
  type Decision,
  type Failure,
  type Held,
  type Outcome,
  type RetryPolicy,
  type TargetRecord,
  type RememberedTree,
} from './record.ts';

const MAX_DECISIONS = 20;

function withDecision(
  decisions: readonly Decision[],
  kind: string,
  reason: string,
  result: string,
  nowMs: number,
): readonly Decision[] {
  const [last, ...older] = decisions;
  if (last !== undefined && last.kind === kind && last.reason === reason && last.result === result) {
    return last.firstAtMs <= nowMs ? decisions : [{ ...last, firstAtMs: nowMs }, ...older];
  }
  return [{ kind, reason, result, firstAtMs: nowMs }, ...decisions].slice(0, MAX_DECISIONS);
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

/** An action that was carried out, and the facts of its time. */
export interface RecordStep {
  /** The repository's path below `mirror/`. */
  readonly repository: string;
  readonly kind: string;
  readonly reason: string;
  readonly outcome: Outcome;
  /** `publishedAtMs` of the tree that stood there when the action was decided on; null where none did. */
  readonly publishedAtMs: number | null;
  /** The summary of the tree then; null where there was none. */
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

/** The record after an action: a pure function of the one before it and of what happened. */
export function nextRecord(before: TargetRecord, step: RecordStep, policy: RetryPolicy): TargetRecord {
  const after = afterOutcome(before, step, policy);
  const { deselection, nowMs } = step;
  const isOther = after.held !== null && after.held.subject !== 'deselected';
  // Another matter that waits for a person is reported first.
  if (isOther) return after;
  const held = deselection === undefined ? null : heldSince(before.held, deselection, null, nowMs, policy);
  return { ...after, held };
}

/** The kind of decision that an action turned out to be: a pull, or a retirement, may find a deletion that is held. */
function kindOf({ kind, outcome }: RecordStep): string {
  return outcome.kind === 'guarded' ? 'hold' : kind;
}

function afterOutcome(before: TargetRecord, step: RecordStep, policy: RetryPolicy): TargetRecord {
  const { repository, tree } = step;
  const record = { ...aboutTree(before, step.publishedAtMs), repository, tree };
  const { outcome, listedAtMs, nowMs } = step;
  const decisions = withDecision(record.decisions, kindOf(step), step.reason, describe(outcome), nowMs);
  const seen = {
    ...record,
    decisions,
    missingPasses: 0,
    processingSinceMs: null,
    absentSinceMs: null,
    doubt: null,
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
    case 'pulled': {
      const verifiedAtMs = Math.min(listedAtMs, outcome.asOfMs ?? listedAtMs);
      return {
        ...seen,
        verifiedAtMs,
        checkedAtMs: outcome.isWhole ? verifiedAtMs : record.checkedAtMs,
        examinedAtMs: outcome.isExamined ? nowMs : record.examinedAtMs,
        publishedAtMs: outcome.publishedAtMs,
        tree: outcome.tree ?? tree,
        failure: null,
      };
    }
    case 'held':
      return heldRecord({ ...record, decisions }, step);
    case 'guarded':
      return guardedRecord({ ...record, decisions }, outcome, nowMs, policy);
    case 'missing':
      return missingRecord({ ...record, decisions }, nowMs, policy);
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
      return failedRecord({ ...record, decisions }, outcome, policy, step);
  }
}

function failedRecord(
  record: TargetRecord,
  outcome: Extract<Outcome, { kind: 'failed' }>,
  policy: RetryPolicy,
  step: RecordStep,
): TargetRecord {
  return {
    ...record,
    missingPasses: 0,
    // Any other failure is no answer: it says nothing about the contents.
    doubt: outcome.doubt ?? record.doubt,
    failure: nextFailure(record.failure, outcome, policy, step),
  };
}

/** One more answer without the target. A retirement that is held stays held, and the next look is due later. */
function missingRecord(record: TargetRecord, nowMs: number, policy: RetryPolicy): TargetRecord {
  const { held, missingPasses } = record;
  const isHeldWhole = held?.subject === 'target' || held?.subject === 'restored';
  const heldOn = isHeldWhole ? { ...held, nextLookAtMs: nowMs + policy.slowRetryMs } : null;
  return { ...record, missingPasses: missingPasses + 1, failure: null, held: heldOn };
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
    missingPasses: held.subject === 'files' || held.subject === 'moved' ? 0 : record.missingPasses + 1,
    held: heldSince(record.held, held, fingerprint, nowMs, policy),
  };
}

/** The hold that waits for a person's word, since when, and with the most deletions that there ever were. */
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
    nextLookAtMs: isSame && before.nextLookAtMs > nowMs ? before.nextLookAtMs : nowMs + policy.slowRetryMs,
    first: held.first ?? (isSame ? before.first : []),
  };
}

function heldRecord(record: TargetRecord, { reason, nowMs }: RecordStep): TargetRecord {
  return {
    ...record,
    missingPasses: holdRule(reason).isNoEvidence === true ? record.missingPasses : 0,
    processingSinceMs:
      reason === 'service-processing' ? (record.processingSinceMs ?? nowMs) : record.processingSinceMs,
  };
}

function describe(outcome: Outcome): string {
  if (outcome.kind === 'failed') return outcome.code;
  if (outcome.kind === 'guarded') {
    const { deletions, of, subject } = outcome.held;
    if (subject === 'restored') return 'kept, as it was restored';
    if (subject === 'moved') return 'kept, as another instance mirrors it now';
    return `would delete ${deletions} of ${of} ${subject === 'target' ? 'targets' : 'files'}`;
  }
  if (outcome.kind === 'pulled') {
    return outcome.changedFiles === 0 ? 'same contents' : `${counted(outcome.changedFiles, 'file')} changed`;
  }
  return outcome.kind;
}
