/** The two clocks of a machine, in milliseconds. */
export interface Clocks {
  /** The time of day, which a person or NTP may set. */
  readonly wall: () => number;
  /** Goes on evenly while the machine is awake. */
  readonly monotonic: () => number;
}

/** How often the clocks are compared, in milliseconds. */
const COMPARE_EVERY_MS = 10_000;

/** What NTP adjusts within that time, and what a busy machine comes too late by, is less, in milliseconds. */
const TOLERANCE_MS = 5000;

/**
 * Tells when the time of day was set, or the machine has slept: timers that were reckoned before lead to wrong times. Gives what
 * ends the watch.
 */
export function watchClock(
  onJump: () => void,
  { wall, monotonic }: Clocks = { wall: Date.now, monotonic: () => performance.now() },
): () => void {
  let offsetMs = wall() - monotonic();
  const timer = setInterval(() => {
    const presentMs = wall() - monotonic();
    const hasJumped = Math.abs(presentMs - offsetMs) > TOLERANCE_MS;
    offsetMs = presentMs;
    if (hasJumped) onJump();
  }, COMPARE_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}
