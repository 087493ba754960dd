import type { Command } from 'commander';

import type { WorkbookStatusFilter } from '../../lib/api/requests.ts';
import { counted } from '../../lib/text/humanize.ts';
import { type Outcome, table, textOf } from '../frame/output.ts';
import { runOnce } from '../frame/task-runners.ts';

const HEADINGS = ['WORKBOOK', 'BRANCH', 'VERSION', 'CREATED', 'AUTHOR', 'PROCESSING', 'FAILURE'];

/** `workbooks list` */
export async function runWorkbooksList(command: Command): Promise<Outcome> {
  const { status }: { status?: WorkbookStatusFilter } = command.opts();
  const { rows, problems } = await runOnce(command, 'workbooks', { status });
  const cells = rows.map(({ id, branch, versionId, createdAt, author, processing, failure }) => [
    id,
    branch,
    versionId.slice(0, 10),
    createdAt ?? '-',
    author ?? '-',
    String(processing),
    String(failure),
  ]);
  const listed = cells.length > 0 && [table(HEADINGS, cells), ''];
  return { data: rows, text: () => textOf(listed, `${counted(rows.length, 'workbook')}.`, problems) };
}
