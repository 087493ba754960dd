/** What a watchdog works with. Durations in milliseconds. */
export interface WatchdogOptions {
  /** How long the running work has made no progress; 0 while there is none. */
  readonly silentMs: () => number;
  /** From when on it is stuck. */
  readonly stuckAfterMs: () => number;
  /** Tells the supervisor that all is well. */
  readonly feed: () => void;
  /** How often it is looked at. */
  readonly intervalMs: number;
  /** Called once each time that the work gets stuck. */
  readonly onStuck: (silentMs: number) => void;
}

/**
 * Feeds a supervisor's watchdog for as long as the event loop turns and the running work makes progress: a timer alone would go
 * on feeding it beside a pass that hangs. Gives what stops it.
 */
export function startWatchdog(options: WatchdogOptions): () => void {
  let wasStuck = false;
  const look = (): void => {
    const silentMs = options.silentMs();
    const isStuck = silentMs > options.stuckAfterMs();
    if (!isStuck) options.feed();
    else if (!wasStuck) options.onStuck(Math.round(silentMs));
    wasStuck = isStuck;
  };
  look();
  const timer = setInterval(look, options.intervalMs);
  timer.unref();
  return () => clearInterval(timer);
}
