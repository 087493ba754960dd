import { createTask } from 'node-cron';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** The period searched for the longest time between two runs: a week, and a margin for schedules without weekends. */
const LOOKED_OVER_MS = 9 * 24 * HOUR_MS;

/** Number of runs to examine, at least and at most. */
const RUNS_LOOKED_AT = [60, 20_000] as const;

/** January and July: every zone with daylight saving time has it in exactly one of them. */
const MONTHS = [0, 6];

/**
 * The time zone for running a schedule. One that is the same in every hour runs in UTC if its zone is whole hours from UTC:
 * at the end of summer time an hour occurs twice, and node-cron skips one, so that no pass would start for an hour.
 */
function zoneFor(expression: string, timezone: string): string {
  return isEvery(expression, 4) && isWholeHours(timezone) ? 'UTC' : timezone;
}

/** Whether the last fields, this many, of an expression match everything. */
function isEvery(expression: string, fields: number): boolean {
  return expression
    .trim()
    .split(/\s+/)
    .slice(-fields)
    .every((field) => field === '*');
}

/** If no field names an hour, or a minute, all of them are alike, and two are enough. */
function lookedOverMs(expression: string): number {
  if (isEvery(expression, 5)) return 2 * MINUTE_MS;
  return isEvery(expression, 4) ? 2 * HOUR_MS : LOOKED_OVER_MS;
}

function isWholeHours(timezone: string): boolean {
  // The first use of Intl's time zones takes a tenth of the time of `status`.
  if (timezone === 'UTC') return true;
  const minute = new Intl.DateTimeFormat('en', { timeZone: timezone, minute: 'numeric' });
  const year = new Date().getUTCFullYear();
  return MONTHS.every((month) => Number(minute.format(Date.UTC(year, month, 1))) === 0);
}

/** The longest time between two consecutive runs, in milliseconds, within a week or a shorter period of repetition. */
export function longestPeriodMs(expression: string, timezone: string): number {
  const [least, most] = RUNS_LOOKED_AT;
  let runs: number[] = [];
  for (let count: number = least; count <= most; count *= 4) {
    runs = nextRunsMs(expression, timezone, count);
    if ((runs.at(-1) ?? 0) - (runs[0] ?? 0) >= lookedOverMs(expression)) break;
  }
  return runs.reduce((longest, run, index) => Math.max(longest, run - (runs[index - 1] ?? run)), 0);
}

/** When the next runs begin, in milliseconds since the epoch. */
export function nextRunsMs(expression: string, timezone: string, count: number): number[] {
  const task = createTask(expression, () => {}, { timezone: zoneFor(expression, timezone) });
  try {
    return task.getNextRuns(count).map((run) => run.getTime());
  } finally {
    void task.destroy();
  }
}
