import type { EventFailure, PassEventFields } from '../mirror/pass/events.ts';
import type { KeyEvents } from '../mirror/upstream/keyring.ts';

/**
 * Everything that the program reports while it works: events of passes and of the rest of the daemon. The set is closed;
 * the log uses the same names. `target` is `<repository>/<branch>` as below `mirror/`. Durations in milliseconds, times in
 * milliseconds since the epoch.
 */
export interface EventFields extends PassEventFields, KeyEvents {
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

/** How loud an event is in the log. */
export type EventLevel = 'debug' | 'info' | 'warn' | 'error';

/** The table of events: how loud each is in the log, and its meaning for `help`. */
export const EVENTS: Readonly<Record<EventName, readonly [level: EventLevel, meaning: string]>> = {
  'daemon.started': ['info', 'The daemon runs.'],
  'daemon.scheduled': ['debug', 'The time of the next pass.'],
  'daemon.stopping': ['info', 'A signal stops the daemon.'],
  'daemon.stopped': ['info', 'The daemon has ended.'],
  'pass.started': ['debug', 'A pass begins, with its trigger.'],
  'pass.planned': ['debug', 'The number of targets that the pass pulls, keeps, holds and retires.'],
  'pass.finished': ['info', 'A pass ended, with its numbers. Single targets may have failed.'],
  'pass.failed': ['error', 'A pass failed as a whole: the published trees stay.'],
  'pass.abandoned': ['warn', 'A signal or changed settings ended a pass.'],
  'listing.read': ['debug', 'The lists of the service were read.'],
  'listing.problem': ['warn', 'Something in the lists is wrong; what depends on it counts as not verified.'],
  'selection.checked': ['debug', 'How many targets the settings select.'],
  'selection.unmatched': ['warn', 'A pattern of the settings matches nothing: probably a typo.'],
  'selection.empty': ['error', 'The settings select nothing, so the mirror is not ready.'],
  'target.started': ['debug', 'A pull begins, with its reason.'],
  'target.slow': ['info', 'A pull takes longer than a minute; the others do not wait for it.'],
  'target.slow_ended': ['debug', 'A slow pull ended.'],
  'target.pulled': ['info', 'A pull ended, with the files that it published.'],
  'target.moved': ['info', 'The repository was renamed, and the tree moved.'],
  'target.retired': ['warn', 'A tree moved from the mirror to the history.'],
  'target.held': ['warn', 'The pass leaves a target as it is on purpose, with the reason.'],
  'deletion.held': ['error', 'A large deletion waits. `approve TARGET` shows it, and asks.'],
  'deletion.approved': ['info', 'A deletion that someone approved is carried out.'],
  'target.missing': ['warn', 'The service no longer lists a target, kept until two complete lists lack it.'],
  'target.absent': ['info', 'The service has no contents for a target, so far.'],
  'target.failed': ['error', 'A pull failed, with its error code. The published tree stays.'],
  'target.drifted': ['warn', 'Someone changed a published tree. `poll` repairs it.'],
  'target.whole': ['info', 'A changed tree is as its manifest says again.'],
  'target.lost': ['warn', 'Someone removed a tree and its manifest. It is pulled again.'],
  'inventory.damaged': ['warn', '`inventory.json` cannot be used. It is written again.'],
  'drift.unwatched': ['warn', 'Some trees are checked, not watched. Raise fs.inotify.max_user_watches.'],
  'target.skipped_entries': ['warn', 'Links or special files of an archive are not mirrored.'],
  'upstream.workbook_failed': ['warn', 'The service failed to process a workbook. It is still mirrored.'],
  'upstream.workbook_recovered': ['info', 'The service has processed the workbook.'],
  'history.pruned': ['info', 'The history deleted a state.'],
  'publish.recovered': ['warn', 'A publish that a crash cut off was finished.'],
  'publish.fallback': ['warn', 'Readers may see a tree between two states. Use `publish: link`.'],
  'publish.sweep_failed': ['warn', 'Replaced trees cannot be deleted. The next pass tries again.'],
  'service.retry': ['warn', 'A request is repeated.'],
  'credentials.refused': ['error', 'The service refuses all keys of a setting.'],
  'credentials.accepted': ['info', 'The service accepts a key, with its position in the file.'],
  'settings.reloaded': ['info', 'Changed settings are in force.'],
  'settings.refused': ['error', 'Changed settings are wrong, the old ones stay. Use `config check`.'],
  'settings.restart_needed': ['warn', 'These settings apply after a restart.'],
  'settings.restart_unneeded': ['info', 'No changed setting needs a restart any more.'],
  'log.level_changed': ['info', 'The log level changed.'],
  'http.listening': ['info', 'The status page is served, with its address.'],
  'http.unprotected': ['warn', 'Others can reach the status page without a token. Set `http.token`.'],
  'http.unavailable': ['warn', 'The status page cannot be served; it is tried again.'],
  'http.failed': ['error', 'An answer of the status server failed.'],
  'lease.waited': ['info', 'Publishing waited for a lease.'],
  'hook.finished': ['debug', 'A hook command succeeded.'],
  'hook.failed': ['error', 'A hook command failed; it runs again.'],
  'notification.failed': ['warn', 'The webhook or heartbeat did not take a request.'],
  'loop.stuck': ['error', 'The pass makes no progress. A supervisor restarts the daemon.'],
  'locks.unshared': ['warn', 'Other machines do not see the locks here. Run instances on one machine.'],
  'standby.began': ['info', 'Another instance works; this one waits for it to end.'],
  'standby.ended': ['warn', 'This instance took over.'],
  'control.unavailable': ['warn', 'Commands cannot reach the daemon. `kill -HUP` still asks for a pass.'],
  'state.reset': ['warn', 'The state cache starts empty. No data is lost.'],
  'state.failed': ['error', 'The state cache cannot be used. No data is lost.'],
  'state.recovered': ['info', 'The state cache works again.'],
  'log.failed': ['error', 'The log cannot be written: lines are dropped.'],
  'log.resumed': ['warn', 'The log is written again, with the number of dropped lines.'],
};

/** The log level of an event. */
export function levelOf({ name }: { readonly name: EventName }): EventLevel {
  return EVENTS[name][0];
}
