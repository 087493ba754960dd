/** Work beside everything else, done whenever something asks for it, and never twice at once. */
export interface BackgroundWork {
  /** Has the work done: now, or once more after what is going on. Nothing begins after `close`. */
  readonly wake: () => void;
  readonly isBusy: () => boolean;
  /** Waits until nothing is going on. */
  readonly idle: () => Promise<void>;
  /** Begins nothing more, leaves running work this time to end, in milliseconds, and then stops it; waits for its end. */
  readonly close: (timeoutMs: number) => Promise<void>;
}

/** How a piece of work learns that it is to end. */
export interface Ending {
  /** Fires as `close` is called: begin nothing more, wait for nothing. */
  readonly closing: AbortSignal;
  /** Fires when the time for an end is over: stop what is going on. */
  readonly stop: AbortSignal;
}

/** Makes background work. @param onError receives errors of the work, which is done again when it is asked for again */
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
