import { type Listing, type TargetId, targetKey } from '../upstream/listing.ts';
import type { Approvals, GuardPolicy, HeldDeletion } from './guard.ts';
import type { OtherTree, Outcome, Published, TargetRecord } from './record.ts';
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
  /** The trees beside them that other instances mirror. */
  readonly others: readonly OtherTree[];
  /** The share of this instance; null where it mirrors all repositories. */
  readonly shard: Shard | null;
  /** Paths whose manifest cannot be read just now. */
  readonly unreadable: ReadonlySet<string>;
  /** By `targetKey`; none of their times lies in the future. */
  readonly records: ReadonlyMap<string, TargetRecord>;
  readonly approvals: Approvals;
  readonly policy: PlanPolicy;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
  /** The targets that a person wants tried at once: neither back-off nor quarantine is a reason to wait for them. */
  readonly retries: Retries;
}

/** Targets, by their paths, that a pass tries although they wait for a time or for another version. */
export type Retries = ReadonlySet<string> | 'all';

/** The meaning of a hold to everything that asks about it. What is left out is false. */
export interface HoldRule {
  /** Why the target is not touched, as a clause about it. */
  readonly says: string;
  /** It says nothing about a target that the operator wants: neither counts nor exit codes mention it. */
  readonly isHarmless?: boolean;
  /** Its answer proves nothing: the answers that lack the target are neither counted on nor forgotten. */
  readonly isNoEvidence?: boolean;
  /** It ends when somebody else is done, or doubts the whole listing: not all that can be mirrored is mirrored. */
  readonly isShared?: boolean;
  /** A pull that still goes on is called off: the place of the target, or the wish for it, is another one now. */
  readonly endsPull?: boolean;
  /** Another event reports it. */
  readonly isReportedElsewhere?: boolean;
}

/** Why a target is on purpose not touched in a pass, although it may not be what the service has. */
export const HOLD_REASONS = {
  'not-selected': {
    says: 'the settings no longer select it; its tree stays as it is',
    isHarmless: true,
    endsPull: true,
  },
  superseded: { says: 'waits for a named branch to take its place', isHarmless: true, endsPull: true },
  'path-occupied': {
    says: 'waits for its place, where the tree of another repository stands',
    endsPull: true,
  },
  'backing-off': { says: 'waits to be tried again' },
  quarantined: { says: 'waits in quarantine, as this version was refused' },
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
    says: 'is not verified, as it may be what a row is about that cannot be read, in the list of workbooks',
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
 * Why a tree leaves the mirror for the history, and whether the guard judges it. The target stays where `HEAD` gives way to a named
 * branch, a duplicate to its double, or a copy to that of another instance.
 */
export const RETIRE_REASONS = {
  'repository-gone': { isGuarded: true },
  'branch-gone': { isGuarded: true },
  'branch-known': { isGuarded: false },
  duplicate: { isGuarded: false },
  moved: { isGuarded: false },
} as const;
export type RetireReason = keyof typeof RETIRE_REASONS;

/** The rule of a hold. @param reason one that a record may remember from another version */
export function holdRule(reason: string): HoldRule {
  return HOLD_RULES.get(reason) ?? { says: 'waits' };
}

const HOLD_RULES: ReadonlyMap<string, HoldRule> = new Map(Object.entries(HOLD_REASONS));

/**
 * Whether a plan holds a target: on purpose does not do all of what the service and the settings say. One that is only missing from the
 * service's list is not held: it counts towards its retirement.
 */
export function isPlannedHold(action: Action): boolean {
  if (action.deselection !== undefined) return true;
  return (
    action.kind === 'hold' &&
    action.reason !== 'repository-missing' &&
    holdRule(action.reason).isHarmless !== true
  );
}

/** The part of an action that says what it is about. */
export interface ActionSubject {
  readonly target: TargetId;
  readonly repository: Published['repository'];
  /** Where the tree belongs, below `mirror/`. */
  readonly path: string;
  readonly published: Published | null;
  /** The digest of the target's present versions; null where the service has no list of workbooks. */
  readonly fingerprint: string | null;
  /** The place of the tree until now, if its repository was renamed: it moves before anything else happens. */
  readonly moveFrom: string | null;
  /** Why a target is mirrored although the settings no longer select it. Left out for any other. */
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
  /** How an absence of contents is taken: the rest of the answer decides what it means. */
  readonly whenAbsent: 'fail' | 'count-as-missing' | 'accept';
  /** Whether the service had finished with the versions that are about to be pulled. */
  readonly settled: boolean;
  readonly byWorkbook: ByWorkbook;
  /** How closely the tree is held against its manifest before: by `lstat`, or every byte. */
  readonly depth: 'facts' | 'bytes';
}

/** A target is on purpose not touched. */
export interface HoldAction extends ActionOf<'hold', HoldReason> {
  /** When it is looked at again, where a time says so. Milliseconds since the epoch. */
  readonly untilMs: number | null;
  /** The retirement that waits for a person's word: too many are gone at once, or the tree was restored. */
  readonly guarded: HeldDeletion | null;
  /** A complete answer lacks the target: the answers that did so before count on. */
  readonly isMissing?: boolean;
}

/** The hold of a target. @param subject another action about it will do */
export function holdOf(
  { target, repository, path, published, fingerprint, moveFrom, deselection }: ActionSubject,
  reason: HoldReason,
  more: Partial<Pick<HoldAction, 'moveFrom' | 'untilMs' | 'guarded'>> = {},
): HoldAction {
  return {
    target,
    repository,
    path,
    published,
    fingerprint,
    moveFrom,
    ...(deselection === undefined ? {} : { deselection }),
    kind: 'hold',
    reason,
    untilMs: null,
    guarded: null,
    ...more,
  };
}

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

/**
 * Has a plan leave alone the targets of which a pull of an earlier pass still goes on. The plan is judged as a whole before, such as how
 * much would be deleted. A pull does not go on for a target that is to leave the mirror or to move, or whose place another one has now:
 * then the plan stays as it is, and the pull is to be called off.
 * @param running the pulls that go on, by target key
 */
export function keepRunningPulls(
  plan: readonly Action[],
  running: ReadonlyMap<string, PullAction>,
  { repositories, repositoriesComplete }: Pick<Listing, 'repositories' | 'repositoriesComplete'>,
): Action[] {
  const unplanned = new Map(running);
  const kept = plan.map((action) => {
    const key = targetKey(action.target);
    const pull = running.get(key);
    // A second tree of the same target has a decision of its own.
    if (pull === undefined || action.reason === 'duplicate') return action;
    unplanned.delete(key);
    return goesOn(pull, action) ? holdOf(action, 'still-pulling') : action;
  });
  // Only a complete list says that a target is no more.
  if (repositoriesComplete && repositories.length > 0) return kept;
  return [...kept, ...[...unplanned.values()].map((pull) => holdOf(pull, 'still-pulling'))];
}

/** Whether a pull still does what is wanted, by what the plan would do otherwise. */
function goesOn(pull: PullAction, action: Action): boolean {
  if (action.path !== pull.path || action.moveFrom !== null || action.kind === 'retire') return false;
  return action.kind !== 'hold' || (action.guarded === null && holdRule(action.reason).endsPull !== true);
}
