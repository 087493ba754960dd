import type { DriftSummary } from '../plan/record.ts';
import { type ErrorCode, toMirrorError } from '../../lib/errors/errors.ts';
import type { HeldDeletion } from '../plan/guard.ts';
import type { SelectionCheck, UnmatchedPattern } from '../plan/selection.ts';

/** Why a pass starts. */
export const TRIGGERS = [
  'start',
  'schedule',
  'poll',
  'signal',
  'command',
  'drift',
  'settings',
  'lease',
  'retry',
] as const;
export type Trigger = (typeof TRIGGERS)[number];

/** The parts of an error that events carry; hint null where there is no advice. */
export interface EventFailure {
  readonly code: ErrorCode;
  readonly message: string;
  readonly hint: string | null;
}

/** An error as events carry it. */
export function eventFailure(error: unknown): EventFailure {
  const { code, message, hint } = toMirrorError(error);
  return { code, message, hint: hint ?? null };
}

/**
 * The events of passes: a closed set, the names of which are the names in the log. `target` is `<repository>/<branch>` as below
 * `mirror/`. Durations in milliseconds, times in milliseconds since the epoch.
 */
export interface PassEventFields {
  'pass.started': { trigger: Trigger };
  'pass.planned': { pull: number; keep: number; hold: number; retire: number };
  'pass.finished': PassFinished;
  'pass.failed': EventFailure & { trigger: Trigger; durationMs: number };
  'pass.abandoned': { trigger: Trigger; durationMs: number };
  'listing.read': {
    /** Whether the list of repositories is complete, so that none can be missing from it. */
    isWhole: boolean;
    repositories: number;
    /** Null where the service has no list of workbooks. */
    workbooks: number | null;
    /** Those that the service is not done with. */
    processing: FlaggedWorkbooks;
    failed: FlaggedWorkbooks;
  };
  'listing.problem': { problem: string };
  'selection.checked': SelectionCheck;
  'selection.unmatched': UnmatchedPattern;
  /** The settings select nothing of what the service lists. */
  'selection.empty': { repositories: number; unmatched: readonly UnmatchedPattern[] };
  'target.started': { target: string; reason: string };
  /** A pull takes long: others have its place now, and passes end without it where the program goes on after them. */
  'target.slow': { target: string; startedAtMs: number };
  /** Such a pull is over. `result`: its outcome, in a word or by the code of an error. */
  'target.slow_ended': { target: string; result: string; durationMs: number };
  'target.pulled': TargetPulled;
  'target.moved': { from: string; target: string };
  'target.retired': { target: string; reason: string };
  'target.held': { target: string; reason: string; untilMs: number | null };
  'deletion.held': Omit<HeldDeletion, 'first'> & { target: string; first: readonly string[] };
  'deletion.approved': { target: string; subject: HeldDeletion['subject'] };
  'target.missing': { target: string; passes: number };
  'target.absent': { target: string };
  'target.failed': EventFailure & { target: string; attempts: number; nextAttemptAtMs: number };
  'target.drifted': { target: string } & DriftSummary;
  /** Neither tree nor manifest is there any more of a target that did not leave the mirror. */
  'target.lost': { target: string };
  'inventory.damaged': { problem: string };
  'target.skipped_entries': { target: string; count: number; first: string };
  'upstream.workbook_failed': UpstreamWorkbook & { count: number };
  'upstream.workbook_recovered': UpstreamWorkbook;
  'history.pruned': { entry: string };
  'publish.recovered': { target: string };
  'publish.sweep_failed': EventFailure;
  'lease.waited': { untilMs: number; holder: string };
}

/** The end of a pass. */
export interface PassFinished {
  trigger: Trigger;
  durationMs: number;
  targets: number;
  pulled: number;
  changed: number;
  /** Pulls that came to an end, whatever that was. */
  tried: number;
  failed: number;
  held: number;
  /** Targets that the service no longer lists, and that are kept until enough answers agree. */
  missing: number;
  downloadedBytes: number;
  changedFiles: number;
  /** Pulls that go on beside the passes that follow. */
  pulling: number;
  /** Pulls that wait for a place among those. */
  waiting: number;
  /** Workbooks that the service is still processing. */
  processing: number;
}

/** A target whose contents were compared whole. */
export interface TargetPulled {
  target: string;
  reason: string;
  /** How it was published; `none` when nothing differed. */
  method: string;
  downloadedBytes: number;
  files: number;
  added: number;
  changed: number;
  removed: number;
  durationMs: number;
}

/** Some of the workbooks that the service flags, and how many there are. */
export interface FlaggedWorkbooks {
  count: number;
  first: readonly UpstreamWorkbook[];
}

/** A workbook that the service says something about. */
export interface UpstreamWorkbook {
  workbookId: string;
  versionId: string;
  branch: string;
}

/** An event of passes with its fields. */
export type PassEvent = {
  [Name in keyof PassEventFields]: { readonly name: Name } & Readonly<PassEventFields[Name]>;
}[keyof PassEventFields];

/** Takes events of passes; never throws. */
export type PassEventSink = (event: PassEvent) => void;

/** The kinds of findings: wrong answers, caches that gave answers, settings that select nothing, lost targets, the last lease. */
type Subject = 'problems' | 'cached lists' | 'cached contents' | 'unmatched' | 'lost' | 'lease';

/** Remembers the findings of the pass before, so that nothing is reported again while it lasts. */
export class ReportedOnce {
  readonly #known = new Map<Subject, ReadonlySet<string>>();

  /** Takes the findings of a pass. @returns those that the pass before did not have */
  news(subject: Subject, found: Iterable<string>): string[] {
    const before = this.#known.get(subject);
    const now = new Set(found);
    this.#known.set(subject, now);
    return [...now].filter((each) => before?.has(each) !== true);
  }
}
