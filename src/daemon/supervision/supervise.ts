import type { Notifier } from './notify.ts';
import type { ProgressMonitor } from './progress-monitor.ts';
import { startWatchdog } from './watchdog.ts';
import type { EventSink } from '../../mirror/pass/events.ts';
import type { Live } from '../status/live.ts';
import { describeLive } from './status-line.ts';

/** The daemon's word to whoever supervises it. */
export interface Supervision {
  /** Takes in what happens, after the status service has. */
  readonly sink: EventSink;
  readonly ready: () => void;
  /** Says that the settings are being read while `work` does that. */
  readonly whileReloading: (work: () => Promise<void>) => Promise<void>;
  readonly stopping: () => void;
  readonly close: () => void;
}

/** How often a loop that is stuck is looked for where nobody feeds on it, in milliseconds. */
const LOOK_EVERY_MS = 10_000;

/** The watchdog is fed twice in its time (sd_watchdog_enabled(3)). */
const FED_PER_INTERVAL = 2;

/** Reports to the supervisor, and feeds its watchdog for as long as the running pass makes progress. */
export function supervise(
  notifier: Notifier,
  progress: ProgressMonitor,
  live: () => Live,
  stuckAfterMs: () => number,
  emit: EventSink,
): Supervision {
  const { watchdogIntervalMs } = notifier;
  let said = '';
  const stopWatchdog = startWatchdog({
    silentMs: progress.idleMs,
    stuckAfterMs,
    feed: notifier.watchdog,
    intervalMs:
      watchdogIntervalMs === null
        ? Math.min(LOOK_EVERY_MS, stuckAfterMs())
        : watchdogIntervalMs / FED_PER_INTERVAL,
    onStuck: (silentMs) => emit({ name: 'loop.stuck', silentMs }),
  });
  return {
    sink: () => {
      const text = describeLive(live());
      if (String(text) !== said) notifier.status(text);
      said = String(text);
    },
    ready: notifier.ready,
    whileReloading: async (work) => {
      notifier.reloading();
      await work();
      notifier.ready();
    },
    stopping: notifier.stopping,
    close: stopWatchdog,
  };
}
