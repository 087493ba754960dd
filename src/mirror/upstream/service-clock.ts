/** The three forms of a date in HTTP (RFC 9110, section 5.6.7): IMF-fixdate, RFC 850 and asctime; all of them in UTC. */
const DATE_FORMS: readonly RegExp[] = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
];

/** The time that a Date header gives (RFC 9110, section 6.6.1), in milliseconds since the epoch; null if it is none. */
export function serviceTimeMs(header: string | undefined): number | null {
  const text = header?.trim() ?? '';
  if (!DATE_FORMS.some((form) => form.test(text))) return null;
  const timeMs = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(timeMs) ? null : timeMs;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const WORTH_SAYING_MS = 10 * MINUTE_MS;

/** Says that the service's clock and this machine's differ much; rounded, so that it reads the same at every pass. */
export function clockProblem(theirsMs: number | null, oursMs: number): string | null {
  if (theirsMs === null) return null;
  const differenceMs = Math.abs(theirsMs - oursMs);
  if (differenceMs <= WORTH_SAYING_MS) return null;
  return `the service's clock is about ${coarse(differenceMs)} ${theirsMs > oursMs ? 'ahead of' : 'behind'} this machine's`;
}

function coarse(durationMs: number): string {
  if (durationMs < 2 * HOUR_MS) return `${Math.round(durationMs / MINUTE_MS / 10) * 10} minutes`;
  if (durationMs < 2 * DAY_MS) return `${Math.round(durationMs / HOUR_MS)} hours`;
  return `${Math.round(durationMs / DAY_MS)} days`;
}
