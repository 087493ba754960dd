import { WORKBOOK_STATUS_FILTERS, type WorkbookStatusFilter } from '../../lib/api/requests.ts';
import type { Reply } from '../../lib/http/reply.ts';
import { invalid } from '../../lib/http/request-error.ts';
import type { Library, ProcessingStatus, WorkbookRow, Workbooks } from './library.ts';
import { cutPage, readPageRequest } from './paging.ts';
import { jsonReply } from './replies.ts';

function readFilter(query: URLSearchParams): WorkbookStatusFilter | null {
  const text = query.get('status');
  if (text === null) return null;
  const filter = WORKBOOK_STATUS_FILTERS.find((value) => value === text);
  if (filter !== undefined) return filter;
  const allowed = WORKBOOK_STATUS_FILTERS.join(' or ');
  throw invalid(`status is ${allowed}, not ${JSON.stringify(text)}`);
}

/** Text as it is searched: the same for both cases and for every Unicode form of a letter. */
function folded(text: string): string {
  return text.normalize('NFC').toLowerCase();
}

/**
 * Makes the choice of rows that a query asks for, null for all: `status` (service specification, section 4.2), and `q`, a part of
 * the name, which older services know.
 */
function chooserFor(
  filter: WorkbookStatusFilter | null,
  part: string | null,
  standingOf: Workbooks['standingOf'],
): ((row: WorkbookRow) => boolean) | null {
  if (filter === null && (part === null || part === '')) return null;
  const wanted = folded(part ?? '');
  return (row) =>
    (filter === null || standingOf(row)[filter] > 0) &&
    (wanted === '' || folded(`/${row.path}`).includes(wanted));
}

/** A row as v1 gives it (service specification, sections 2.2 to 2.4; `file` as its appendix has it). */
function present(
  { id, integration, branch, path, version, file }: WorkbookRow,
  standing: ProcessingStatus,
): unknown {
  return {
    type: 'workbook',
    id,
    name: `/${path}`,
    display_name: path.slice(path.lastIndexOf('/') + 1),
    integration,
    version: {
      id: version.id,
      author: version.author,
      action: version.action,
      created_at: version.createdAt,
      message: version.message,
      status: standing.status,
      branch,
      parent: { id: version.parentId },
    },
    status: { processing: standing.processing, failure: standing.failure },
    ...(file === undefined ? {} : { file }),
  };
}

/**
 * Answers a request for the list of workbooks (section 4.2).
 * @param address of the list with the query that was asked, as the client reaches it
 * @throws RequestError 400 for a query that is not valid
 */
export async function answerWorkbooks(
  library: Library,
  address: URL,
  defaultPageSize: number,
): Promise<Reply> {
  const filter = readFilter(address.searchParams);
  const page = readPageRequest(address.searchParams, defaultPageSize);
  const { rows, standingOf } = await library.workbooks();
  const isChosen = chooserFor(filter, address.searchParams.get('q'), standingOf);
  const selected = isChosen === null ? rows : rows.filter(isChosen);
  const { results, ...envelope } = cutPage(selected, page, address);
  return jsonReply(200, { ...envelope, results: results.map((row) => present(row, standingOf(row))) });
}
