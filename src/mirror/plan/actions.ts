import { type HoldReason, holdRule, type PullReason, type RetireReason } from './reasons.ts';
import type { HeldDeletion } from './guard.ts';
import type { TargetId } from '../upstream/listing.ts';
import type { Candidate } from './targets.ts';
import type { Published } from './published.ts';

/**
 * Whether a plan holds a target: on purpose does not do all of what the service and the settings say. One that is only missing from the
 * service's list is not held: it counts towards its retirement.
 */
export function isPlannedHold(action: Action): boolean {
  if (action.deselection !== undefined) return true;
  return action.kind === 'hold' && !action.missing && holdRule(action.reason).isHarmless !== true;
}

/** The common part of all actions. */
export interface ActionOf<Kind extends string, Reason extends string> {
  readonly kind: Kind;
  readonly reason: Reason;
  readonly target: TargetId;
  readonly repository: Candidate['repository'];
  /** Where the tree belongs, below `mirror/`. */
  readonly path: string;
  readonly published: Published | null;
  /** The digest of the target's present versions; null where the service has no list of workbooks. */
  readonly fingerprint: string | null;
  /** Where the tree stands now, if its repository was renamed: it moves before anything else happens. */
  readonly moveFrom: string | null;
  /** Of a target that the settings no longer select: why it is mirrored all the same. Left out for any other. */
  readonly deselection?: HeldDeletion;
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
  /** Whether a conditional request will do, if the tree is found to be whole. */
  readonly conditional: boolean;
  /**
   * Whether the workbooks with new versions may be pulled one by one, by their paths, instead of the whole contents: only in a
   * tree of nothing but workbooks, or also where other files may wait for the full check.
   */
  readonly byWorkbook: 'no' | 'in-trees-of-workbooks' | 'yes';
  /** How closely the tree is held against its manifest before: by `lstat`, or every byte. */
  readonly depth: 'facts' | 'bytes';
}

/** A target is on purpose not touched. */
export interface HoldAction extends ActionOf<'hold', HoldReason> {
  /** When it is looked at again, where a time says so. Milliseconds since the epoch. */
  readonly untilMs: number | null;
  /** Whether the pass counts towards the target's retirement. */
  readonly missing: boolean;
  /** The retirement that waits for a person's word: too many are gone at once, or the tree was restored. */
  readonly guarded: HeldDeletion | null;
}
