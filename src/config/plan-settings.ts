import { hostname } from 'node:os';

import { formatDuration, parseDuration } from '../lib/text/units.ts';
import type { DeletionLimit } from '../mirror/plan/guard.ts';
import type { Retention } from '../mirror/store/disk.ts';
import type { Shard } from '../mirror/plan/selection.ts';
import { kindOf } from './kinds.ts';
import { invalidValue } from './problems.ts';

/** The settings with values that the plan uses: limits of deletions, retentions and shards. */

/** The limit for deletions without approval. */
export const deletionLimit = kindOf('<percent|number|off>', parseDeletionLimit, {
  spell: formatDeletionLimit,
});

function parseDeletionLimit(text: string): DeletionLimit {
  const trimmed = text.trim();
  if (trimmed === 'off') return { kind: 'off' };
  if (/^\d{1,9}$/.test(trimmed)) return { kind: 'count', count: Number(trimmed) };
  const percent = Number(/^(\d{1,3}(?:\.\d{1,3})?) ?%$/.exec(trimmed)?.[1] ?? Number.NaN);
  if (percent <= 100) return { kind: 'share', percent };
  throw invalidValue('expected a percentage such as 20%, a number such as 100, or off');
}

function formatDeletionLimit(limit: DeletionLimit): string {
  if (limit.kind === 'off') return 'off';
  return limit.kind === 'count' ? String(limit.count) : `${limit.percent}%`;
}

/** The retention of the history. */
export const retention = kindOf('<number|duration|off>', parseRetention, { spell: formatRetention });

function parseRetention(text: string): Retention {
  const trimmed = text.trim();
  if (trimmed === 'off' || trimmed === '0') return { kind: 'off' };
  if (trimmed === 'forever') return { kind: 'forever' };
  if (/^\d{1,6}$/.test(trimmed)) return { kind: 'count', count: Number(trimmed) };
  try {
    return { kind: 'age', ageMs: parseDuration(trimmed) };
  } catch {
    throw invalidValue('expected a number such as 10, a duration such as 30d, forever, or off');
  }
}

/** Formats a retention as in the setting. */
export function formatRetention(retention: Retention): string {
  if (retention.kind === 'count') return String(retention.count);
  return retention.kind === 'age' ? formatDuration(retention.ageMs) : retention.kind;
}

/** This instance's share of the repositories. */
export const shard = kindOf(
  '<index/count>',
  (text) => parseShard(text, hostname(), process.env['JOB_COMPLETION_INDEX']),
  { spell: formatShard },
);

/** More instances would each read the same lists for a share that is hardly worth it. */
const MOST_SHARDS = 1024;

/**
 * Parses the setting `shard`: `2/5`, the second of five, or `auto/5`, which takes the number of a pod of a StatefulSet, or of an
 * Indexed Job: both count from 0.
 * @param hostName ends with the number in a StatefulSet
 * @param completionIndex the variable `JOB_COMPLETION_INDEX`; undefined if it is not set
 * @throws MirrorError `settings.invalid`
 */
export function parseShard(text: string, hostName: string, completionIndex: string | undefined): Shard {
  const [, which = '', of = ''] = /^(auto|\d{1,5})\/(\d{1,5})$/.exec(text) ?? [];
  const count = Number(of);
  if (which === '' || count < 1 || count > MOST_SHARDS)
    throw invalidValue(
      `expected INDEX/COUNT or auto/COUNT, such as 2/5, with a count from 1 to ${MOST_SHARDS}`,
    );
  const index = which === 'auto' ? indexOf(hostName, completionIndex) : Number(which);
  if (index >= 1 && index <= count) return { index, count };
  throw invalidValue(
    which === 'auto'
      ? `expected a number from 0 to ${count - 1} in the variable JOB_COMPLETION_INDEX or, if that is not set, at the end of the host name, as a` +
          ` StatefulSet gives it; they are ${JSON.stringify(completionIndex ?? '')} and ${JSON.stringify(hostName)}`
      : `expected an index from 1 to ${count}, as ${count} instances share the work`,
  );
}

/** The number of this process among its like, from 1; NaN if none is found. */
function indexOf(hostName: string, completionIndex: string | undefined): number {
  const fromJob = completionIndex !== undefined && completionIndex !== '';
  const ordinal = fromJob ? completionIndex : /-(\d{1,9})$/.exec(hostName)?.[1];
  return /^\d{1,9}$/.test(ordinal ?? '') ? Number(ordinal) + 1 : Number.NaN;
}

/** Formats a shard as in the setting. */
export function formatShard({ index, count }: Shard): string {
  return `${index}/${count}`;
}
