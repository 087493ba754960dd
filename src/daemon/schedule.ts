import { createTask, validate } from 'node-cron';

/** A schedule that is running. */
export interface Schedule {
  /** Milliseconds since the epoch; null when it never comes. */
  readonly nextRunAtMs: () => number | null;
  readonly stop: () => Promise<void>;
}

/** A tick that comes late, because the machine slept or the loop was busy, still counts for so long, in milliseconds. */
const LATE_TICK_TOLERANCE_MS = 24 * 60 * 60 * 1000;

/** How many runs are looked at to find the longest time between two of them. */
const RUNS_LOOKED_AT = 60;

/** Says what is wrong with a cron expression, or nothing. */
export function checkSchedule(expression: string): string | undefined {
  if (!validate(expression)) {
    return 'is no cron expression: five fields (minute, hour, day of month, month, day of week), or six with seconds first';
  }
  return nextRunsMs(expression, 'UTC', 1).length === 0 ? 'never comes' : undefined;
}

/** Calls `onTick` on the schedule, in a named time zone. */
export async function startSchedule(
  expression: string,
  timezone: string,
  onTick: () => void,
): Promise<Schedule> {
  const task = createTask(expression, onTick, {
    timezone,
    missedExecutionTolerance: LATE_TICK_TOLERANCE_MS,
    suppressMissedWarning: true,
  });
  await task.start();
  return {
    nextRunAtMs: () => task.getNextRun()?.getTime() ?? null,
    stop: async () => {
      await task.destroy();
    },
  };
}

/** The longest time between two runs that follow each other, in milliseconds. */
export function longestPeriodMs(expression: string, timezone: string): number {
  const runs = nextRunsMs(expression, timezone, RUNS_LOOKED_AT);
  return runs.reduce((longest, run, index) => Math.max(longest, run - (runs[index - 1] ?? run)), 0);
}

function nextRunsMs(expression: string, timezone: string, count: number): number[] {
  const task = createTask(expression, () => {}, { timezone });
  try {
    return task.getNextRuns(count).map((run) => run.getTime());
  } finally {
    void task.destroy();
  }
}
