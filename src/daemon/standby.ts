import { setTimeout as sleep } from 'node:timers/promises';

import type { SettingsFor } from '../config/schema.ts';
import { sharingSetting } from '../config/changes.ts';
import { LockedError } from '../lib/disk/lock.ts';
import { locksIn, mountText } from '../lib/disk/lock-reach.ts';
import { MirrorError, toMirrorError } from '../lib/errors/errors.ts';
import { bindNativeCalls } from '../lib/native/file-calls.ts';
import { escaped } from '../lib/text/terminal-text.ts';
import { eventFailure } from '../mirror/pass/events.ts';
import { checkCommand } from '../app/command-hooks.ts';
import type { EventSink } from '../app/events.ts';
import { knownDirectoryId } from '../mirror/store/directory.ts';
import { layoutOf } from '../mirror/store/layout.ts';
import { lockForWriting, OtherCountError } from '../mirror/store/shards.ts';
import { failureIn, type LoadSettings } from './settings/live-settings.ts';
import type { Notifier } from './supervision/notify.ts';
import type { Control } from './triggers/control.ts';
import { startStandbyHttp } from './web/server.ts';

type Loaded = ReturnType<LoadSettings>;

/** Everything that an instance needs on standby. */
export interface Standby {
  /** Reads the settings again when it takes over. */
  readonly load: LoadSettings;
  readonly notifier: Notifier;
  readonly control: Pick<Control, 'onHangUp'>;
  /** Fires when the program must end. */
  readonly stop: AbortSignal;
  readonly emit: EventSink;
}

/** Interval of attempts to take the lock, in milliseconds. */
const TRY_EVERY_MS = 1000;

/**
 * Opens something that another instance may have locked. With the setting `standby`, and while shards of another count work there, it
 * then goes on standby: it reports this and tries again, with the current settings, until it can be opened.
 * @returns null if the program was ended during the wait
 * @throws MirrorError other errors of `open`
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

/** Warns if instances on other machines cannot see this directory's locks. */
async function warnOfLocks(settings: SettingsFor<'directory'>, emit: EventSink): Promise<void> {
  const setting = sharingSetting(settings);
  if (setting === null) return;
  const { directory } = settings;
  const locks = await locksIn(directory);
  if (locks?.reach !== 'not-shared') return;
  emit({ name: 'locks.unshared', setting, directory, fileSystem: mountText(locks) });
}

async function standBy<T>(
  standby: Standby,
  first: Loaded,
  cause: MirrorError,
  open: (loaded: Loaded) => Promise<T>,
): Promise<T | null> {
  const { notifier, control, stop, emit } = standby;
  const sinceMs = performance.now();
  let reason = '';
  control.onHangUp = () => {
    notifier.reloading();
    notifier.ready();
    return Promise.resolve();
  };
  emit({ name: 'standby.began', ...eventFailure(cause) });
  const http = await startStandbyHttp(first.settings, () => reason, emit);
  const { watchdogIntervalMs } = notifier;
  const feeding =
    watchdogIntervalMs === null ? undefined : setInterval(notifier.watchdog, watchdogIntervalMs / 2);
  const findObstacle = await watchDirectory(first);
  notifier.ready();
  let obstacle = cause;
  try {
    for (;;) {
      const { message } = failureIn(obstacle);
      if (message !== reason) {
        notifier.status(escaped(`on standby: ${message}`));
        if (obstacle.code === 'settings.invalid') emit({ name: 'settings.refused', ...failureIn(obstacle) });
      }
      reason = message;
      await sleep(TRY_EVERY_MS, undefined, { signal: stop }).catch(() => {});
      if (stop.aborted) {
        notifier.stopping();
        return null;
      }
      const triedAtMs = performance.now();
      const taken = await takeOver(standby.load, findObstacle, open);
      if ('value' in taken) {
        const waitedMs = Math.round(triedAtMs - sinceMs);
        const takeoverMs = Math.round(performance.now() - triedAtMs);
        emit({ name: 'standby.ended', waitedMs, takeoverMs });
        return taken.value;
      }
      obstacle = taken.obstacle;
    }
  } finally {
    control.onHangUp = () => Promise.resolve();
    clearInterval(feeding);
    await http.close();
  }
}

/** Opens with the current settings, if nothing prevents it. @returns the result, or the reason to continue waiting */
async function takeOver<T>(
  load: LoadSettings,
  findObstacle: () => Promise<MirrorError | null>,
  open: (loaded: Loaded) => Promise<T>,
): Promise<{ readonly value: T } | { readonly obstacle: MirrorError }> {
  const obstacle = await findObstacle();
  if (obstacle !== null) return { obstacle };
  let loaded: Loaded;
  try {
    loaded = load();
    // `open` checks them, too, but its failure ends the program.
    await checkCommand(loaded.settings, 'afterPublish');
    await checkCommand(loaded.settings, 'beforePublish');
  } catch (error) {
    return { obstacle: toMirrorError(error) };
  }
  try {
    return { value: await open(loaded) };
  } catch (error) {
    if (error instanceof LockedError && mayWait(error, loaded)) return { obstacle: error };
    throw error;
  }
}

/**
 * Watches the lock of a directory. If its volume is temporarily unmounted or unreachable, the directory below it would seem to
 * be free. The id identifies the right directory, as its device may change when it returns.
 * @returns a function that gives the reason not to take the lock now; null for none
 */
async function watchDirectory(first: Loaded): Promise<() => Promise<MirrorError | null>> {
  const { directory, shard } = first.settings;
  const layout = layoutOf(directory, shard);
  const native = bindNativeCalls();
  let known = await knownDirectoryId(layout).catch(() => null);
  return async () => {
    try {
      const id = await knownDirectoryId(layout);
      known ??= id;
      if (id !== known)
        return new MirrorError('directory.replaced', `${directory} is not the directory that was locked.`);
      await (await lockForWriting(layout, shard ?? null, native)).release();
      return null;
    } catch (error) {
      return error instanceof LockedError && !mayWait(error, first) ? null : toMirrorError(error);
    }
  };
}
