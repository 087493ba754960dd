import { stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

import type { SettingsFor } from '../config/schema.ts';
import { MirrorError } from '../lib/errors/errors.ts';
import { escaped } from '../lib/text/terminal-text.ts';
import { eventFailure, type EventSink } from '../mirror/pass/events.ts';
import { layoutOf } from '../mirror/store/layout.ts';
import type { Notifier } from './supervision/notify.ts';
import { startWatchdog } from './supervision/supervise.ts';
import { startStandbyHttp } from './web/status-server.ts';

/** What standing by needs. */
export interface Standby {
  readonly settings: SettingsFor<'directory'>;
  readonly notifier: Notifier;
  /** Fires when the program is to end. */
  readonly stop: AbortSignal;
  readonly emit: EventSink;
}

/** How often the lock is tried for, in milliseconds. */
const TRY_EVERY_MS = 1000;

/** How often a supervisor is told that all is well that does not say how often, in milliseconds. */
const FEED_EVERY_MS = 10_000;

/**
 * Opens something that another instance may have locked. With the setting `standby` it stands by then: it says so to all who ask, and
 * tries again until it can be opened.
 * @returns null where the program was told to end meanwhile
 * @throws MirrorError what `open` throws otherwise
 */
export async function openOrStandBy<T>(standby: Standby, open: () => Promise<T>): Promise<T | null> {
  try {
    return await open();
  } catch (error) {
    if (!isLocked(error) || !standby.settings.standby) throw error;
    return standBy(standby, error, open);
  }
}

async function standBy<T>(
  { settings, notifier, stop, emit }: Standby,
  cause: MirrorError,
  open: () => Promise<T>,
): Promise<T | null> {
  const sinceMs = performance.now();
  emit({ name: 'standby.began', ...eventFailure(cause) });
  const http = await startStandbyHttp(settings, cause.message, emit);
  const { watchdogIntervalMs } = notifier;
  const stopWatchdog = startWatchdog({
    silentMs: () => 0,
    stuckAfterMs: () => 1,
    feed: notifier.watchdog,
    intervalMs: watchdogIntervalMs === null ? FEED_EVERY_MS : watchdogIntervalMs / 2,
    onStuck: () => {},
  });
  // Where the volume is not mounted for a while, another directory would seem to be free.
  const lockFile = layoutOf(settings.directory).lockFile;
  const locked = await identityOf(lockFile);
  notifier.ready();
  notifier.status(escaped(`standing by: ${cause.message}`));
  try {
    for (;;) {
      await sleep(TRY_EVERY_MS, undefined, { signal: stop }).catch(() => {});
      if (stop.aborted) {
        notifier.stopping();
        return null;
      }
      if ((await identityOf(lockFile)) !== locked) continue;
      const triedAtMs = performance.now();
      const opened = await unlessLocked(open);
      if (opened === null) continue;
      const nowMs = performance.now();
      const [waitedMs, takeoverMs] = [triedAtMs - sinceMs, nowMs - triedAtMs].map(Math.round);
      emit({ name: 'standby.ended', waitedMs: waitedMs ?? 0, takeoverMs: takeoverMs ?? 0 });
      return opened.value;
    }
  } finally {
    await http.close();
    stopWatchdog();
  }
}

/** Tells a file from any other; null where none can be looked at. */
async function identityOf(file: string): Promise<string | null> {
  const found = await stat(file).catch(() => null);
  return found === null ? null : `${found.dev} ${found.ino}`;
}

async function unlessLocked<T>(open: () => Promise<T>): Promise<{ readonly value: T } | null> {
  try {
    return { value: await open() };
  } catch (error) {
    if (isLocked(error)) return null;
    throw error;
  }
}

function isLocked(error: unknown): error is MirrorError {
  return error instanceof MirrorError && error.code === 'directory.locked';
}
