import { MirrorError } from '../lib/errors/errors.ts';
import { formatDuration, parseDuration } from '../lib/text/units.ts';
import type { DeletionLimit } from '../mirror/plan/guard.ts';
import type { Retention } from '../mirror/store/disk.ts';
import type { Shard } from '../mirror/plan/selection.ts';

/** How the values that the plan decides by are written in settings: limits of deletions, retentions and shards. */

const PERCENT = /^(\d{1,3}(?:\.\d{1,3})?) ?%$/;
const NUMBER_OF_DELETIONS = /^\d{1,9}$/;

/** Reads a limit of deletions. @throws MirrorError `usage.invalid`; the message says what is expected */
export function parseDeletionLimit(text: string): DeletionLimit {
  const trimmed = text.trim();
  if (trimmed === 'off') return { kind: 'off' };
  if (NUMBER_OF_DELETIONS.test(trimmed)) return { kind: 'count', count: Number(trimmed) };
  const percent = Number(PERCENT.exec(trimmed)?.[1] ?? Number.NaN);
  if (percent <= 100) return { kind: 'share', percent };
  throw new MirrorError('usage.invalid', 'expected a share such as 20%, a number such as 100, or off');
}

/** Writes a limit of deletions so that {@link parseDeletionLimit} gives the same one back. */
export function formatDeletionLimit(limit: DeletionLimit): string {
  switch (limit.kind) {
    case 'off':
      return 'off';
    case 'count':
      return String(limit.count);
    case 'share':
      return `${limit.percent}%`;
  }
}

const NUMBER_OF_TREES = /^\d{1,6}$/;
const RETENTION_EXPECTED = 'expected a number such as 10, a duration such as 30d, forever, or off';

/** Reads a retention. @throws MirrorError `usage.invalid`; the message says what is expected */
export function parseRetention(text: string): Retention {
  const trimmed = text.trim();
  if (trimmed === 'off' || trimmed === '0') return { kind: 'off' };
  if (trimmed === 'forever') return { kind: 'forever' };
  if (NUMBER_OF_TREES.test(trimmed)) return { kind: 'count', count: Number(trimmed) };
  try {
    return { kind: 'age', ageMs: parseDuration(trimmed) };
  } catch (cause) {
    throw new MirrorError('usage.invalid', RETENTION_EXPECTED, { cause });
  }
}

/** Writes a retention so that {@link parseRetention} gives the same one back. */
export function formatRetention(retention: Retention): string {
  switch (retention.kind) {
    case 'off':
    case 'forever':
      return retention.kind;
    case 'count':
      return String(retention.count);
    case 'age':
      return formatDuration(retention.ageMs);
  }
}

/** Facts about the process, from which `auto` takes its index. */
export interface ShardSurroundings {
  /** Under Kubernetes the name of the pod; that of a StatefulSet's ends with its ordinal, from 0 on. */
  readonly hostName: string;
  /** The variable `JOB_COMPLETION_INDEX` of an Indexed Job, from 0 on; undefined where it is not set. */
  readonly completionIndex: string | undefined;
}

/** More instances than that read the same lists for a share that is hardly worth it. */
const MOST_SHARDS = 1024;

const SHARD_FORM = /^(auto|\d{1,5})\/(\d{1,5})$/;

/**
 * Reads the setting `shard`: `2/5`, the second of five, or `auto/5`, which takes the index from where the process runs.
 * @throws MirrorError `settings.invalid`
 */
export function parseShard(text: string, surroundings: ShardSurroundings): Shard {
  const [, which = '', of = ''] = SHARD_FORM.exec(text) ?? [];
  const count = Number(of);
  if (which === '' || count < 1 || count > MOST_SHARDS)
    throw invalid(`expected INDEX/COUNT or auto/COUNT, such as 2/5, with a count from 1 to ${MOST_SHARDS}`);
  if (which === 'auto') return { index: ordinalOf(surroundings, count) + 1, count };
  const index = Number(which);
  if (index < 1 || index > count)
    throw invalid(`expected an index from 1 to ${count}, as ${count} instances share the work`);
  return { index, count };
}

/** Writes a shard as the setting has it. */
export function formatShard({ index, count }: Shard): string {
  return `${index}/${count}`;
}

/** The number of the process among its like, from 0 on. @throws MirrorError `settings.invalid` */
function ordinalOf({ hostName, completionIndex }: ShardSurroundings, count: number): number {
  const fromJob = completionIndex !== undefined && completionIndex !== '';
  const text = fromJob ? completionIndex : /-(\d{1,9})$/.exec(hostName)?.[1];
  const source = fromJob ? 'the variable JOB_COMPLETION_INDEX' : `the host name ${JSON.stringify(hostName)}`;
  if (text === undefined)
    throw invalid(
      `expected an index: auto takes it from the number at the end of the host name, as a StatefulSet gives it, or from the variable JOB_COMPLETION_INDEX, and ${source} has none`,
    );
  if (!/^\d{1,9}$/.test(text)) throw invalid(`expected a number in ${source}`);
  const ordinal = Number(text);
  if (ordinal >= count)
    throw invalid(
      `expected a count above ${ordinal}: ${source} says that this is number ${ordinal + 1}, and the count is ${count}`,
    );
  return ordinal;
}

function invalid(message: string): MirrorError {
  return new MirrorError('settings.invalid', message);
}
