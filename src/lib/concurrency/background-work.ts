/** Background work, done on request, and never twice at once. */
export interface BackgroundWork {
  /** Requests the work: now, or once more after the running one. Nothing begins after `close`. */
  readonly wake: () => void;
  readonly isBusy: () => boolean;
  /** Waits until no work is running. */
  readonly idle: () => Promise<void>;
  /** Begins nothing more, gives running work this time to end, in milliseconds, and then stops it; waits for its end. */
  readonly close: (timeoutMs: number) => Promise<void>;
}

/** The signals that ask work to end. */
export interface Ending {
  /** Fires as `close` is called: begin nothing more, wait for nothing. */
  readonly closing: AbortSignal;
  /** Fires when the time to end is over: stop running work. */
  readonly stop: AbortSignal;
}

/** Makes background work. @param onError receives errors of the work, which runs again at the next request */
export function createBackgroundWork(
  work: (ending: Ending) => Promise<void>,
  onError: (error: unknown) => void,
): BackgroundWork {
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
    wake: () => {
      isWanted = true;
      if (isRunning) return;
      isRunning = true;
      running = run();
    },
    isBusy,
    idle: async () => {
      while (isBusy()) await running;
    },
    close: async (timeoutMs) => {
      closing.abort();
      if (timeoutMs <= 0) stop.abort();
      const timer = setTimeout(() => stop.abort(), timeoutMs);
      await running;
      clearTimeout(timer);
    },
  };
}
