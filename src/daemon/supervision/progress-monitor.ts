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

/**
 * Makes a progress monitor.
 * @param isPulling whether pulls are under way, which may outlast their passes
 * @param now a monotonic clock, in milliseconds
 */
export function createProgressMonitor(
  isPulling: () => boolean,
  now: () => number = () => performance.now(),
): ProgressMonitor {
  let lastTouchMs = now();
  let working = 0;
  const touch = (): void => {
    lastTouchMs = now();
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
    idleMs: () => (isWorking() ? now() - lastTouchMs : 0),
  };
}
