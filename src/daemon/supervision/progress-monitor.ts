/** Tells whether the running work makes progress: each piece of work that moves on calls `touch`. */
export interface ProgressMonitor {
  readonly touch: () => void;
  /** Begins work; until it ends, silence counts. Returns a function to call when it has ended. */
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
