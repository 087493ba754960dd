import { z } from 'zod';
import { type DriftSummary, type errorSchema } from '../plan/record.ts';
import { toMirrorError } from '../../lib/errors/errors.ts';
import { type Amount, Gauge, leftMs } from '../../lib/time/gauge.ts';
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

/** An error as it appears in events. */
export type EventFailure = Readonly<z.infer<typeof errorSchema>>;

/** Makes the form of an error that events have. */
export function eventFailure(error: unknown): EventFailure {
  const { code, message, hint } = toMirrorError(error);
  return { code, message, hint: hint ?? null };
}

/**
 * The events of passes: a closed set, with the names that the log uses. `target` is `<repository>/<branch>` as below
 * `mirror/`. Durations in milliseconds, times in milliseconds since the epoch.
 */
export interface PassEventFields {
  'pass.started': { trigger: Trigger };
  'pass.planned': { pull: number; keep: number; hold: number; retire: number };
  'pass.finished': PassFinished;
  'pass.failed': EventFailure & { trigger: Trigger; durationMs: number };
  'pass.abandoned': { trigger: Trigger; durationMs: number };
  'listing.read': {
    /** Whether the list of repositories is complete, so that an absent one is really gone. */
    isWhole: boolean;
    repositories: number;
    /** Null if the service has no list of workbooks. */
    workbooks: number | null;
    /** Workbooks that the service is still processing. */
    processing: FlaggedWorkbooks;
    failed: FlaggedWorkbooks;
  };
  'listing.problem': { problem: string };
  'selection.checked': SelectionCheck;
  'selection.unmatched': UnmatchedPattern;
  /** The settings select nothing of what the service lists. */
  'selection.empty': { repositories: number; unmatched: readonly UnmatchedPattern[] };
  'target.started': { target: string; reason: string };
  /** A pull takes long: it gave its slot to others, and in a long-running program passes end without it. */
  'target.slow': { target: string; startedAtMs: number };
  /** Such a pull has ended. `result`: its outcome, in a word or by the code of an error. */
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
  /** Tree and manifest of a target are both gone, although it did not leave the mirror. */
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

const count = z.int().min(0);

/** The numbers of a pass. */
export const summarySchema = z.object({
  trigger: z.enum(TRIGGERS),
  durationMs: z.number(),
  targets: count,
  pulled: count,
  changed: count,
  tried: count.default(0).meta({ description: 'pulls that ended, in any way' }),
  failed: count,
  held: count,
  leased: count.default(0).meta({ description: 'held targets that only wait for the end of a lease' }),
  notYetRetried: count
    .default(0)
    .meta({ description: 'held targets that failed and wait for their next try' }),
  missing: count.default(0).meta({ description: 'targets that the service no longer lists, kept for now' }),
  downloadedBytes: count,
  changedFiles: count,
  pulling: count.default(0).meta({ description: 'slow pulls that continue after their pass' }),
  waiting: count.default(0).meta({ description: 'pulls that wait for a slot to begin' }),
  processing: count.meta({ description: 'workbooks that the service is still processing' }),
});

/** The end of a pass. */
export type PassFinished = z.infer<typeof summarySchema>;

/** The end of a pull: contents were compared and, if they differed, published. */
export interface TargetPulled {
  target: string;
  reason: string;
  /** How it was published; `none` if nothing differed. */
  method: string;
  downloadedBytes: number;
  files: number;
  added: number;
  changed: number;
  removed: number;
  durationMs: number;
}

/** Some of the workbooks that the service flags, and their number. */
export interface FlaggedWorkbooks {
  count: number;
  first: readonly UpstreamWorkbook[];
}

/** A workbook that the service flags. */
export interface UpstreamWorkbook {
  workbookId: string;
  versionId: string;
  branch: string;
}

/** An event of passes with its fields. */
export type PassEvent = {
  [Name in keyof PassEventFields]: { readonly name: Name } & Readonly<PassEventFields[Name]>;
}[keyof PassEventFields];

/** Receives events of passes; never throws. */
export type PassEventSink = (event: PassEvent) => void;

/** The kinds of findings: wrong answers, answers from caches, settings that select nothing, lost targets, the last lease. */
type Subject =
  | 'problems'
  | 'unplanned'
  | 'cached lists'
  | 'cached contents'
  | 'unmatched'
  | 'empty'
  | 'lost'
  | 'lease';

/** Remembers the findings of the previous pass, so that a lasting one is not reported again. */
export class ReportedOnce {
  readonly #known = new Map<Subject, ReadonlySet<string>>();

  /** Takes the findings of a pass. @returns those whose key the previous pass did not have */
  news<T>(subject: Subject, found: readonly T[], keyOf: (each: T) => string = String): readonly T[] {
    const before = this.#known.get(subject);
    const now = new Map(found.map((each) => [keyOf(each), each]));
    this.#known.set(subject, new Set(now.keys()));
    return [...now].flatMap(([key, each]) => (before?.has(key) === true ? [] : [each]));
  }
}

/**
 * The phases of a pull: `comparing` the published tree with its manifest, `downloading`, `unpacking`, and `publishing`, which
 * includes flushing to disk and the command hooks.beforePublish.
 */
export const PULL_PHASES = ['comparing', 'downloading', 'unpacking', 'publishing'] as const;
export type PullPhase = (typeof PULL_PHASES)[number];

/** A pull under way. The amount is about its phase; publishing has none. */
export interface PullProgress extends Amount {
  /** `<repository>/<branch>`. */
  readonly target: string;
  readonly phase: PullPhase;
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** Bytes received from the service so far, in all phases. */
  readonly downloadedBytes: number;
  /** Time that the phase will still take at this speed, in milliseconds; null if unknown. */
  readonly leftMs: number | null;
}

/** The progress of a check of all published trees, for example when a daemon starts. */
export interface ScanProgress {
  readonly doneTargets: number;
  readonly targets: number;
}

/** Records the progress of one pull. */
export class PullMeter {
  readonly #target: string;
  readonly #expectedBytes: number | null;
  readonly #startedAtMs = Date.now();
  #phase: PullPhase = 'comparing';
  #gauge = new Gauge(null);
  #downloadedBytes = 0;

  /** @param expectedBytes the size of the last archive; null if there was none */
  constructor(target: string, expectedBytes: number | null) {
    this.#target = target;
    this.#expectedBytes = expectedBytes;
  }

  begins(phase: PullPhase): void {
    this.#phase = phase;
    this.#gauge = phase === 'downloading' ? new Gauge(this.#expectedBytes, true) : new Gauge(null);
  }

  /** One thing arrives. @param totalBytes its announced size; null if unknown */
  arrived(doneBytes: number, totalBytes: number | null): void {
    this.#gauge.reach(doneBytes, totalBytes);
    this.#downloadedBytes = doneBytes;
  }

  /** One of several things has arrived, or a part of it. */
  arrivedMore(bytes: number): void {
    this.#gauge.add(bytes);
    this.#downloadedBytes += bytes;
  }

  progress(): PullProgress {
    const amount = this.#gauge.amount();
    return {
      target: this.#target,
      phase: this.#phase,
      startedAtMs: this.#startedAtMs,
      downloadedBytes: this.#downloadedBytes,
      ...amount,
      leftMs: leftMs(amount),
    };
  }
}

/** Tracks the progress of long work: the running pulls, and a check of all trees. */
export class PullMonitor {
  readonly #meters = new Set<PullMeter>();
  #scan: ScanProgress | null = null;

  /** A pull begins. @param expectedBytes the size of its last archive; null if there was none */
  begin(target: string, expectedBytes: number | null): PullMeter {
    const meter = new PullMeter(target, expectedBytes);
    this.#meters.add(meter);
    return meter;
  }

  end(meter: PullMeter): void {
    this.#meters.delete(meter);
  }

  /** Records how many of all trees have been compared with their manifests. */
  scanned(doneTargets: number, targets: number): void {
    this.#scan = doneTargets < targets ? { doneTargets, targets } : null;
  }

  /** The progress of the check of all trees; null if none is running. */
  scan(): ScanProgress | null {
    return this.#scan;
  }

  /** The running pulls, the longest-running first. */
  pulls(): readonly PullProgress[] {
    return [...this.#meters].map((meter) => meter.progress());
  }
}
