import { MirrorError } from '../lib/errors/errors.ts';
import { ownCommand } from '../lib/text/own-command.ts';
import { parseHistoryName } from '../mirror/store/layout.ts';

/** Reads a time as `history list` prints it, or any ISO 8601 time; one without a zone is UTC. @throws MirrorError `usage.invalid` */
export function parseTime(text: string): number {
  const named = parseHistoryName(text)?.atMs;
  const isDate = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/.test(
    text,
  );
  const hasZone = /(?:Z|[+-]\d{2}:?\d{2})$/.test(text) && text.includes(':');
  const timeMs =
    named ?? (isDate ? Date.parse(hasZone || text.length === 10 ? text : `${text}Z`) : Number.NaN);
  if (!Number.isNaN(timeMs)) return timeMs;
  throw new MirrorError(
    'usage.invalid',
    `--at takes a time such as 2026-11-21T10:00:00Z, not ${JSON.stringify(text)}.`,
    { hint: `\`${ownCommand('history list')}\` shows the times at which trees left the mirror.` },
  );
}
