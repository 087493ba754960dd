import { isAhead } from '../../lib/time/wrong-clock.ts';
import { HEAD_BRANCH, targetKey } from '../upstream/listing.ts';
import {
  type Action,
  type HoldAction,
  holdOf,
  type PlanInput,
  type PullAction,
  type PullReason,
  RETIRE_REASONS,
  type RetireAction,
  type RetireReason,
  subjectOf,
} from './actions.ts';
import { approvalOf, type Approvals, exceedsLimit, type HeldDeletion, holdTogether } from './guard.ts';
import { comparisonPeriodMs, fullCheckDueMs, lastComparedMs } from './next-record.ts';
import { aboutTree, emptyRecord, type Published, type TargetRecord } from './record.ts';
import { type Candidate, findCandidates } from './targets.ts';

/** Decides what a pass does about every target, and why. Pure: the same facts give the same plan. */
export function makePlan(input: PlanInput): Action[] {
  const candidates = findCandidates(input);
  const deselections = heldDeselections(candidates, input);
  const plan = candidates.flatMap((candidate): Action[] => {
    const deselection = deselections.get(candidate);
    const { target, published } = candidate;
    const selected = candidate.selected || deselection !== undefined;
    if (!selected && published === null) return [];
    const remembered = input.records.get(targetKey(target)) ?? emptyRecord(target);
    const record = aboutTree(remembered, published?.publishedAtMs ?? null);
    const moveFrom = selected ? candidate.moveFrom : null;
    const action = decide({ ...candidate, selected, moveFrom, record }, input);
    return [deselection === undefined ? action : { ...action, deselection }];
  });
  return waitForPlaces(guardRetirements(plan, input), input);
}

/** A target to decide on, and its record. */
interface Case extends Candidate {
  readonly record: TargetRecord;
}

/** The first rule that decides counts; a rule that leaves it to the next returns null. If none decides, the target is pulled. */
function decide(of: Case, input: PlanInput): Action {
  return (
    leftAlone(of, input) ??
    leaving(of, input) ??
    unchanged(of, input) ??
    deletionHeld(of, input) ??
    failedBefore(of, input) ??
    stillProcessing(of, input) ??
    pull(of, input)
  );
}

/** A target that stays as it is, for example because only a complete answer shows that its repository is gone. */
function leftAlone(of: Case, { listing, unreadable }: PlanInput): Action | null {
  const { repositories, repositoriesComplete: isComplete, cached } = listing;
  const isGone = of.kind === 'repository-gone';
  if (!of.selected) return holdOf(of, 'not-selected');
  if (unreadable.has(of.path)) return holdOf(of, 'manifest-unreadable');
  if (isGone && repositories.length === 0) return holdOf(of, 'no-repositories-listed');
  // An old answer that a cache repeats is not another answer that lacks the repository.
  if (isGone && (!isComplete || cached !== null)) return holdOf(of, 'listing-incomplete');
  if (isGone && of.isContradicted) return holdOf(of, 'listing-contradicts-itself');
  // `HEAD` gives way to a named branch, which must be mirrored first, and shown by a complete list.
  const isWaiting = of.superseded === 'published' && !isComplete;
  return of.superseded === 'known' || isWaiting ? holdOf(of, 'superseded') : null;
}

/** A tree that should retire. One that was restored stays until an operator approves. */
function leaving(of: Case, input: PlanInput): Action | null {
  const { published, record } = of;
  const { approvals, policy } = input;
  const reason = reasonToLeave(of, input);
  if (reason === null || published === null) return null;
  if (isRestored(published, record, approvals)) {
    const total = input.published.length;
    return holdOf(of, 'restored', {
      guarded: { subject: 'restored', deletions: 1, of: total, digest: null },
    });
  }
  if (reason === 'moved') {
    const guarded = { subject: 'moved', deletions: 1, of: 1, digest: null } as const;
    if (approvalOf(approvals, of.target, guarded) === null) return holdOf(of, 'not-selected', { guarded });
  }
  if (reason === 'repository-gone' && record.missingPasses + 1 < policy.retireAfterPasses)
    return holdOf(of, 'repository-missing');
  // A duplicate shares its record with the tree that counts.
  const failed = reason === 'duplicate' ? null : failedBefore(of, input);
  return failed === null ? retire(of, published, reason) : { ...failed, isMissing: true };
}

function reasonToLeave(of: Case, input: PlanInput): RetireReason | null {
  if (of.kind !== 'listed') return of.kind;
  if (of.superseded === 'published') return 'branch-known';
  return isBranchGone(of, input) ? 'branch-gone' : null;
}

/**
 * Whether the service had no contents of a branch in all required answers but the last, which the retirement itself asks for.
 * While the retirement is held, a pull asks for the contents from time to time: the branch may be back.
 */
function isBranchGone(of: Case, input: PlanInput): boolean {
  const { held, missingPasses } = of.record;
  const { policy, approvals, nowMs } = input;
  const isLast = missingPasses > 0 && missingPasses + 1 >= policy.retireAfterPasses;
  if (!isLast || whenAbsent(of, input) !== 'count-as-missing') return false;
  const isLookDue = held !== null && nowMs >= held.nextLookAtMs;
  return !isLookDue || approvalOf(approvals, of.target, { subject: 'target', digest: null }) !== null;
}

/** Whether an operator restored this tree from the history, the service still lacks it, and no approval lets it go. */
function isRestored(tree: Published, { target, verifiedAtMs }: TargetRecord, approvals: Approvals): boolean {
  if (tree.restoredAtMs === null || (verifiedAtMs ?? 0) > tree.restoredAtMs) return false;
  return approvalOf(approvals, target, { subject: 'restored', digest: null }) === null;
}

/** A target with nothing to do. An unreadable row may be about any workbook: then the list verifies none. */
function unchanged(of: Case, input: PlanInput): Action | null {
  if (pullReason(of, input) !== null) return null;
  if (input.listing.unread.isAnywhere) return holdOf(of, 'row-unreadable');
  return { ...subjectOf(of), kind: 'keep', reason: of.published === null ? 'absent' : 'unchanged' };
}

/** A version that would delete too many files is not downloaded again at every pass only to be held again. */
function deletionHeld(of: Case, { policy, approvals, nowMs }: PlanInput): Action | null {
  const { held } = of.record;
  if (held?.subject !== 'files' || of.published?.treePresent !== true) return null;
  const isSame = held.fingerprint === of.fingerprint && nowMs < held.nextLookAtMs;
  if (!isSame || approvalOf(approvals, of.target, held) !== null) return null;
  if (!exceedsLimit(policy.guard.files, held.deletions, held.of)) return null;
  return holdOf(of, 'deletion-guard', { untilMs: held.nextLookAtMs });
}

/** A target that failed before waits for its time, for an operator or, in quarantine, for another version. */
function failedBefore(of: Case, { nowMs, retries }: PlanInput): HoldAction | null {
  const { failure } = of.record;
  const isDue = failure === null || nowMs >= failure.nextAttemptAtMs;
  if (isDue || isAskedFor(of, retries)) return null;
  const untilMs = failure.nextAttemptAtMs;
  if (failure.action !== 'quarantine') return holdOf(of, 'backing-off', { untilMs });
  return failure.fingerprint === of.fingerprint ? holdOf(of, 'quarantined', { untilMs }) : null;
}

/** A new branch that the service is still processing: its contents would soon change. */
function stillProcessing(of: Case, { policy, nowMs }: PlanInput): Action | null {
  if (of.published !== null || of.isSettled) return null;
  const untilMs = (of.record.processingSinceMs ?? nowMs) + policy.processingPatienceMs;
  return nowMs < untilMs ? holdOf(of, 'service-processing', { untilMs }) : null;
}

function pull(of: Case, input: PlanInput): PullAction {
  const reason = pullReason(of, input) ?? 'full-check';
  const { published } = of;
  const isThorough = published !== null && (isExaminationDue(of, published, input) || isRepairDue(of, input));
  return {
    ...subjectOf(of),
    kind: 'pull',
    reason,
    whenAbsent: whenAbsent(of, input),
    settled: of.isSettled,
    depth: isThorough ? 'bytes' : 'facts',
    byWorkbook: isThorough ? 'no' : answersByWorkbook(of, reason, input),
  };
}

/** Why the contents of a target are asked for; null if nothing suggests that they changed. */
function pullReason(of: Case, input: PlanInput): PullReason | null {
  const { published, record } = of;
  if (published === null) return isKnownAbsent(of, input) ? null : 'never-mirrored';
  if (!published.treePresent) return 'tree-missing';
  if (isRepairDue(of, input)) return 'drift';
  if (record.missingPasses > 0) return 'confirm-gone';
  // A list shows a change only by comparison with an earlier list: here, no list described the published contents.
  if (!isListRead(of, input) || published.fingerprint === null) return 'no-version-list';
  if (!published.settled && of.isSettled) return 'processing-finished';
  if (published.fingerprint !== of.fingerprint) return 'versions-changed';
  return isExaminationDue(of, published, input) || isMissingDue(of, published, input) ? 'full-check' : null;
}

/** Whether the service had no contents of a target when last asked, and nothing suggests that it has some now. */
function isKnownAbsent(of: Case, input: PlanInput): boolean {
  const { absentSinceMs, checkedAtMs } = of.record;
  if (absentSinceMs === null || of.isNamed || input.retries === 'all' || !isListRead(of, input)) return false;
  return input.nowMs < fullCheckDueMs(of.target, checkedAtMs ?? 0, input.policy.fullCheckMs);
}

/** Whether the list of workbooks shows every change in a target's repository. */
function isListRead({ repository, superseded }: Case, { listing }: PlanInput): boolean {
  if (superseded === 'not-yet') return false;
  return listing.workbooks !== null && !listing.unread.repositories.has(repository.fullName);
}

/** Whether the workbooks with new versions are all that changed: no listing shows the other files, which any repository may have. */
function answersByWorkbook(
  { repository, published, target }: Case,
  reason: PullReason,
  { listing, policy }: PlanInput,
): PullAction['byWorkbook'] {
  // Contents that were pulled while the service was still processing them are pulled once more, even without a new version.
  const isPlain =
    published?.settled === true &&
    reason === 'versions-changed' &&
    listing.workbooksComplete &&
    // An old list agrees with old files: no single file shows that it is older than the published one.
    listing.cached === null &&
    target.branch !== HEAD_BRANCH;
  if (!isPlain || policy.content === 'all') return 'no';
  if (policy.content === 'workbooks') return 'yes';
  return repository.url === null ? 'in-trees-of-workbooks' : 'no';
}

/** How missing contents are taken: a branch that a version names must exist. */
function whenAbsent(of: Case, { listing }: PlanInput): PullAction['whenAbsent'] {
  if (of.isNamed || of.isRequired) return 'fail';
  if (of.published === null) return 'accept';
  if (of.target.branch === HEAD_BRANCH) return 'fail';
  return listing.workbooks === null || listing.workbooksComplete ? 'count-as-missing' : 'fail';
}

/** The retirement of a tree from its present place: the tree of a renamed repository need not move first. */
function retire(of: Case, { path }: Published, reason: RetireReason): RetireAction {
  return { ...subjectOf(of), path, moveFrom: null, kind: 'retire', reason };
}

/** Holds the retirements of a pass when they are too many. */
function guardRetirements(plan: readonly Action[], input: PlanInput): Action[] {
  const due = plan.filter((action) => action.kind === 'retire' && RETIRE_REASONS[action.reason].isGuarded);
  const mirrored = plan.filter(({ published, reason }) => published !== null && reason !== 'not-selected');
  const held = holdTogether('target', due, mirrored.length, input);
  return plan.map((action) => {
    const guarded = held.get(action);
    return guarded === undefined ? action : holdOf(action, 'deletion-guard', { guarded });
  });
}

/**
 * The deselected targets that stay mirrored until an operator approves, because too many were deselected at once. A target without a
 * record was not mirrored before.
 */
function heldDeselections(
  candidates: readonly Candidate[],
  input: PlanInput,
): ReadonlyMap<Candidate, HeldDeletion> {
  const mirrored = candidates.filter(({ published, kind }) => published !== null && kind !== 'duplicate');
  const deselected = mirrored.filter(({ target, selected }) => {
    const last = input.records.get(targetKey(target))?.decisions[0];
    return !selected && last !== undefined && last.reason !== 'not-selected';
  });
  const total = mirrored.filter(({ selected }) => selected).length + deselected.length;
  return holdTogether('deselected', deselected, total, input);
}

/**
 * Holds a target whose path another repository's tree still occupies after this pass. Holds the tree of a gone repository while the
 * new target at its place waits for its next attempt: otherwise readers would have neither.
 */
function waitForPlaces(plan: readonly Action[], { published, others }: PlanInput): Action[] {
  const owners = new Map(published.map(({ path, repository }) => [path, repository.id]));
  const placesOfOthers = new Set(others.map(({ path }) => path));
  // Any other retirement is not certain yet, or its target stays.
  const leaving = plan.filter(({ reason }) => reason === 'repository-gone').map(({ path }) => path);
  const free = new Set(leaving);
  const isDelayed = (each: Action): boolean =>
    each.kind === 'hold' && each.published === null && each.untilMs !== null;
  const delayed = new Set(plan.filter(isDelayed).map(({ path }) => path));
  return plan.map((action) => {
    const { kind, path, moveFrom, target, published, reason } = action;
    if (reason === 'repository-gone' && delayed.has(path)) return holdOf(action, 'repository-missing');
    // A pull of an earlier pass may still run for a held target: it must not take the place either.
    const isNew = kind === 'hold' && published === null;
    const takesPlace = kind === 'pull' || kind === 'keep' || isNew || moveFrom !== null;
    const isOwn = (owners.get(path) ?? target.repositoryId) === target.repositoryId;
    const isFree = (isOwn || free.has(path)) && !placesOfOthers.has(path);
    return takesPlace && !isFree ? holdOf(action, 'path-occupied', { moveFrom: null }) : action;
  });
}

/** Whether every byte of a tree must be read again: a pull of a change does not read the other files. */
function isExaminationDue({ target, record }: Case, tree: Published, { nowMs, policy }: PlanInput): boolean {
  // A clock that was ahead wrote this manifest: the check rewrites it.
  if (isAhead(nowMs, tree.verifiedAtMs, tree.comparedAtMs, tree.publishedAtMs, tree.restoredAtMs))
    return true;
  const lastMs = record.examinedAtMs ?? lastComparedMs(record, tree);
  return nowMs >= fullCheckDueMs(target, lastMs, policy.fullCheckMs);
}

/** Whether a tree that differs from its manifest is repaired now: always, unless an operator must ask for it. */
function isRepairDue({ record, path }: Case, { retries }: PlanInput): boolean {
  return record.drift !== null && (record.drift.needsRepair || isAskedFor({ path }, retries));
}

/** Whether an operator wants a target tried now. */
function isAskedFor({ path }: Pick<Case, 'path'>, retries: PlanInput['retries']): boolean {
  return retries === 'all' || retries.has(path);
}

/** Whether to ask again for contents that lacked a listed workbook: they may have it without a new version. */
function isMissingDue({ target, record }: Case, tree: Published, { nowMs, policy }: PlanInput): boolean {
  if (tree.missing.length === 0) return false;
  const periodMs = comparisonPeriodMs(tree, policy.fullCheckMs);
  return nowMs >= fullCheckDueMs(target, lastComparedMs(record, tree), periodMs);
}
