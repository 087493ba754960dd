import { WORKBOOK_STATUS_FILTERS, type WorkbookStatusFilter } from '../../lib/api/requests.ts';
import type { Reply } from '../../lib/http/reply.ts';
import { invalid } from '../../lib/http/request.ts';
import type { Library, ProcessingStatus, WorkbookRow, Workbooks } from './library.ts';
import { jsonReply } from './replies.ts';

function readFilter(query: URLSearchParams): WorkbookStatusFilter | null {
  const text = query.get('status');
  if (text === null) return null;
  const filter = WORKBOOK_STATUS_FILTERS.find((value) => value === text);
  if (filter !== undefined) return filter;
  const allowed = WORKBOOK_STATUS_FILTERS.join(' or ');
  throw invalid(`status is ${allowed}, not ${JSON.stringify(text)}`);
}

/** The requested page of a list. */
interface PageRequest {
  /** 1 for the first one. */
  readonly page: number;
  /** Rows on a page. */
  readonly pageSize: number;
}

const LARGEST_PAGE_SIZE = 1000;

function readNumber(query: URLSearchParams, name: string, otherwise: number, largest: number): number {
  const text = query.get(name);
  if (text === null) return otherwise;
  const value = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > largest) {
    const limit = largest === Number.MAX_SAFE_INTEGER ? '' : ` of at most ${largest}`;
    throw invalid(`${name} is a whole number from 1${limit}, not ${JSON.stringify(text)}`);
  }
  return value;
}

/**
 * Reads `page` and `page_size` from a query. The specification shows neither (section 4.2); these are ours.
 * @param defaultPageSize rows on a page if the query does not say
 * @throws RequestError 400 for anything but whole numbers in range
 */
export function readPageRequest(query: URLSearchParams, defaultPageSize: number): PageRequest {
  return {
    page: readNumber(query, 'page', 1, Number.MAX_SAFE_INTEGER),
    pageSize: readNumber(query, 'page_size', defaultPageSize, LARGEST_PAGE_SIZE),
  };
}

/**
 * Cuts one page out of all rows (service specification, section 2.5). A page after the last one is empty: the list may have shrunk since the client
 * learned of it, and "not found" would read as if v1 were switched off.
 * @param address address of the list with the query; neighbouring pages differ only in `page`
 */
export function cutPage<T>(rows: readonly T[], { page, pageSize }: PageRequest, address: URL) {
  const pages = Math.max(1, Math.ceil(rows.length / pageSize));
  const neighbour = (number: number): string => {
    const link = new URL(address);
    link.searchParams.set('page', String(number));
    return link.href;
  };
  return {
    count: rows.length,
    next: page < pages ? neighbour(page + 1) : null,
    previous: page > 1 ? neighbour(Math.min(page - 1, pages)) : null,
    results: rows.slice((page - 1) * pageSize, page * pageSize),
  };
}

/** Text normalized for search: upper and lower case, and all Unicode forms of a letter, are equal. */
function folded(text: string): string {
  return text.normalize('NFC').toLowerCase();
}

/**
 * Makes the filter that a query asks for, null for none: `status` (service specification, section 4.2), and `q`, a part of
 * the name, as in older services.
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
 * @param address address of the list with the query, as the client reaches it
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
