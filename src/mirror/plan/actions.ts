import { type Listing, type TargetId, targetKey } from '../upstream/listing.ts';
import type { Approvals, GuardPolicy, HeldDeletion } from './guard.ts';
import type { Outcome, Published, TargetRecord } from './record.ts';
import type { Selection, Shard } from './selection.ts';
import type { ByWorkbook } from './workbooks.ts';

/** Downloads when workbooks have new versions: those workbooks or all contents; `auto`: just those workbooks in drag-and-drop repositories. */
export type ContentPolicy = 'auto' | 'workbooks' | 'all';

/** The operator's choices. Durations in milliseconds. */
export interface PlanPolicy {
  readonly selection: Selection;
  readonly fullCheckMs: number;
  readonly processingPatienceMs: number;
  /** Complete answers in a row that must lack a target before its tree is retired. */
  readonly retireAfterPasses: number;
  readonly guard: GuardPolicy;
  readonly content: ContentPolicy;
}

/** All that a plan is computed from. */
export interface PlanInput {
  readonly listing: Listing;
  readonly published: readonly Published[];
  /** The published trees that other instances mirror. */
  readonly others: readonly Published[];
  /** This instance's share of the repositories; null if it mirrors all. */
  readonly shard: Shard | null;
  /** Paths whose manifest cannot be read at present. */
  readonly unreadable: ReadonlySet<string>;
  /** By `targetKey`; none of their times lies in the future. */
  readonly records: ReadonlyMap<string, TargetRecord>;
  readonly approvals: Approvals;
  readonly policy: PlanPolicy;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
  /** The targets that an operator wants tried now, without waiting for back-off or quarantine, and repaired if they differ. */
  readonly retries: Retries;
}

/** The paths of targets that a pass tries although they wait for a time or for another version, and repairs if they differ. */
export type Retries = ReadonlySet<string> | 'all';

/** The properties of a hold reason. A property that is left out is false. */
export interface HoldRule {
  /** Why the target is not touched, as a clause about it. */
  readonly says: string;
  /** The operator does not want the target: neither counts nor exit codes mention it. */
  readonly isHarmless?: boolean;
  /** The answer proves nothing: the count of answers that lack the target stays as it is. */
  readonly isNoEvidence?: boolean;
  /** Not a matter of this target alone: another instance must finish first, or the whole listing is doubtful. */
  readonly isShared?: boolean;
  /** A running pull is cancelled: the target is no longer wanted, or its place has changed. */
  readonly endsPull?: boolean;
  /** Another event reports it. */
  readonly isReportedElsewhere?: boolean;
}

/** Why a pass deliberately leaves a target alone, although it may differ from the service. */
export const HOLD_REASONS = {
  'not-selected': {
    says: 'is no longer selected by the settings; its tree stays as it is',
    isHarmless: true,
    endsPull: true,
  },
  superseded: { says: 'waits for a named branch to take its place', isHarmless: true, endsPull: true },
  'path-occupied': {
    says: 'waits for its place, which the tree of another repository occupies',
    endsPull: true,
  },
  'backing-off': { says: 'waits to be tried again', isReportedElsewhere: true },
  quarantined: { says: 'waits in quarantine, as this version was refused', isReportedElsewhere: true },
  'service-processing': { says: 'waits until the service has processed it' },
  'deletion-guard': { says: 'waits for approval, as too much would be deleted', isReportedElsewhere: true },
  restored: { says: 'stays, as it was restored from the history' },
  'manifest-unreadable': { says: 'waits, as its manifest cannot be read' },
  lease: {
    says: 'waits for the end of a lease',
    isNoEvidence: true,
    isShared: true,
    isReportedElsewhere: true,
  },
  'still-pulling': { says: 'is still being pulled', isShared: true },
  'repository-missing': { says: 'stays for now, although the service no longer lists its repository' },
  'no-repositories-listed': {
    says: 'stays, as the service lists no repositories at all',
    isNoEvidence: true,
    isShared: true,
  },
  'listing-incomplete': {
    says: 'stays, as the list of repositories is not whole, or came from a cache',
    isNoEvidence: true,
  },
  'row-unreadable': {
    says: 'is not verified, as an unreadable row in the list of workbooks may be about it',
    isNoEvidence: true,
    isReportedElsewhere: true,
  },
  'listing-contradicts-itself': { says: 'stays, as the lists of the service contradict each other' },
} as const satisfies Readonly<Record<string, HoldRule>>;
export type HoldReason = keyof typeof HOLD_REASONS;

/** Why a target is pulled. */
export type PullReason =
  | 'never-mirrored'
  | 'tree-missing'
  | 'drift'
  | 'versions-changed'
  | 'processing-finished'
  | 'confirm-gone'
  | 'no-version-list'
  | 'full-check';

/**
 * Why a tree moves from the mirror to the history, and whether the guard judges it. The target itself stays if `HEAD` gives way to
 * a named branch, if a duplicate goes, or if another instance has taken the target over.
 */
export const RETIRE_REASONS = {
  'repository-gone': { isGuarded: true },
  'branch-gone': { isGuarded: true },
  'branch-known': { isGuarded: false },
  duplicate: { isGuarded: false },
  moved: { isGuarded: false },
} as const;
export type RetireReason = keyof typeof RETIRE_REASONS;

/** The properties of a hold reason. @param reason may come from a record that another version wrote */
export function holdRule(reason: string): HoldRule {
  const rules: Readonly<Record<string, HoldRule>> = HOLD_REASONS;
  return rules[reason] ?? { says: 'waits' };
}

/** The part of an action that identifies its target. */
export interface ActionSubject {
  readonly target: TargetId;
  readonly repository: Published['repository'];
  /** Where the tree belongs, below `mirror/`. */
  readonly path: string;
  readonly published: Published | null;
  /** The digest of the target's present versions; null if the service has no list of workbooks. */
  readonly fingerprint: string | null;
  /** The old place of the tree if its repository was renamed: the tree moves before anything else happens. */
  readonly moveFrom: string | null;
  /** Why a target is mirrored although the settings no longer select it. Left out for every other target. */
  readonly deselection?: HeldDeletion;
}

interface ActionOf<Kind extends string, Reason extends string> extends ActionSubject {
  readonly kind: Kind;
  readonly reason: Reason;
}

/** One step of a plan. */
export type Action = KeepAction | PullAction | HoldAction | RetireAction;
export type KeepAction = ActionOf<'keep', 'unchanged' | 'absent'>;
export type RetireAction = ActionOf<'retire', RetireReason>;

/** A target's contents are compared with its tree and, where they differ, published. */
export interface PullAction extends ActionOf<'pull', PullReason> {
  /** How missing contents count: as a failure, as one more answer without the target, or as normal. */
  readonly whenAbsent: 'fail' | 'count-as-missing' | 'accept';
  /** Whether the service had finished processing the versions that will be pulled. */
  readonly settled: boolean;
  readonly byWorkbook: ByWorkbook;
  /** How closely the tree is compared with its manifest first: by `lstat`, or every byte. */
  readonly depth: 'facts' | 'bytes';
}

/** A target is deliberately left alone. */
export interface HoldAction extends ActionOf<'hold', HoldReason> {
  /** The time of the next try, if there is one. Milliseconds since the epoch. */
  readonly untilMs: number | null;
  /** The retirement needs approval: too many targets are gone at once, or the tree was restored. */
  readonly guarded: HeldDeletion | null;
  /** A complete answer lacks the target: the earlier ones stay counted, and this one adds nothing. */
  readonly isMissing?: boolean;
}

/** The hold of a target. @param of any other action about it, or the target to decide on */
export function holdOf(
  of: ActionSubject,
  reason: HoldReason,
  more: Partial<Pick<HoldAction, 'moveFrom' | 'untilMs' | 'guarded'>> = {},
): HoldAction {
  return { ...subjectOf(of), kind: 'hold', reason, untilMs: null, guarded: null, ...more };
}

/** The subject of an action, without its other facts. */
export function subjectOf(of: ActionSubject): ActionSubject {
  const { target, repository, path, published, fingerprint, moveFrom, deselection } = of;
  const subject = { target, repository, path, published, fingerprint, moveFrom };
  return deselection === undefined ? subject : { ...subject, deselection };
}

/** One action with its outcome, the bytes downloaded for it, and the number of files that it changed. */
export interface ActionResult {
  readonly action: Action;
  readonly outcome: Outcome | Unfinished;
  readonly downloadedBytes: number;
  readonly changedFiles: number;
}

/** A pull that continues after its pass, or waits for a slot. It is recorded and counted only when it ends. */
export interface Unfinished {
  readonly kind: 'unfinished';
  readonly hasBegun: boolean;
}

/** An action that has ended. */
export interface EndedResult extends ActionResult {
  readonly outcome: Outcome;
}

/** The result of an action that downloaded nothing. */
export function resultOf(action: Action, outcome: Outcome): EndedResult {
  return { action, outcome, downloadedBytes: 0, changedFiles: 0 };
}

/** Whether a pass deliberately leaves a target as it is, although the operator wants it. */
export function isHeld({ action, outcome }: Pick<ActionResult, 'action' | 'outcome'>): boolean {
  if (action.deselection !== undefined) return true;
  return (
    (outcome.kind === 'guarded' || outcome.kind === 'held') && holdRule(action.reason).isHarmless !== true
  );
}

/** The outcome of a hold. A target that is only missing from the list is on its way out. */
export function outcomeOfHold({ guarded, reason }: HoldAction): Outcome {
  if (guarded !== null) return { kind: 'guarded', held: guarded };
  return { kind: reason === 'repository-missing' ? 'missing' : 'held' };
}

/** Whether a plan deliberately leaves something undone. */
export function isPlannedHold(action: Action): boolean {
  if (action.kind !== 'hold') return action.deselection !== undefined;
  return isHeld({ action, outcome: outcomeOfHold(action) });
}

/**
 * Makes a plan leave alone the targets of running pulls. Call it after the guards. If such a target retires or moves, or its place
 * belongs to another target now, the plan stays as it is, and the pull must be cancelled.
 * @param running the running pulls of earlier passes, by target key
 */
export function keepRunningPulls(
  plan: readonly Action[],
  running: ReadonlyMap<string, { readonly action: PullAction }>,
  { repositories, repositoriesComplete }: Pick<Listing, 'repositories' | 'repositoriesComplete'>,
): Action[] {
  const unplanned = new Map(running);
  const kept = plan.map((action) => {
    const key = targetKey(action.target);
    const pull = running.get(key)?.action;
    // A second tree of the same target is decided on separately.
    if (pull === undefined || action.reason === 'duplicate') return action;
    unplanned.delete(key);
    return goesOn(pull, action) ? holdOf(action, 'still-pulling') : action;
  });
  // Only a complete list proves that a target is gone.
  if (repositoriesComplete && repositories.length > 0) return kept;
  return [...kept, ...[...unplanned.values()].map(({ action }) => holdOf(action, 'still-pulling'))];
}

/** Whether a running pull still does what the plan would otherwise do. */
function goesOn(pull: PullAction, action: Action): boolean {
  if (action.path !== pull.path || action.moveFrom !== null || action.kind === 'retire') return false;
  return action.kind !== 'hold' || (action.guarded === null && holdRule(action.reason).endsPull !== true);
}
