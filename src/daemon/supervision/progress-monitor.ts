/** Tells whether the running work makes progress: whoever does some of it touches it. */
export interface ProgressMonitor {
  readonly touch: () => void;
  /** Work begins; until it ends, silence counts. Gives what says that it ended. */
  readonly begin: () => () => void;
  /** Whether any work that was begun has not ended. */
  readonly isWorking: () => boolean;
  /** How long nothing was touched while work is going on, in milliseconds; 0 while none is. */
  readonly idleMs: () => number;
}

/** Makes a progress monitor. @param now a monotonic clock, in milliseconds */
export function createProgressMonitor(now: () => number = () => performance.now()): ProgressMonitor {
  let lastTouchMs = now();
  let working = 0;
  const touch = (): void => {
    lastTouchMs = now();
  };
  return {
    touch,
    begin: () => {
      touch();
      working += 1;
      return () => {
        working -= 1;
      };
    },
    isWorking: () => working > 0,
    idleMs: () => (working > 0 ? now() - lastTouchMs : 0),
  };
}
