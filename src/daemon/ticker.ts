import { type Schedule, startSchedule } from './schedule.ts';

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
 * Ticks on a schedule.
 * @param onTick called at every tick
 * @param onNext is told of the time of the next tick, in milliseconds since the epoch, at first and whenever it is another one
 */
export async function startTicker(
  times: TickerTimes,
  onTick: () => void,
  onNext: (nextAtMs: number) => void,
): Promise<Ticker> {
  let present: Schedule | null = null;
  let stopping = Promise.resolve();
  const announce = (): void => {
    const nextAtMs = present?.nextRunAtMs() ?? null;
    if (nextAtMs !== null) onNext(nextAtMs);
  };
  const start = async ({ schedule, timezone }: TickerTimes): Promise<Schedule> => {
    const started: Schedule = await startSchedule(schedule, timezone, () => {
      // One that is ready but not taken, or was replaced, ticks for nobody.
      if (present !== started) return;
      onTick();
      announce();
    });
    return started;
  };
  present = await start(times);
  announce();
  return {
    prepare: async (next) => {
      const schedule = await start(next);
      const take = (): void => {
        const before = present;
        present = schedule;
        stopping = stopping.then(() => before?.stop());
        announce();
      };
      return { take, abandon: schedule.stop };
    },
    stop: async () => {
      await stopping;
      await present?.stop();
    },
  };
}
