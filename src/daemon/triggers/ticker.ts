import { createSerialQueue } from '../../lib/concurrency/serial-queue.ts';
import { type Schedule, startSchedule } from '../../app/schedule.ts';

/** When ticks come. */
export interface TickerTimes {
  /** A cron expression. */
  readonly schedule: string;
  /** The time zone of the expression. */
  readonly timezone: string;
}

/** A schedule that can be changed while it runs. */
export interface Ticker {
  /** Makes other times ready; they are kept from `take` on. */
  readonly prepare: (
    times: TickerTimes,
  ) => Promise<{ readonly take: () => void; readonly abandon: () => Promise<void> }>;
  readonly stop: () => Promise<void>;
}

/**
 * Ticks on a schedule. Where the time of day was set, or the machine has slept, it ticks at once and reckons anew: a timer that
 * leads to a time which is now days ahead would let nothing happen for days.
 * @param onTick called at every tick
 * @param onNext receives the time of the next tick, in milliseconds since the epoch, at first and whenever it changes
 */
export async function startTicker(
  times: TickerTimes,
  onTick: () => void,
  onNext: (nextAtMs: number) => void,
  clocks?: Clocks,
): Promise<Ticker> {
  let present = times;
  let running: Schedule | null = null;
  const stops = createSerialQueue();
  let isStopped = false;
  const announce = (): void => {
    const nextAtMs = running?.nextRunAtMs() ?? null;
    if (nextAtMs !== null) onNext(nextAtMs);
  };
  const start = async ({ schedule, timezone }: TickerTimes): Promise<Schedule> => {
    const started: Schedule = await startSchedule(schedule, timezone, () => {
      // One that is ready but not taken, or was replaced, ticks for nobody.
      if (running !== started) return;
      onTick();
      announce();
    });
    return started;
  };
  const replace = (schedule: Schedule): void => {
    const before = running;
    running = schedule;
    if (before !== null) void stops.run(before.stop);
    announce();
  };
  const restart = async (): Promise<void> => {
    onTick();
    const schedule = await start(present);
    if (isStopped) await schedule.stop();
    else replace(schedule);
  };
  replace(await start(times));
  const unwatch = watchClock(() => void restart(), clocks);
  return {
    prepare: async (next) => {
      const schedule = await start(next);
      const take = (): void => {
        present = next;
        replace(schedule);
      };
      return { take, abandon: schedule.stop };
    },
    stop: async () => {
      isStopped = true;
      unwatch();
      await stops.done();
      await running?.stop();
    },
  };
}

/** The two clocks of a machine, in milliseconds. */
export interface Clocks {
  /** The time of day, which a person or NTP may set. */
  readonly wall: () => number;
  /** Goes on evenly while the machine is awake. */
  readonly monotonic: () => number;
}

/** How often the clocks are compared, in milliseconds. */
const COMPARE_EVERY_MS = 10_000;

/** Smaller differences are no jump, in milliseconds: NTP adjusts less in that time, and a busy machine is less late. */
const TOLERANCE_MS = 5000;

/**
 * Calls back when the time of day was set, or the machine has slept: timers that were set before end at wrong times. Returns a
 * function that ends the watch.
 */
function watchClock(
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
