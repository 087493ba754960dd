import type { Command } from 'commander';

import type { WorkbookStatusFilter } from '../../lib/api/requests.ts';
import { counted } from '../../lib/text/humanize.ts';
import { joinLines, type TerminalText } from '../../lib/text/terminal-text.ts';
import type { WorkbookRow } from '../../mirror/upstream/listing.ts';
import { type Outcome, table } from '../frame/output.ts';
import { runOnce } from '../frame/task-runners.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { createWorkbookFilter, type WorkbookFlags } from './workbook-filter.ts';
import { listOffline } from './workbooks-offline.ts';

interface ListFlags extends WorkbookFlags {
  readonly offline?: true;
  readonly status?: WorkbookStatusFilter;
}

/** `workbooks list` */
export async function runWorkbooksList(command: Command): Promise<Outcome> {
  const flags = command.opts<ListFlags>();
  if (flags.offline === true) {
    const { directory } = settingsOf(command, ['directory']).settings;
    return listOffline(directory, flags);
  }
  const filter = createWorkbookFilter(flags, Date.now());
  const { rows, problems } = await runOnce(command, 'workbooks', { status: flags.status });
  const chosen = rows.filter(filter);
  return { data: chosen, text: () => describeWorkbooks(chosen, problems) };
}

/** Describes workbooks to a person. */
function describeWorkbooks(rows: readonly WorkbookRow[], problems: readonly string[]): TerminalText {
  const lines = rows.map((row) => [
    row.id,
    row.branch,
    row.versionId.slice(0, 10),
    row.createdAt ?? '-',
    row.author ?? '-',
    String(row.processing),
    String(row.failure),
  ]);
  const headings = ['WORKBOOK', 'BRANCH', 'VERSION', 'CREATED', 'AUTHOR', 'PROCESSING', 'FAILURE'];
  const body = lines.length === 0 ? [] : [table(headings, lines), ''];
  return joinLines([...body, `${counted(lines.length, 'workbook')}.`, ...problems]);
}
