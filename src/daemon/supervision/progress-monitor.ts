/** Monitors the progress of running work: each piece of work calls `touch` when it progresses. */
export interface ProgressMonitor {
  readonly touch: () => void;
  /** Begins work; until it ends, silence counts. Returns a function to call when it has ended. */
  readonly begin: () => () => void;
  /** Whether any work is running. */
  readonly isWorking: () => boolean;
  /** Time since the last `touch` while work is running, in milliseconds; 0 without work. */
  readonly idleMs: () => number;
}

/** Makes a progress monitor. @param isPulling whether pulls are running, which may outlast their passes */
export function createProgressMonitor(isPulling: () => boolean): ProgressMonitor {
  let lastTouchMs = performance.now();
  let working = 0;
  const touch = (): void => {
    lastTouchMs = performance.now();
  };
  const isWorking = (): boolean => working > 0 || isPulling();
  return {
    touch,
    begin: () => {
      touch();
      working += 1;
      return () => {
        working -= 1;
      };
    },
    isWorking,
    idleMs: () => (isWorking() ? performance.now() - lastTouchMs : 0),
  };
}
