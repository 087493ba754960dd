import { MirrorError } from '../../lib/errors/errors.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { parseDuration } from '../../lib/text/units.ts';
import { parseHistoryName } from '../../mirror/store/layout.ts';

/**
 * Reads a time as `history list` prints it, or any ISO 8601 time; one without a zone is UTC.
 * @param nowMs milliseconds since the epoch
 * @throws MirrorError `usage.invalid`, also for a time after it
 */
export function parseTime(text: string, nowMs: number): number {
  const timeMs = timeOf(text);
  // A clock that was ahead gave trees in the history such names.
  if (timeMs !== null && timeMs > nowMs && parseHistoryName(text) === null)
    throw new MirrorError('usage.invalid', `--at ${text} is in the future.`);
  if (timeMs !== null) return timeMs;
  throw new MirrorError(
    'usage.invalid',
    `--at takes a time such as 2026-11-21T10:00:00Z, not ${JSON.stringify(text)}.`,
    { hint: `\`${ownCommand('history list')}\` shows the times at which trees left the mirror.` },
  );
}

/**
 * Reads a time in the same forms, or an age such as `7d`.
 * @param nowMs milliseconds since the epoch
 * @throws MirrorError `usage.invalid`
 */
export function parseSince(text: string, nowMs: number, flag = '--since'): number {
  const timeMs = timeOf(text);
  if (timeMs !== null) return timeMs;
  try {
    return nowMs - parseDuration(text);
  } catch (cause) {
    const message = `${flag} takes a time such as 2026-11-21T10:00:00Z, or an age such as 7d, not ${JSON.stringify(text)}.`;
    throw new MirrorError('usage.invalid', message, { cause });
  }
}

/** Day, time of the day and zone; only the day is required. */
const ISO_TIME = /^(\d{4}-\d{2}-\d{2})([T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?$/;

function timeOf(text: string): number | null {
  const named = parseHistoryName(text);
  if (named !== null) return named.atMs;
  const [, day = '', time = 'T00:00', zone = 'Z'] = ISO_TIME.exec(text) ?? [];
  const dayMs = Date.parse(day);
  // Date.parse would take 30 February for 2 March.
  if (Number.isNaN(dayMs) || !new Date(dayMs).toISOString().startsWith(day)) return null;
  const timeMs = Date.parse(day + time + zone);
  return Number.isNaN(timeMs) ? null : timeMs;
}
