import type { EventFailure, PassEventFields } from '../mirror/pass/events.ts';
import type { CredentialKind } from '../mirror/upstream/keyring.ts';

/**
 * Everything that the program reports while it works: events of passes and of the rest of the daemon. The set is closed;
 * the log uses the same names. `target` is `<repository>/<branch>` as below `mirror/`. Durations in milliseconds, times in
 * milliseconds since the epoch.
 */
export interface EventFields extends PassEventFields {
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
  'target.whole': { target: string };
  'drift.unwatched': EventFailure;
  'publish.fallback': { directory: string; limit: string };
  /** `fromBytes`: position at which a download continues; 0 if it starts over. */
  'service.retry': EventFailure & { delayMs: number; fromBytes: number };
  /** The service refuses all keys of the setting. */
  'credentials.refused': { credential: CredentialKind; nextAttemptAtMs: number };
  /** `key`: the position of the accepted key in the setting, counted from 1. */
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
  /** `http.listen` cannot be used; it is tried again, and the mirror works without it. */
  'http.unavailable': EventFailure;
  'http.failed': EventFailure & { path: string | null };
  'hook.finished': { hook: string; target: string; durationMs: number };
  'hook.failed': EventFailure & { hook: string; target: string | null };
  'notification.failed': EventFailure & { to: 'webhook' | 'heartbeat'; attempts: number };
  'loop.stuck': { silentMs: number };
  /** Other machines do not see the locks of the directory. `setting`: the one that relies on them; `fileSystem`: `nfs with nolock`. */
  'locks.unshared': { setting: 'standby' | 'shard'; directory: string; fileSystem: string };
  /** Another instance works in the directory. */
  'standby.began': EventFailure;
  /** It has ended. `waitedMs`: time on standby; `takeoverMs`: time from taking the lock to the end of recovery. */
  'standby.ended': { waitedMs: number; takeoverMs: number };
  /** Commands cannot reach the daemon: its socket cannot be made. */
  'control.unavailable': EventFailure;
  'state.reset': { reason: string };
  'state.failed': EventFailure;
  'state.recovered': object;
}

/** The name of an event. */
export type EventName = keyof EventFields;

/** An event with its fields. */
export type MirrorEvent = {
  [Name in EventName]: { readonly name: Name } & Readonly<EventFields[Name]>;
}[EventName];

/** Functions for some events, by name. */
export type EventTable<Facts extends readonly unknown[], Result> = {
  readonly [Name in EventName]?: (event: Extract<MirrorEvent, { name: Name }>, ...facts: Facts) => Result;
};

/** Calls the function for an event. @returns its result; undefined if the table has no function for the event */
export function forEvent<Name extends EventName, Facts extends readonly unknown[], Result>(
  table: EventTable<Facts, Result>,
  event: Extract<MirrorEvent, { name: Name }>,
  ...facts: Facts
): Result | undefined {
  return table[event.name]?.(event, ...facts);
}

/** Receives events; never throws. */
export type EventSink = (event: MirrorEvent) => void;

/** The log level of an event. */
export type EventLevel = 'debug' | 'info' | 'warn' | 'error';

/** The table of events and their levels. */
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
  'control.unavailable': 'warn',
  'state.reset': 'warn',
  'state.failed': 'error',
  'state.recovered': 'info',
  'log.failed': 'error',
  'log.resumed': 'warn',
};
