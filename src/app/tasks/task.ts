import type { SettingsFor } from '../../config/schema.ts';
import { EXIT_CODES, exitCodeOf, type MirrorError } from '../../lib/errors/errors.ts';
import {
  eventFailure,
  type PassEventSink,
  type PullProgress,
  type ScanProgress,
  type Trigger,
} from '../../mirror/pass/events.ts';
import type { PassReport } from '../../mirror/pass/pass.ts';
import type { State } from '../../mirror/state/state.ts';
import type { MirrorStore } from '../../mirror/store/disk.ts';
import type { EventSink } from '../events.ts';

/** The settings for a task. Each function throws MirrorError `settings.invalid` if required settings are missing. */
export interface TaskSettings {
  readonly ofDirectory: () => SettingsFor<'directory'>;
  readonly ofService: () => SettingsFor<'service'>;
  readonly ofMirror: () => SettingsFor<'service' | 'directory'>;
}

/** The locked directory and its state, between two passes. */
export interface IdleMirror {
  readonly emit: PassEventSink;
  readonly store: MirrorStore;
  readonly state: State;
  /** Whether a pull of a target goes on that outlasts its pass. @param path as below `mirror/` */
  readonly isPulling: (path: string) => boolean;
}

/** The process that does a task: the daemon, or the command's own if no daemon runs. */
export interface TaskPlace {
  readonly settings: TaskSettings;
  /** Whether a daemon does it: then only the command names the user. */
  readonly isDaemon: boolean;
  /**
   * Makes a pass that also tries waiting targets and repairs drifted ones.
   * @param targets as below `mirror/`; null for all
   * @param emit receives the events until the pass ends
   */
  readonly makePass: (targets: readonly string[] | null, emit: EventSink) => Promise<PassOutcome>;
  /** The running work of the daemon; null in another process. */
  readonly live: () => Promise<LiveStatus | null>;
  /** Works on the locked directory while no pass is made. @throws MirrorError `directory.*` */
  readonly whileIdle: <T>(work: (mirror: IdleMirror) => Promise<T>) => Promise<T>;
}

/** The running work of a daemon. Times in milliseconds since the epoch. */
export interface LiveStatus {
  /** Whether all is well, as `/readyz` says it. */
  readonly isReady: boolean;
  /** Whether the targets are known: a pass of this daemon has finished under the current settings. */
  readonly isListed: boolean;
  /** Why the daemon cannot read the state cache, so that nothing counts as ready; null if it can. */
  readonly stateProblem: string | null;
  /** The running pass; null for none. `planned` is null before its plan is made. */
  readonly pass: {
    readonly trigger: Trigger;
    readonly startedAtMs: number;
    readonly planned: number | null;
    readonly done: number;
  } | null;
  /** The pulls that go on, the one that has taken longest first. */
  readonly pulls: readonly PullProgress[];
  /** Progress of the comparison of all trees at the daemon's start; null without one. */
  readonly scan: ScanProgress | null;
  readonly nextPassAtMs: number | null;
}

/** A running task. */
export interface TaskWork extends TaskPlace {
  /** Fires when its result is no longer wanted. */
  readonly signal: AbortSignal;
  /** Receives its events. */
  readonly emit: EventSink;
  /** Receives its progress, as a text for a person. */
  readonly tell: (text: string) => void;
}

/** The result of a requested pass. */
export type PassOutcome = ReturnType<typeof passOutcome> | ReturnType<typeof failedPass>;

/**
 * The outcome of a pass, with the end of each action. Pulls that go on after it are not done: nothing says yet that their targets are
 * fresh.
 * @param isReady whether all is well after the pass, as in `/readyz`
 */
export function passOutcome({ summary, exitCode, results, isAllThatCanBe }: PassReport, isReady: boolean) {
  const isIncomplete = exitCode === EXIT_CODES.ok && (!isReady || summary.pulling + summary.waiting > 0);
  const targets = results.map(({ action, outcome, downloadedBytes, changedFiles }) => ({
    target: action.path,
    action: action.kind,
    reason: action.reason,
    outcome: outcome.kind,
    ...(outcome.kind === 'failed' ? eventFailure(outcome.error) : {}),
    downloadedBytes,
    changedFiles,
  }));
  return {
    exitCode: isIncomplete ? EXIT_CODES.incomplete : exitCode,
    summary,
    failure: null,
    isAllThatCanBe,
    targets,
  };
}

/** The outcome of a pass that failed as a whole. */
export function failedPass(failure: MirrorError) {
  return {
    exitCode: exitCodeOf(failure),
    summary: null,
    failure: eventFailure(failure),
    isAllThatCanBe: false,
    targets: [],
  };
}
