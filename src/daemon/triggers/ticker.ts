import { nextRunsMs } from '../../app/schedule.ts';
import type { Settings } from '../../config/schema.ts';

/** The settings that say when ticks come. */
type TickerTimes = Pick<Settings, 'schedule' | 'timezone'>;

/** A schedule that can be changed while it runs. */
export type Ticker = ReturnType<typeof startTicker>;

/** Longest time between two readings of the clock, in milliseconds: it may be set, and the machine may sleep. */
const LOOK_EVERY_MS = 10_000;

/**
 * Ticks on a schedule. It reads the time of day repeatedly, as a long timer would fire late after the
 * machine has slept. If the time of day was set back, it ticks immediately: else nothing would happen until the old time.
 * @param onTick called at every tick
 * @param onNext receives the time of the next tick, in milliseconds since the epoch, initially and at each change
 */
export function startTicker(times: TickerTimes, onTick: () => void, onNext: (nextAtMs: number) => void) {
  let present = times;
  let nextAtMs = Number.POSITIVE_INFINITY;
  let seenAtMs = Date.now();
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  const look = (): void => {
    const nowMs = Date.now();
    const isDue = nowMs >= nextAtMs || nowMs < seenAtMs;
    seenAtMs = nowMs;
    if (isDue) {
      onTick();
      schedule();
    } else wait();
  };
  const wait = (): void => {
    clearTimeout(timer);
    timer = setTimeout(look, Math.max(0, Math.min(LOOK_EVERY_MS, nextAtMs - Date.now())));
  };
  const schedule = (): void => {
    // Settings read during shutdown arrive afterwards: a new timer would keep the process alive.
    if (isStopped) return;
    nextAtMs = nextRunsMs(present.schedule, present.timezone, 1)[0] ?? Number.POSITIVE_INFINITY;
    if (Number.isFinite(nextAtMs)) onNext(nextAtMs);
    wait();
  };
  schedule();
  return {
    /** Changes the times of the ticks. */
    take: (next: TickerTimes): void => {
      present = next;
      schedule();
    },
    stop: (): void => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
