import type { CommandProgress } from '../../src/cli/change/progress.ts';
import { PullMonitor } from '../../src/mirror/pass/events.ts';

/** The progress of a command that nobody looks at. */
export function silentProgress(): CommandProgress {
  return { sink: () => {}, monitor: new PullMonitor(), close: () => {} };
}
