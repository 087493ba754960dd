import type { Command } from 'commander';

import type { WorkbookStatusFilter } from '../../lib/api/requests.ts';
import { counted } from '../../lib/text/humanize.ts';
import { type Outcome, table, textOf } from '../frame/output.ts';
import { runOnce } from '../frame/task-runners.ts';
import { createWorkbookFilter, type WorkbookFlags } from './workbook-filter.ts';

const HEADINGS = ['WORKBOOK', 'BRANCH', 'VERSION', 'CREATED', 'AUTHOR', 'PROCESSING', 'FAILURE'];

/** `workbooks list` */
export async function runWorkbooksList(command: Command): Promise<Outcome> {
  const { status, ...flags } = command.opts<WorkbookFlags & { status?: WorkbookStatusFilter }>();
  // Check the flags before reading anything.
  const filter = createWorkbookFilter(flags, Date.now());
  const { rows, problems } = await runOnce(command, 'workbooks', { status });
  const chosen = rows.filter(filter);
  const cells = chosen.map(({ id, branch, versionId, createdAt, author, processing, failure }) => [
    id,
    branch,
    versionId.slice(0, 10),
    createdAt ?? '-',
    author ?? '-',
    String(processing),
    String(failure),
  ]);
  const listed = cells.length > 0 && [table(HEADINGS, cells), ''];
  return { data: chosen, text: () => textOf(listed, `${counted(chosen.length, 'workbook')}.`, problems) };
}
