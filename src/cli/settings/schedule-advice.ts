/** The fields of a cron expression from the last one back: the name of one, and of what it divides, and how many of it there are. */
const FIELDS = [
  { unit: 'day of week', whole: 'week', size: 7, first: 0 },
  { unit: 'month', whole: 'year', size: 12, first: 1 },
  { unit: 'day of month', whole: 'month', size: 31, first: 1 },
  { unit: 'hour', whole: 'day', size: 24, first: 0 },
  { unit: 'minute', whole: 'hour', size: 60, first: 0 },
  { unit: 'second', whole: 'minute', size: 60, first: 0 },
] as const;

/**
 * Says where a cron expression may mean something else than whoever wrote it thinks, a sentence each, as the end of one about the setting.
 * @param expression a valid one, of five or six fields
 */
export function scheduleAdvice(expression: string): string[] {
  const fields = expression.trim().split(/\s+/).toReversed();
  const [dayOfWeek = '*', , dayOfMonth = '*', hour = '*', minute = '*', second] = fields;
  const advice = fields.flatMap((field, index) =>
    field.split(',').flatMap((part) => stepAdvice(part, index)),
  );
  if (/[*/,-]/.test(second ?? '0'))
    advice.push('the first of six fields is seconds: passes start several times a minute.');
  if (minute === '*' && /^\d+$/.test(hour))
    advice.push(
      `a * for the minute starts a pass in each minute from ${hour}:00 to ${hour}:59; for one pass put 0 there.`,
    );
  if (![dayOfMonth, dayOfWeek].some((field) => field === '*' || field === '?'))
    advice.push(
      'a day must fit both day of month and day of week; other programs take days that fit one of the two.',
    );
  return advice;
}

/** Looks at a step such as `*\/7`, which begins anew with each hour, day or month. */
function stepAdvice(part: string, index: number): string[] {
  const field = FIELDS[index];
  const [, range = '', digits = ''] = /^([^/]+)\/(\d+)$/.exec(part) ?? [];
  const step = Number(digits);
  if (field === undefined || step <= 1 || !/^(?:\*|\d+-\d+)$/.test(range)) return [];
  const { unit, whole, size, first } = field;
  const [from = first, to = first + size - 1] = range === '*' ? [] : range.split('-').map(Number);
  if (from + step > to)
    return [`${part} for the ${unit} comes once in each ${whole}, and not every ${step} ${unit}s.`];
  // From 8-17 nobody expects that the night is as short as the steps of the day.
  if (to - from + 1 < size || (size % step === 0 && unit !== 'day of month')) return [];
  const last = from + Math.floor((to - from) / step) * step;
  return [`${part} for the ${unit} begins anew with each ${whole}: ${last} is followed by ${from}.`];
}
