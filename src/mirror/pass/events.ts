import type { DriftSummary } from '../store/verify/drift.ts';
import { type ErrorCode, toMirrorError } from '../../lib/errors/errors.ts';
import type { HeldDeletion } from '../plan/guard.ts';
import type { SelectionCheck, UnmatchedPattern } from '../plan/selection-check.ts';

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

/** The two generations of the service's API, each with its own credential. */
export type CredentialKind = 'apiKey' | 'apiToken';

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
 * Everything that the program reports while it works: a closed set, the names of which are the names in the log. `target`
 * is `<repository>/<branch>` as below `mirror/`. Durations in milliseconds, times in milliseconds since the epoch.
 */
export interface EventFields {
  'daemon.started': {
    version: string;
    directory: string;
    service: string;
    schedule: string;
    timezone: string;
  };
  'daemon.scheduled': { nextPassAtMs: number };
  'daemon.stopping': { signal: string };
  'daemon.stopped': { exitCode: number };
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
  'target.whole': { target: string };
  /** Neither tree nor manifest is there any more of a target that did not leave the mirror. */
  'target.lost': { target: string };
  'inventory.damaged': { problem: string };
  'drift.unwatched': EventFailure;
  'target.skipped_entries': { target: string; count: number; first: string };
  'upstream.workbook_failed': UpstreamWorkbook & { count: number };
  'upstream.workbook_recovered': UpstreamWorkbook;
  'history.pruned': { entry: string };
  'publish.recovered': { target: string };
  'publish.fallback': { directory: string; limit: string };
  'publish.sweep_failed': EventFailure;
  /** `fromBytes`: where a download goes on; 0 for what begins anew. */
  'service.retry': EventFailure & { delayMs: number; fromBytes: number };
  /** The service refuses all keys of the setting. */
  'credentials.refused': { credential: CredentialKind; nextAttemptAtMs: number };
  /** `key`: which of the keys of the setting it accepts, counted from 1. */
  'credentials.accepted': { credential: CredentialKind; key: number };
  'settings.reloaded': { changed: readonly string[] };
  'settings.refused': EventFailure;
  'settings.restart_needed': { settings: readonly string[] };
  /** The settings that waited for a restart were changed back. */
  'settings.restart_unneeded': { settings: readonly [] };
  'log.level_changed': { level: string };
  /** Lines of the log are dropped from now on. */
  'log.failed': EventFailure;
  'log.resumed': { droppedLines: number };
  'http.listening': { address: string };
  'http.unprotected': { address: string };
  /** Nothing can be served where `http.listen` says; it is tried again, and the mirror goes on without it. */
  'http.unavailable': EventFailure;
  'http.failed': EventFailure & { path: string | null };
  'lease.waited': { untilMs: number; holder: string };
  'hook.finished': { hook: string; target: string; durationMs: number };
  'hook.failed': EventFailure & { hook: string; target: string | null };
  'notification.failed': EventFailure & { to: 'webhook' | 'heartbeat'; attempts: number };
  'loop.stuck': { silentMs: number };
  /** Other machines do not see the locks of the directory. `setting`: the one that relies on them; `fileSystem`: `nfs with nolock`. */
  'locks.unshared': { setting: 'standby' | 'shard'; directory: string; fileSystem: string };
  /** Another instance works in the directory. */
  'standby.began': EventFailure;
  /** It is gone. `waitedMs`: for how long it was waited for; `takeoverMs`: from the lock to when all was recovered that it left. */
  'standby.ended': { waitedMs: number; takeoverMs: number };
  'state.reset': { reason: string };
  'state.failed': EventFailure;
  'state.recovered': object;
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
  /** Pulls that wait for a slot among those. */
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

/** The name of an event. */
export type EventName = keyof EventFields;

/** An event with its fields. */
export type MirrorEvent = {
  [Name in EventName]: { readonly name: Name } & Readonly<EventFields[Name]>;
}[EventName];

/** Takes events; never throws. */
export type EventSink = (event: MirrorEvent) => void;

/** How loud an event is in the log. */
export type EventLevel = 'debug' | 'info' | 'warn' | 'error';

/** The one table of events and how loud they are. */
export const EVENT_LEVELS: Readonly<Record<EventName, EventLevel>> = {
  'daemon.started': 'info',
  'daemon.scheduled': 'debug',
  'daemon.stopping': 'info',
  'daemon.stopped': 'info',
  'pass.started': 'debug',
  'pass.planned': 'debug',
  'pass.finished': 'info',
  'pass.failed': 'error',
  'pass.abandoned': 'warn',
  'listing.read': 'debug',
  'listing.problem': 'warn',
  'selection.checked': 'debug',
  'selection.unmatched': 'warn',
  'selection.empty': 'error',
  'target.started': 'debug',
  'target.slow': 'info',
  'target.slow_ended': 'debug',
  'target.pulled': 'info',
  'target.moved': 'info',
  'target.retired': 'warn',
  'target.held': 'warn',
  'deletion.held': 'error',
  'deletion.approved': 'info',
  'target.missing': 'warn',
  'target.absent': 'info',
  'target.failed': 'error',
  'target.drifted': 'warn',
  'target.whole': 'info',
  'target.lost': 'warn',
  'inventory.damaged': 'warn',
  'drift.unwatched': 'warn',
  'target.skipped_entries': 'warn',
  'upstream.workbook_failed': 'warn',
  'upstream.workbook_recovered': 'info',
  'history.pruned': 'info',
  'publish.recovered': 'warn',
  'publish.fallback': 'warn',
  'publish.sweep_failed': 'warn',
  'service.retry': 'warn',
  'credentials.refused': 'error',
  'credentials.accepted': 'info',
  'settings.reloaded': 'info',
  'settings.refused': 'error',
  'settings.restart_needed': 'warn',
  'settings.restart_unneeded': 'info',
  'log.level_changed': 'info',
  'http.listening': 'info',
  'http.unprotected': 'warn',
  'http.unavailable': 'warn',
  'http.failed': 'error',
  'lease.waited': 'info',
  'hook.finished': 'debug',
  'hook.failed': 'error',
  'notification.failed': 'warn',
  'loop.stuck': 'error',
  'locks.unshared': 'warn',
  'standby.began': 'info',
  'standby.ended': 'warn',
  'state.reset': 'warn',
  'state.failed': 'error',
  'state.recovered': 'info',
  'log.failed': 'error',
  'log.resumed': 'warn',
};
