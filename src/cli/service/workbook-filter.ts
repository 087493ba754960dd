import { anyOf, isPattern, type Matches } from '../../config/selection.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { foldName } from '../../lib/paths/safe-path.ts';
import type { WorkbookRow } from '../../mirror/upstream/listing.ts';
import { parseTime } from '../frame/times.ts';

/** The flags that select workbooks; without flags, all are selected. */
export interface WorkbookFlags {
  readonly name?: string;
  readonly author?: string;
  readonly branch?: string;
  readonly since?: string;
  readonly message?: string;
}

/** The properties of a workbook, or of another file, that flags refer to. */
export type Searchable = Pick<WorkbookRow, 'path' | 'branch' | 'author' | 'message' | 'createdAt'>;

/**
 * Selects the workbooks that match all flags. An unknown property of a workbook matches no flag.
 * @param nowMs milliseconds since the epoch, from which ages count
 * @throws MirrorError `usage.invalid`
 */
export function createWorkbookFilter(
  { name, author, branch, since, message }: WorkbookFlags,
  nowMs: number,
): (workbook: Searchable) => boolean {
  for (const [flag, text] of Object.entries({ name, author, branch, message }))
    if (text === '') throw new MirrorError('usage.invalid', `--${flag}: an empty text would fit everything.`);
  const fitsName = name === undefined ? null : nameMatcher(name);
  const fitsBranch = branch === undefined ? null : anyOf([branch]);
  const fitsAuthor = author === undefined ? null : partMatcher(author);
  const fitsMessage = message === undefined ? null : partMatcher(message);
  const sinceMs = since === undefined ? null : parseTime('--since', since, nowMs);
  return (workbook) =>
    fitsName?.(workbook.path) !== false &&
    fitsBranch?.(workbook.branch) !== false &&
    fitsAuthor?.(workbook.author ?? '') !== false &&
    fitsMessage?.(workbook.message ?? '') !== false &&
    // An invalid time is NaN, which is never later.
    (sinceMs === null || Date.parse(workbook.createdAt ?? '') >= sinceMs);
}

/** Accepts texts that contain a text, ignoring letter case and Unicode form. */
function partMatcher(part: string): Matches {
  const wanted = foldName(part);
  return (text) => foldName(text).includes(wanted);
}

/**
 * Selects paths that contain a text or, if it is a pattern, match it. A pattern without a slash is compared with the last part of a
 * path. As names may look like patterns, such as `Budget [2026]`, the plain text also counts.
 */
function nameMatcher(asked: string): Matches {
  const isPart = partMatcher(asked);
  if (!isPattern(asked)) return isPart;
  const fits = anyOf([foldName(asked)]);
  const isOfWhole = asked.includes('/');
  return (path) => isPart(path) || fits(foldName(isOfWhole ? path : path.slice(path.lastIndexOf('/') + 1)));
}
