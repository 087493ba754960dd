import type { Command } from 'commander';

import { type LogEntry, logSources, mergedLog } from '../../app/change-log.ts';
import { approvalSentence, heldSentence } from '../../app/messages.ts';
import { readTargets, withReader } from '../../app/open-reader.ts';
import { ofTargets } from '../../app/target-names.ts';
import type { FileDifference } from '../../app/tasks/file-differences.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { foldName } from '../../lib/paths/safe-path.ts';
import { counted, partsOf, utcTime } from '../../lib/text/humanize.ts';
import { say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { type Outcome, table, tellEvent } from '../frame/output.ts';
import { parseTime } from '../frame/times.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { DIFFERENCE_HEADINGS, differenceCells } from './differences.ts';

interface LogFlags {
  readonly since?: string;
  readonly author?: string;
  readonly file?: string;
}

/** `log` */
export async function runLog(command: Command): Promise<Outcome> {
  const flags: LogFlags = command.opts();
  const { settings } = settingsOf(command, ['directory']);
  const entries = await withReader(settings, tellEvent, async (reader) => {
    const { statuses } = await readTargets(settings, reader);
    const { layout } = reader.store;
    const all = await logSources(layout, statuses);
    return takeMeant(mergedLog(ofTargets(all, command.args, layout.mirror)), flags, Date.now());
  });
  return { data: entries, text: () => describeLog(entries) };
}

/** The entries that match the flags. @param log the latest first @throws MirrorError `usage.invalid` */
async function takeMeant(
  log: AsyncIterable<LogEntry>,
  { since, author, file }: LogFlags,
  nowMs: number,
): Promise<readonly LogEntry[]> {
  const sinceMs = since === undefined ? Number.NEGATIVE_INFINITY : parseTime('--since', since, nowMs);
  for (const [flag, text] of Object.entries({ author, file }))
    if (text === '') throw new MirrorError('usage.invalid', `--${flag}: an empty text would fit everything.`);
  const isMeant = ({ path, movedFrom, after }: FileDifference): boolean =>
    // The author of a removed file's version did not necessarily remove it.
    (author === undefined || foldName(after?.workbook?.author ?? '').includes(foldName(author))) &&
    (file === undefined || [path, movedFrom].some((each) => `/${each ?? ''}`.endsWith(`/${file}`)));
  const entries: LogEntry[] = [];
  for await (const entry of log) {
    if (entry.atMs < sinceMs) break;
    const differences = entry.differences.filter(isMeant);
    if (author === undefined && file === undefined) entries.push(entry);
    else if (differences.length > 0) entries.push({ ...entry, files: differences.length, differences });
  }
  return entries;
}

/** The most files shown of one change; `--json` has all. */
const FILES_SHOWN = 100;

/** Describes the log to a person: a line for each changed file, and for each other event. */
function describeLog(entries: readonly LogEntry[]): TerminalText {
  if (entries.length === 0) return say`Nothing is on record.`;
  const notes: string[] = [];
  const rows = entries.flatMap((entry) => {
    const { target, atMs, kind, files, differences } = entry;
    const time = utcTime(atMs);
    if (kind !== 'changed') {
      notes.push(noteOf(entry));
      return [[time, kind, target]];
    }
    return differences.slice(0, FILES_SHOWN).map((difference, index) => {
      const { movedFrom } = difference;
      const more = index === FILES_SHOWN - 1 ? files - FILES_SHOWN : 0;
      const moved = movedFrom === null ? '' : `moved from ${movedFrom}`;
      notes.push(more > 0 ? `and ${counted(more, 'other file')} of ${target}: --json has all` : moved);
      const [change = '', path = '', ...cells] = differenceCells(difference);
      return [time, change, `${target}/${path}`].concat(cells);
    });
  });
  const [, , ...headings] = DIFFERENCE_HEADINGS;
  return table(['READABLE HERE', 'CHANGE', 'FILE', ...headings], rows, notes);
}

/** The line below an event other than a change of files. */
function noteOf({ kind, files, held, approval }: LogEntry): string {
  return partsOf(
    held !== null && heldSentence(held),
    held === null && kind !== 'approved' && `${counted(files, 'file')} in all`,
    approval !== null && approvalSentence(approval),
  ).join('; ');
}
