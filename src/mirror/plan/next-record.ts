import { crc32 } from 'node:zlib';
import type { MirrorError } from '../../lib/errors/errors.ts';
import { counted } from '../../lib/text/humanize.ts';
import { type TargetId, targetKey } from '../upstream/listing.ts';
import { backOffDelayMs } from '../../lib/time/back-off.ts';
import { type ActionSubject, holdRule } from './actions.ts';
import { ContradictedError } from './contradictions.ts';
import type { HeldDeletion } from './guard.ts';
import { parentPath } from './paths.ts';
import {
  aboutTree,
  type Decision,
  type Failure,
  type Held,
  type Outcome,
  type Published,
  type RememberedTree,
  type TargetRecord,
} from './record.ts';

/** An action that was carried out, and the facts of its time. */
export interface RecordStep {
  readonly action: Pick<ActionSubject, 'path' | 'published' | 'fingerprint' | 'deselection'> & {
    readonly kind: string;
    readonly reason: string;
    readonly isMissing?: boolean;
  };
  readonly outcome: Outcome;
  /** The summary of the tree when the action was decided on; null if there was no tree. */
  readonly tree: RememberedTree | null;
  /** When the listing that led to the action was taken, in milliseconds since the epoch. */
  readonly listedAtMs: number;
  readonly nowMs: number;
  /** A number from 0 up to 1. */
  readonly random: number;
}

/** Wait after a target's first failure, and the longest wait, in milliseconds. */
const BACK_OFF = { firstDelayMs: 60_000, maxDelayMs: 3_600_000 };
/** The time until the next look at a target in quarantine, one that waits for an operator, or a held deletion, in milliseconds. */
const SLOW_RETRY_MS = BACK_OFF.maxDelayMs;

/** The record after an action: a pure function of the one before it and of what happened. */
export function nextRecord(before: TargetRecord, step: RecordStep): TargetRecord {
  const { deselection, published, path } = step.action;
  const record = {
    ...aboutTree(before, published?.publishedAtMs ?? null),
    repository: parentPath(path),
    tree: step.tree,
    decisions: nextDecisions(before.decisions, step),
  };
  const after = afterOutcome(record, step);
  // Another matter that needs an operator is reported first.
  if (after.held !== null && after.held.subject !== 'deselected') return after;
  const held = deselection === undefined ? null : nextHeld(before.held, deselection, null, step.nowMs);
  return { ...after, held };
}

function afterOutcome(record: TargetRecord, step: RecordStep): TargetRecord {
  const { action, outcome, nowMs } = step;
  switch (outcome.kind) {
    case 'held': {
      const isProcessing = action.reason === 'service-processing';
      const countsOn = action.isMissing === true || holdRule(action.reason).isNoEvidence === true;
      return {
        ...record,
        missingPasses: countsOn ? record.missingPasses : 0,
        processingSinceMs: record.processingSinceMs ?? (isProcessing ? nowMs : null),
      };
    }
    case 'guarded':
    case 'missing':
      return leavingLater(record, outcome, step);
    case 'failed': {
      // A retirement that failed does not bring its target back, so the answers that lack it still count; but if the repository is listed
      // again, and nothing of it is found, the service contradicts itself.
      const countsOn = action.kind === 'retire' && outcome.error.code !== 'contents.not_found';
      return {
        ...record,
        missingPasses: countsOn ? record.missingPasses : 0,
        // Any other failure gives no answer about the contents.
        doubt: outcome.error instanceof ContradictedError ? outcome.error.doubt : record.doubt,
        failure: nextFailure(record.failure, outcome.error, step),
      };
    }
    default:
      return foundRight(record, step, outcome);
  }
}

/** Subjects of held deletions whose target is gone. It stays gone, so that an approval need not wait for further answers. */
const GONE: ReadonlySet<string> = new Set<HeldDeletion['subject']>(['target', 'restored', 'deselected']);

/** The record of a target that will be retired, once enough answers lack it or an operator approves. */
function leavingLater(
  record: TargetRecord,
  outcome: Extract<Outcome, { kind: 'guarded' | 'missing' }>,
  { action, listedAtMs, nowMs }: RecordStep,
): TargetRecord {
  const missing = { missingPasses: record.missingPasses + 1, missingAtMs: listedAtMs };
  const { held } = record;
  if (outcome.kind === 'guarded') {
    const isGone = GONE.has(outcome.held.subject);
    const next = nextHeld(held, outcome.held, action.fingerprint, nowMs);
    return { ...record, ...(isGone ? missing : { missingPasses: 0 }), failure: null, held: next };
  }
  // A held retirement stays held; only the next look is due later.
  const isHeldWhole = held?.subject === 'target' || held?.subject === 'restored';
  const next = isHeldWhole ? { ...held, nextLookAtMs: nowMs + SLOW_RETRY_MS } : null;
  return { ...record, ...missing, failure: null, held: next };
}

/** The record of a target that equals the service: earlier failures no longer count. */
function foundRight(
  record: TargetRecord,
  { action, listedAtMs, nowMs }: RecordStep,
  outcome: Extract<Outcome, { kind: 'kept' | 'pulled' | 'absent' | 'retired' }>,
): TargetRecord {
  const right = {
    ...record,
    verifiedAtMs: listedAtMs,
    missingPasses: 0,
    processingSinceMs: null,
    absentSinceMs: null,
    failure: null,
    doubt: null,
    held: null,
  };
  switch (outcome.kind) {
    case 'kept':
      return { ...right, absentSinceMs: action.reason === 'absent' ? record.absentSinceMs : null };
    case 'absent':
      return { ...right, checkedAtMs: nowMs, absentSinceMs: record.absentSinceMs ?? nowMs };
    case 'retired':
      return { ...right, verifiedAtMs: record.verifiedAtMs, tree: null };
    case 'pulled': {
      const verifiedAtMs = Math.min(listedAtMs, outcome.asOfMs ?? listedAtMs);
      return {
        ...right,
        verifiedAtMs,
        checkedAtMs: outcome.isWhole ? verifiedAtMs : record.checkedAtMs,
        examinedAtMs: outcome.isExamined ? nowMs : record.examinedAtMs,
        publishedAtMs: outcome.publishedAtMs,
        tree: outcome.tree ?? record.tree,
      };
    }
  }
}

function nextFailure(
  before: Failure | null,
  { code, action, message, hint, retryAfterMs = 0 }: MirrorError,
  { action: { fingerprint }, nowMs, random }: RecordStep,
): Failure {
  const attempts = (before?.attempts ?? 0) + 1;
  const delayMs =
    action === 'retry'
      ? backOffDelayMs(BACK_OFF, attempts, random, retryAfterMs)
      : Math.max(SLOW_RETRY_MS, retryAfterMs);
  return {
    code,
    action,
    message,
    hint: hint ?? null,
    sinceMs: before?.sinceMs ?? nowMs,
    lastAtMs: nowMs,
    attempts,
    nextAttemptAtMs: nowMs + delayMs,
    fingerprint,
  };
}

/** The hold that waits for approval: since when, and with the highest number of deletions so far. */
function nextHeld(before: Held | null, held: HeldDeletion, fingerprint: string | null, nowMs: number): Held {
  const isSame = before?.subject === held.subject && before.digest === held.digest;
  const same = isSame ? before : null;
  const most = same !== null && same.deletions > held.deletions ? same : held;
  return {
    ...held,
    deletions: most.deletions,
    of: most.of,
    fingerprint,
    sinceMs: same?.sinceMs ?? nowMs,
    nextLookAtMs: same !== null && same.nextLookAtMs > nowMs ? same.nextLookAtMs : nowMs + SLOW_RETRY_MS,
    first: held.first ?? same?.first ?? [],
  };
}

/** The most decisions that are remembered. */
const MAX_DECISIONS = 20;

function nextDecisions(
  decisions: readonly Decision[],
  { action: { kind, reason }, outcome, nowMs }: RecordStep,
): readonly Decision[] {
  const [last, ...older] = decisions;
  // A pull or a retirement may find a deletion that must be held.
  const decision = { kind: outcome.kind === 'guarded' ? 'hold' : kind, reason, result: resultOf(outcome) };
  const isSame =
    last?.kind === decision.kind && last.reason === decision.reason && last.result === decision.result;
  if (!isSame) return [{ ...decision, firstAtMs: nowMs }, ...decisions].slice(0, MAX_DECISIONS);
  return last.firstAtMs <= nowMs ? decisions : [{ ...last, firstAtMs: nowMs }, ...older];
}

function resultOf(outcome: Outcome): string {
  if (outcome.kind === 'failed') return outcome.error.code;
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

/**
 * When a target is next compared whole, in milliseconds since the epoch: after half to all of the period, spread so that targets that
 * were mirrored together are not checked together.
 */
export function fullCheckDueMs(target: TargetId, checkedAtMs: number, fullCheckMs: number): number {
  const spread = crc32(`${targetKey(target)}\n${checkedAtMs}`) / 0xffffffff;
  return checkedAtMs + Math.ceil(fullCheckMs * (0.5 + spread / 2));
}

/** When a tree was last compared with the whole contents. Milliseconds since the epoch. */
export function lastComparedMs({ checkedAtMs }: TargetRecord, { comparedAtMs }: Published): number {
  return Math.max(checkedAtMs ?? 0, comparedAtMs);
}

/** The time until contents that lack a listed workbook are asked for again, in milliseconds. */
const MISSING_CHECK_MS = 60 * 60_000;

/** The longest time between two comparisons of a tree with the whole contents, in milliseconds. */
export function comparisonPeriodMs({ missing }: Pick<Published, 'missing'>, fullCheckMs: number): number {
  return missing.length === 0 ? fullCheckMs : Math.min(fullCheckMs, MISSING_CHECK_MS);
}
