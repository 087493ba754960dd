import { MirrorError } from '../../lib/errors/errors.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { parseDuration } from '../../lib/text/units.ts';
import { parseHistoryName } from '../../mirror/store/layout.ts';

/**
 * Reads a time as `history list` prints it, any ISO 8601 time, which is UTC without a zone, or an age such as `7d`.
 * @param nowMs milliseconds since the epoch
 * @throws MirrorError `usage.invalid`, also for a time after it
 */
export function parseTime(flag: string, text: string, nowMs: number): number {
  const givenMs = timeOf(text) ?? nowMs - ageOf(flag, text);
  // Times are printed without milliseconds: the state at one is that at the end of the second.
  const isPrinted = flag === '--at' && /:\d\d:\d\d(?!\.)/.test(text) && givenMs <= nowMs;
  const timeMs = isPrinted ? Math.min(givenMs + 999, nowMs) : givenMs;
  // A clock that was ahead gave trees in the history such times: they can be looked up. A prune up to one would remove all.
  const isExact = flag === '--at' && (parseHistoryName(text) !== null || /\.\d{3}Z$/.test(text));
  if (timeMs <= nowMs || isExact) return timeMs;
  throw new MirrorError('usage.invalid', `${flag} ${text} is in the future.`);
}

function ageOf(flag: string, text: string): number {
  try {
    return parseDuration(text);
  } catch (cause) {
    const message = `${flag} takes a time such as 2026-11-21T10:00:00Z, or an age such as 7d, not ${JSON.stringify(text)}.`;
    const hint = `\`${ownCommand('history list')}\` shows the times at which trees left the mirror.`;
    throw new MirrorError('usage.invalid', message, { cause, hint });
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
