import { setTimeout as sleep } from 'node:timers/promises';

import { digestSettings } from '../config/changes.ts';
import type { SettingsFor } from '../config/schema.ts';
import { sharingSetting } from '../config/changes.ts';
import { LockedError } from '../lib/disk/lock.ts';
import { mountText, unsharedLocksIn } from '../lib/disk/lock-reach.ts';
import type { MirrorError } from '../lib/errors/errors.ts';
import { bindNativeCalls } from '../lib/native/file-calls.ts';
import { oneLine } from '../lib/text/humanize.ts';
import { escaped } from '../lib/text/terminal-text.ts';
import { eventFailure } from '../mirror/pass/events.ts';
import type { EventSink } from '../app/events.ts';
import { knownDirectoryId } from '../mirror/store/directory.ts';
import { layoutOf } from '../mirror/store/layout.ts';
import { obstacleToWriting, OtherCountError } from '../mirror/store/shards.ts';
import { failureIn, type LoadSettings, ownChanges } from './settings/live-settings.ts';
import type { Notifier } from './supervision/notify.ts';
import type { Control } from './triggers/control.ts';
import { startStandbyHttp } from './web/status-server.ts';

type Loaded = ReturnType<LoadSettings>;

/** Everything that an instance needs while it stands by. */
export interface Standby {
  /** Reads the settings again: on SIGHUP, and when it takes over. */
  readonly load: LoadSettings;
  readonly notifier: Notifier;
  readonly control: Pick<Control, 'onHangUp'>;
  /** Fires when the program is to end. */
  readonly stop: AbortSignal;
  readonly emit: EventSink;
}

/** How often the lock is tried for, in milliseconds. */
const TRY_EVERY_MS = 1000;

/**
 * Opens something that another instance may have locked. With the setting `standby`, and also while shards of another count work there, it
 * stands by then: it says so to all who ask, and tries again until it can be opened, with the settings as they are then.
 * @returns null where the program was told to end meanwhile
 * @throws MirrorError what `open` throws otherwise
 */
export async function openOrStandBy<T>(
  standby: Standby,
  first: Loaded,
  open: (loaded: Loaded) => Promise<T>,
): Promise<T | null> {
  await warnOfLocks(first.settings, standby.emit);
  try {
    return await open(first);
  } catch (error) {
    if (!(error instanceof LockedError) || !mayWait(error, first)) throw error;
    return standBy(standby, first, error, open);
  }
}

/** Whether an instance waits for the lock that it could not take. */
function mayWait(error: MirrorError, { settings }: Loaded): boolean {
  return settings.standby || error instanceof OtherCountError;
}

/** Says where instances on other machines would not see the locks by which they exclude each other. */
async function warnOfLocks(settings: SettingsFor<'directory'>, emit: EventSink): Promise<void> {
  const setting = sharingSetting(settings);
  if (setting === null) return;
  const { directory } = settings;
  const locks = await unsharedLocksIn(directory);
  if (locks === null) return;
  emit({ name: 'locks.unshared', setting, directory, fileSystem: mountText(locks) });
}

async function standBy<T>(
  { load, notifier, control, stop, emit }: Standby,
  first: Loaded,
  cause: MirrorError,
  open: (loaded: Loaded) => Promise<T>,
): Promise<T | null> {
  const sinceMs = performance.now();
  let reason = '';
  const waitFor = (next: string): void => {
    if (next !== reason) notifier.status(escaped(`standing by: ${next}`));
    reason = next;
  };
  const { current, read } = rereadSettings(first, load, emit);
  control.onHangUp = () => {
    notifier.reloading();
    read();
    notifier.ready();
    return Promise.resolve();
  };
  emit({ name: 'standby.began', ...eventFailure(cause) });
  const http = await startStandbyHttp(current, () => reason, emit);
  const { watchdogIntervalMs } = notifier;
  const feeding =
    watchdogIntervalMs === null ? undefined : setInterval(notifier.watchdog, watchdogIntervalMs / 2);
  const lookForObstacle = await watchDirectory(first);
  notifier.ready();
  waitFor(cause.message);
  try {
    for (;;) {
      await sleep(TRY_EVERY_MS, undefined, { signal: stop }).catch(() => {});
      if (stop.aborted) {
        notifier.stopping();
        return null;
      }
      const obstacle = await lookForObstacle();
      const present = obstacle === null ? read() : { refused: obstacle };
      const triedAtMs = performance.now();
      const opened = 'refused' in present ? present : await unlessToWait(present, open);
      if ('refused' in opened) {
        waitFor(oneLine(opened.refused));
        continue;
      }
      const [waitedMs = 0, takeoverMs = 0] = [triedAtMs - sinceMs, performance.now() - triedAtMs].map(
        Math.round,
      );
      emit({ name: 'standby.ended', waitedMs, takeoverMs });
      return opened.value;
    }
  } finally {
    control.onHangUp = () => Promise.resolve();
    clearInterval(feeding);
    await http.close();
  }
}

/** Why something is not done, as a sentence. */
interface Refused {
  readonly refused: string;
}

/** Settings that are read again and again. */
interface RereadSettings {
  /** Those that were valid last. */
  readonly current: () => SettingsFor<never>;
  /** Reads them, and says what has changed, and once what is wrong with them. */
  readonly read: () => Loaded | Refused;
}

function rereadSettings(first: Loaded, load: LoadSettings, emit: EventSink): RereadSettings {
  let current = first.settings;
  let digests = digestSettings(current);
  let problem = '';
  const read = (): Loaded | Refused => {
    try {
      const loaded = load();
      const next = digestSettings(loaded.settings);
      const changed = ownChanges(digests, next);
      if (changed.length > 0 || problem !== '') emit({ name: 'settings.reloaded', changed });
      [current, digests, problem] = [loaded.settings, next, ''];
      return loaded;
    } catch (error) {
      const failure = failureIn(error);
      if (failure.message !== problem) emit({ name: 'settings.refused', ...failure });
      problem = failure.message;
      return { refused: problem };
    }
  };
  return { current: () => current, read };
}

/**
 * Watches the lock of a directory. Where its volume is not mounted for a while, or cannot be reached, another directory would seem to
 * be free: it is known by its id, as its device may be another one when it is back.
 * @returns a function that gives the reason not to try for the lock now, as a sentence; null for none
 */
async function watchDirectory(first: Loaded): Promise<() => Promise<string | null>> {
  const { directory, shard } = first.settings;
  const layout = layoutOf(directory, shard);
  const native = bindNativeCalls();
  let known = await knownDirectoryId(layout).catch(() => null);
  return async () => {
    try {
      const id = await knownDirectoryId(layout);
      known ??= id;
      if (id !== known) return `${directory} is not the directory that was locked.`;
      const obstacle = await obstacleToWriting(layout, shard ?? null, native);
      return obstacle !== null && mayWait(obstacle, first) ? obstacle.message : null;
    } catch (error) {
      return eventFailure(error).message;
    }
  };
}

async function unlessToWait<T>(
  loaded: Loaded,
  open: (loaded: Loaded) => Promise<T>,
): Promise<{ readonly value: T } | Refused> {
  try {
    return { value: await open(loaded) };
  } catch (error) {
    if (error instanceof LockedError && mayWait(error, loaded)) return { refused: error.message };
    throw error;
  }
}
