import type { CommandProgress } from '../../src/cli/sync.ts';
import { ProgressMonitor } from '../../src/sync/progress-monitor.ts';

/** The progress of a command that nobody looks at. */
export function silentProgress(): CommandProgress {
  return { sink: () => {}, monitor: new ProgressMonitor(), close: () => {} };
}
