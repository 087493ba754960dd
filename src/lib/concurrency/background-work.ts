/** The signals that ask work to end. */
export interface Ending {
  /** Fires as `close` is called: begin nothing more, wait for nothing. */
  readonly closing: AbortSignal;
  /** Fires when the time to end is over: stop running work. */
  readonly stop: AbortSignal;
}

/** Makes background work, done on request, and never twice at once. @param onError receives errors of the work, which runs again at the next request */
export function createBackgroundWork(
  work: (ending: Ending) => Promise<void>,
  onError: (error: unknown) => void,
) {
  const closing = new AbortController();
  const stop = new AbortController();
  const ending = { closing: closing.signal, stop: stop.signal };
  let isWanted = false;
  let isRunning = false;
  let running = Promise.resolve();
  const run = async (): Promise<void> => {
    while (isWanted && !closing.signal.aborted) {
      isWanted = false;
      try {
        await work(ending);
      } catch (error) {
        onError(error);
      }
    }
    isRunning = false;
  };
  const isBusy = (): boolean => isRunning;
  return {
    /** Requests the work: now, or once more after the running one. Nothing begins after `close`. */
    wake: (): void => {
      isWanted = true;
      if (isRunning) return;
      isRunning = true;
      running = run();
    },
    isBusy,
    /** Waits until no work is running. */
    idle: async (): Promise<void> => {
      while (isBusy()) await running;
    },
    /** Begins nothing more, gives running work this time to end, in milliseconds, and then stops it; waits for its end. */
    close: async (timeoutMs: number): Promise<void> => {
      closing.abort();
      if (timeoutMs <= 0) stop.abort();
      const timer = setTimeout(() => stop.abort(), timeoutMs);
      await running;
      clearTimeout(timer);
    },
  };
}
