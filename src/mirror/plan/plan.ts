import type {
  HoldReason,
  PullReason,
  Action,
  ActionOf,
  HoldAction,
  KeepAction,
  PullAction,
} from './actions.ts';
import { exceedsLimit, isApproved } from './guard.ts';
import { guardRetirements, heldDeselections, isRestored } from './held-actions.ts';
import type { PlanInput } from './input.ts';
import { type Published, aboutTree, emptyRecord, type TargetRecord } from './record.ts';
import { HEAD_BRANCH, type TargetId, targetKey } from '../upstream/listing.ts';
import { isAhead } from '../../lib/time/wrong-clock.ts';
import { findCandidates, type Candidate } from './targets.ts';

/**
 * Decides what a pass does about every target, and why. Pure: the same facts give the same plan.
 */
export function makePlan(facts: PlanInput): Action[] {
  const { repositories } = facts.listing;
  const input = {
    ...facts,
    listedIds: new Set(repositories.map(({ id }) => id)),
    listedNames: new Set(repositories.map(({ fullName }) => fullName)),
  };
  const candidates = findCandidates(input);
  const deselections = heldDeselections(candidates, input);
  const plan = candidates.flatMap((candidate): Action[] => {
    const deselection = deselections.get(candidate);
    const remembered = input.records.get(targetKey(candidate.target)) ?? emptyRecord(candidate.target);
    const record = aboutTree(remembered, candidate.published?.publishedAtMs ?? null);
    const asBefore = deselection === undefined ? candidate : { ...candidate, selected: true };
    const action = decideForgotten(candidate, record, input) ?? decide(asBefore, record, input);
    if (action === null) return [];
    return [deselection === undefined ? action : { ...action, deselection }];
  });
  return guardRetirements(plan, input);
}

/** The facts, with what is asked of them again and again. */
interface PlanFacts extends PlanInput {
  readonly listedIds: ReadonlySet<string>;
  readonly listedNames: ReadonlySet<string>;
}

function decide(candidate: Candidate, record: TargetRecord, input: PlanFacts): Action | null {
  if (!candidate.selected) {
    return candidate.published === null ? null : hold(candidate, 'not-selected');
  }
  if (input.unreadable.has(candidate.path)) return hold(candidate, 'manifest-unreadable');
  if (candidate.duplicate) {
    return isRestored(candidate.published, record, input.approvals)
      ? holdRestored(candidate, input)
      : { ...common(candidate), kind: 'retire', reason: 'duplicate' };
  }
  if (candidate.moved) return decideMoved(candidate, record, input);
  if (candidate.listed === null) return decideGone(candidate, record, input);
  if (candidate.superseded !== 'no') return decideSuperseded(candidate, record, input);
  const occupied = decideOccupied(candidate, input);
  if (occupied !== null) return occupied;
  const action = decideBranchGone(candidate, record, input) ?? decidePull(candidate, record, input);
  if (action.kind === 'keep' || action.kind === 'retire') return action;
  return decideHeld(candidate, record, input) ?? decideFailed(candidate, record, input) ?? action;
}

/** The branch `HEAD` of a repository of which a named branch is known now. */
function decideSuperseded(candidate: Candidate, record: TargetRecord, input: PlanInput): Action {
  if (candidate.superseded === 'known' || !input.listing.repositoriesComplete)
    return hold(candidate, 'superseded');
  return isRestored(candidate.published, record, input.approvals)
    ? holdRestored(candidate, input)
    : { ...common(candidate), kind: 'retire', reason: 'branch-known' };
}

/** A tree that a person had forgotten, and that would not be mirrored again: deselected, another instance's, or gone from the service. */
function decideForgotten(
  candidate: Candidate,
  { missingPasses }: TargetRecord,
  { approvals, listing }: PlanInput,
): Action | null {
  const { target, published, selected, moved, listed, duplicate } = candidate;
  const isForgotten = isApproved(approvals, target, { subject: 'forgotten', digest: null });
  if (!isForgotten || published === null || duplicate) return null;
  const isComplete = listing.repositoriesComplete && listing.repositories.length > 0;
  const isGone = missingPasses > 0 || (listed === null && isComplete);
  if (selected && !moved && !isGone) return null;
  const { path } = published;
  return { ...common(candidate), path, moveFrom: null, kind: 'retire', reason: 'forgotten' };
}

/** A repository that the service no longer lists; only a complete answer counts. */
function decideGone(candidate: Candidate, record: TargetRecord, input: PlanFacts): Action {
  const { listing, policy } = input;
  if (listing.repositories.length === 0) return hold(candidate, 'no-repositories-listed');
  // One old answer that a cache gives again and again is no further answer that lacks it.
  if (!listing.repositoriesComplete || listing.cached !== null) return hold(candidate, 'listing-incomplete');
  const renamedAway = input.listedNames.has(candidate.repository.fullName);
  if (!renamedAway && (candidate.rows?.all.length ?? 0) > 0)
    return hold(candidate, 'listing-contradicts-itself');
  if (isRestored(candidate.published, record, input.approvals)) return holdRestored(candidate, input);
  if (record.missingPasses + 1 < policy.retireAfterPasses) {
    return { ...hold(candidate, 'repository-missing'), missing: true };
  }
  return (
    decideFailed(candidate, record, input) ?? {
      ...common(candidate),
      kind: 'retire',
      reason: 'repository-gone',
    }
  );
}

/**
 * A branch of which the service had no contents in all answers that it takes but the last one, for which the retirement itself asks.
 * While the retirement is held, the contents are looked for from time to time: without a list of workbooks nothing else shows that the
 * branch is back.
 */
function decideBranchGone(candidate: Candidate, record: TargetRecord, input: PlanInput): Action | null {
  const { held, missingPasses } = record;
  const { policy, approvals, nowMs } = input;
  const isLast = missingPasses > 0 && missingPasses + 1 >= policy.retireAfterPasses;
  const isDue = isLast && whenAbsent(candidate, input) === 'count-as-missing';
  if (!isDue) return null;
  const isApprovedNow = isApproved(approvals, candidate.target, { subject: 'target', digest: null });
  if (held !== null && nowMs >= held.nextLookAtMs && !isApprovedNow) return null;
  if (isRestored(candidate.published, record, approvals)) return holdRestored(candidate, input);
  // The tree of a renamed repository leaves from its present place; it need not move first.
  const path = candidate.published?.path ?? candidate.path;
  return { ...common(candidate), path, moveFrom: null, kind: 'retire', reason: 'branch-gone' };
}

/** On a disk of its own a tree that another instance mirrors stays until a person lets it go. */
function decideMoved(candidate: Candidate, record: TargetRecord, input: PlanFacts): Action {
  const { approvals } = input;
  if (isRestored(candidate.published, record, approvals)) return holdRestored(candidate, input);
  const guarded = { subject: 'moved', deletions: 1, of: 1, digest: null } as const;
  return isApproved(approvals, candidate.target, guarded)
    ? { ...common(candidate), moveFrom: null, kind: 'retire', reason: 'moved' }
    : { ...hold(candidate, 'not-selected'), moveFrom: null, guarded };
}

function holdRestored(candidate: Candidate, { published }: PlanInput): Action {
  const guarded = { subject: 'restored', deletions: 1, of: published.length, digest: null } as const;
  return { ...hold(candidate, 'restored'), guarded };
}

/** A new repository whose place is still taken by the tree of a gone one waits until that one's time has come. */
function decideOccupied(candidate: Candidate, input: PlanFacts): Action | null {
  const { occupant } = candidate;
  // Its instance has it leave the mirror.
  if (candidate.occupiedByOther) return { ...hold(candidate, 'path-occupied'), moveFrom: null };
  if (occupant === null) return null;
  const key = targetKey({ repositoryId: occupant.repository.id, branch: occupant.branch });
  const record = input.records.get(key) ?? emptyRecord(candidate.target);
  const { missingPasses } = record;
  const isListed = input.listedIds.has(occupant.repository.id);
  const isDue =
    !isRestored(occupant, record, input.approvals) &&
    !isListed &&
    input.listing.repositoriesComplete &&
    missingPasses + 1 >= input.policy.retireAfterPasses;
  return !isDue ? { ...hold(candidate, 'path-occupied'), moveFrom: null } : null;
}

/** A version that would delete too many files is not downloaded again at every pass only to be held again. */
function decideHeld(candidate: Candidate, { held }: TargetRecord, input: PlanInput): Action | null {
  const { policy, approvals, nowMs } = input;
  if (held?.subject !== 'files' || candidate.published?.treePresent !== true) return null;
  const isSame = held.fingerprint === digestOf(candidate) && nowMs < held.nextLookAtMs;
  if (!isSame || isApproved(approvals, candidate.target, held)) return null;
  return exceedsLimit(policy.guard.files, held.deletions, held.of)
    ? { ...hold(candidate, 'deletion-guard'), untilMs: held.nextLookAtMs }
    : null;
}

/** A target that failed before waits for its time, in quarantine also for another version or other settings, or for a person. */
function decideFailed(candidate: Candidate, record: TargetRecord, input: PlanInput): Action | null {
  const { failure } = record;
  const isDue = failure === null || input.nowMs >= failure.nextAttemptAtMs;
  if (isDue || input.urgent || input.retries.has(candidate.path)) return null;
  const untilMs = failure.nextAttemptAtMs;
  if (failure.action !== 'quarantine') return { ...hold(candidate, 'backing-off'), untilMs };
  const isSame =
    failure.fingerprint === digestOf(candidate) && failure.verdictDigest === input.policy.verdictDigest;
  return isSame ? { ...hold(candidate, 'quarantined'), untilMs } : null;
}

function decidePull(candidate: Candidate, record: TargetRecord, input: PlanInput): Action {
  const { published } = candidate;
  const settled = candidate.rows?.isSettled(candidate.target.branch) ?? true;
  if (published === null) return decideFirstPull(candidate, record, input, settled);
  const reason = pullReason(candidate, published, record, input, settled);
  if (reason === null) return keep(candidate, 'unchanged', input);
  const isExaminationDue = isCheckDue(candidate.target, record, published, input);
  const depth = isExaminationDue || record.drift?.needsRepair === true ? 'bytes' : 'facts';
  const byWorkbook = depth === 'facts' ? answersByWorkbook(candidate, reason, input) : 'no';
  return { ...pull(candidate, reason, input, settled), depth, byWorkbook };
}

function decideFirstPull(
  candidate: Candidate,
  record: TargetRecord,
  input: PlanInput,
  settled: boolean,
): Action {
  const { policy, nowMs } = input;
  if (!settled) {
    const untilMs = (record.processingSinceMs ?? nowMs) + policy.processingPatienceMs;
    if (nowMs < untilMs) return { ...hold(candidate, 'service-processing'), untilMs };
  }
  const isAbsent =
    record.absentSinceMs !== null && isListTrusted(candidate, input) && !hasRows(candidate) && !input.urgent;
  if (isAbsent && nowMs < fullCheckDueMs(candidate.target, record.checkedAtMs ?? 0, policy.fullCheckMs)) {
    return keep(candidate, 'absent', input);
  }
  return pull(candidate, 'never-mirrored', input, settled);
}

function pullReason(
  candidate: Candidate,
  published: Published,
  record: TargetRecord,
  input: PlanInput,
  settled: boolean,
): PullReason | null {
  if (!published.treePresent) return 'tree-missing';
  if (record.drift?.needsRepair === true) return 'drift';
  if (candidate.rows !== null && published.fingerprint !== digestOf(candidate)) return 'versions-changed';
  if (record.missingPasses > 0) return 'confirm-gone';
  if (!published.settled && settled) return 'processing-finished';
  if (!isListTrusted(candidate, input)) return 'no-version-list';
  const isDue = [isCheckDue, isMissingDue].some((test) => test(candidate.target, record, published, input));
  return isDue ? 'full-check' : null;
}

/** Whether the list of workbooks tells of all that changed in a target's repository. */
function isListTrusted({ rows, repository }: Candidate, { listing }: PlanInput): boolean {
  return rows !== null && !listing.unread.repositories.has(repository.fullName);
}

function pull(candidate: Candidate, reason: PullReason, input: PlanInput, settled: boolean): PullAction {
  return {
    ...common(candidate),
    kind: 'pull',
    reason,
    whenAbsent: whenAbsent(candidate, input),
    settled,
    conditional: candidate.published?.treePresent === true,
    depth: 'facts',
    byWorkbook: 'no',
  };
}

/**
 * Whether the workbooks that have new versions answer for the whole. A Git repository holds other files, too, of which no listing
 * tells; a drag-and-drop repository may.
 */
function answersByWorkbook(
  { listed, published, target }: Candidate,
  reason: PullReason,
  { listing, policy }: PlanInput,
): PullAction['byWorkbook'] {
  // What was pulled while the service was still processing it is pulled once more, whichever version changed since.
  const isPlain =
    published?.settled === true &&
    reason === 'versions-changed' &&
    listing.workbooksComplete &&
    // An old list agrees with old files: a single file does not show that it is older than the published one.
    listing.cached === null &&
    target.branch !== HEAD_BRANCH;
  if (!isPlain || policy.content === 'all') return 'no';
  if (policy.content === 'workbooks') return 'yes';
  return listed?.url === null ? 'in-trees-of-workbooks' : 'no';
}

/** How an absence of contents is taken: a branch that a version names must be there. */
function whenAbsent(candidate: Candidate, input: PlanInput): PullAction['whenAbsent'] {
  if (hasRows(candidate) || candidate.configured?.required === true) return 'fail';
  if (candidate.published === null) return 'accept';
  if (candidate.target.branch === HEAD_BRANCH) return 'fail';
  return candidate.rows === null || input.listing.workbooksComplete ? 'count-as-missing' : 'fail';
}

function hasRows(candidate: Candidate): boolean {
  return candidate.rows?.branches.has(candidate.target.branch) === true;
}

/** A row that tells nothing of itself may be about any workbook: then the list verifies none. */
function keep(candidate: Candidate, reason: KeepAction['reason'], { listing }: PlanInput): Action {
  if (listing.unread.isAnywhere) return hold(candidate, 'row-unreadable');
  return { ...common(candidate), kind: 'keep', reason };
}

function hold(candidate: Candidate, reason: HoldReason): HoldAction {
  return { ...common(candidate), kind: 'hold', reason, untilMs: null, missing: false, guarded: null };
}

function common(candidate: Candidate): Omit<ActionOf<never, never>, 'kind' | 'reason'> {
  const from = candidate.published?.path ?? candidate.path;
  const renamed =
    candidate.listed !== null &&
    candidate.selected &&
    candidate.published !== null &&
    (from !== candidate.path || candidate.published.repository.fullName !== candidate.repository.fullName);
  return {
    target: candidate.target,
    repository: candidate.repository,
    path: candidate.path,
    published: candidate.published,
    fingerprint: digestOf(candidate),
    moveFrom: renamed ? from : null,
  };
}

function digestOf({ rows, target, published }: Candidate): string | null {
  return rows?.digest(target.branch, published?.borrowed) ?? null;
}

/**
 * When a target is next compared whole: between half and the whole of the period after the last time, spread by target
 * and time so that targets that were mirrored together are not checked together. Milliseconds since the epoch.
 */
export function fullCheckDueMs(target: TargetId, checkedAtMs: number, fullCheckMs: number): number {
  let hash = 0x811c9dc5;
  for (const character of `${targetKey(target)}\n${checkedAtMs}`) {
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  }
  return checkedAtMs + Math.ceil(fullCheckMs * (0.5 + (hash / 0xffffffff) * 0.5));
}

/**
 * Whether a tree is to be read whole again, and the contents compared with it. A pull of what changed in between is none of
 * that: it does not look at the bytes of the other files.
 */
function isCheckDue(
  target: TargetId,
  { examinedAtMs, checkedAtMs }: TargetRecord,
  published: Published,
  { nowMs, policy }: PlanInput,
): boolean {
  const { verifiedAtMs, comparedAtMs, publishedAtMs, restoredAtMs } = published;
  // A clock that was ahead wrote this manifest: the check writes it again.
  if (isAhead(nowMs, verifiedAtMs, comparedAtMs, publishedAtMs, restoredAtMs)) return true;
  const lastMs = examinedAtMs ?? Math.max(checkedAtMs ?? 0, comparedAtMs ?? verifiedAtMs);
  return nowMs >= fullCheckDueMs(target, lastMs, policy.fullCheckMs);
}

/** Contents that lack a listed workbook may have it again without a new version: they are looked at again after this, in milliseconds. */
const MISSING_CHECK_MS = 60 * 60_000;

/** The longest time between two comparisons of a tree with the whole contents, in milliseconds. */
export function comparisonPeriodMs({ missing }: Pick<Published, 'missing'>, fullCheckMs: number): number {
  return missing.length === 0 ? fullCheckMs : Math.min(fullCheckMs, MISSING_CHECK_MS);
}

/** Whether contents that lacked a listed workbook are to be looked at again. */
function isMissingDue(
  target: TargetId,
  { checkedAtMs }: TargetRecord,
  published: Published,
  { nowMs, policy }: PlanInput,
): boolean {
  if (published.missing.length === 0) return false;
  const lastMs = Math.max(checkedAtMs ?? 0, published.comparedAtMs ?? published.verifiedAtMs);
  return nowMs >= fullCheckDueMs(target, lastMs, comparisonPeriodMs(published, policy.fullCheckMs));
}
