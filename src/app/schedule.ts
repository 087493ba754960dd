import { createTask } from 'node-cron';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** The time that is looked over to find the longest time between two runs: a week, and what a weekend hides behind it. */
const LOOKED_OVER_MS = 9 * 24 * HOUR_MS;

/** How many runs are looked at, at least and at most. */
const RUNS_LOOKED_AT = [60, 20_000] as const;

/** The months in one of which every zone with summer time has it, and in the other not. */
const MONTHS = [0, 6];

/**
 * The zone that a schedule is run in. One that comes in every hour alike means the same in every zone that is whole hours from
 * UTC, and in UTC no hour comes twice: node-cron leaves one of the two out, so that for an hour no pass would start.
 */
function zoneFor(expression: string, timezone: string): string {
  return isEvery(expression, 4) && isWholeHours(timezone) ? 'UTC' : timezone;
}

/** Whether the last so many fields of an expression leave nothing out. */
function isEvery(expression: string, fields: number): boolean {
  return expression
    .trim()
    .split(/\s+/)
    .slice(-fields)
    .every((field) => field === '*');
}

/** Every hour, or every minute, is like the one before it where no field names one: two of them tell all. */
function lookedOverMs(expression: string): number {
  if (isEvery(expression, 5)) return 2 * MINUTE_MS;
  return isEvery(expression, 4) ? 2 * HOUR_MS : LOOKED_OVER_MS;
}

function isWholeHours(timezone: string): boolean {
  const minute = new Intl.DateTimeFormat('en', { timeZone: timezone, minute: 'numeric' });
  const year = new Date().getUTCFullYear();
  return MONTHS.every((month) => Number(minute.format(Date.UTC(year, month, 1))) === 0);
}

/** The longest time between two runs that follow each other, in milliseconds, over at least a week, or what repeats before that. */
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
