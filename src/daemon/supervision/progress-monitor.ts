/** Monitors the progress of running work: each piece of work calls `touch` when it progresses. */
export type ProgressMonitor = ReturnType<typeof createProgressMonitor>;

/** Makes a progress monitor. @param isPulling whether pulls are running, which may outlast their passes */
export function createProgressMonitor(isPulling: () => boolean) {
  let lastTouchMs = performance.now();
  let working = 0;
  const touch = (): void => {
    lastTouchMs = performance.now();
  };
  const isWorking = (): boolean => working > 0 || isPulling();
  return {
    touch,
    /** Begins work; until it ends, silence counts. Returns a function to call when it has ended. */
    begin: (): (() => void) => {
      touch();
      working += 1;
      return () => {
        working -= 1;
      };
    },
    /** Whether any work is running. */
    isWorking,
    /** Time since the last `touch` while work is running, in milliseconds; 0 without work. */
    idleMs: (): number => (isWorking() ? performance.now() - lastTouchMs : 0),
  };
}
