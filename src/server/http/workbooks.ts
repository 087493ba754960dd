import { z } from 'zod';

import { WORKBOOK_STATUS_FILTERS } from '../../lib/api/requests.ts';
import type { Reply } from '../../lib/http/reply.ts';
import { invalid } from '../../lib/http/request.ts';
import type { Library, ProcessingStatus, WorkbookRow } from './library.ts';
import { jsonReply } from './messages.ts';

function wholeNumber(largest: number) {
  const message = `is a whole number from 1 to ${largest}`;
  const digits = z.string().regex(/^\d{1,9}$/, message);
  return digits.transform(Number).pipe(z.number().min(1, message).max(largest, message));
}

/** The query of the list (section 4.2). The specification shows neither `page` nor `page_size`; these are ours. */
const QUERY = z.object({
  status: z.enum(WORKBOOK_STATUS_FILTERS, `is ${WORKBOOK_STATUS_FILTERS.join(' or ')}`).optional(),
  /** A part of the name, as in older services. */
  q: z.string().default(''),
  /** 1 for the first one. */
  page: wholeNumber(999_999_999).default(1),
  /** Rows on a page. */
  page_size: wholeNumber(1000).optional(),
});

/**
 * Reads the query of the list.
 * @param defaultPageSize rows on a page if the query does not say
 * @throws RequestError 400 for an unknown status, and for pages that are not whole numbers in range
 */
export function readQuery(query: URLSearchParams, defaultPageSize: number) {
  // The first value of a name counts.
  const { data, error } = QUERY.safeParse(Object.fromEntries([...query].reverse()));
  if (data !== undefined) return { ...data, page_size: data.page_size ?? defaultPageSize };
  const [issue] = error.issues;
  const name = String(issue?.path[0]);
  throw invalid(`${name} ${issue?.message}, not ${JSON.stringify(query.get(name))}`);
}

/**
 * Cuts one page out of all rows (service specification, section 2.5). A page after the last one is empty: the list may have shrunk since the client
 * learned of it, and "not found" would read as if v1 were switched off.
 * @param address address of the list with the query; neighbouring pages differ only in `page`
 */
export function cutPage<T>(
  rows: readonly T[],
  { page, page_size: pageSize }: Pick<ReturnType<typeof readQuery>, 'page' | 'page_size'>,
  address: URL,
) {
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

/** A row as v1 gives it (service specification, sections 2.2 to 2.4; `file` as its appendix has it). */
function present(
  { id, integration, branch, path, version, file }: WorkbookRow,
  { status, processing, failure }: ProcessingStatus,
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
      status,
      branch,
      parent: { id: version.parentId },
    },
    status: { processing, failure },
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
  const query = readQuery(address.searchParams, defaultPageSize);
  const { rows, statusOf } = await library.workbooks();
  const { status } = query;
  // Upper and lower case, and all Unicode forms of a letter, are equal.
  const folded = (text: string): string => text.normalize('NFC').toLowerCase();
  const wanted = folded(query.q);
  const selected = rows.filter(
    (row) =>
      (status === undefined || statusOf(row)[status] > 0) &&
      (wanted === '' || folded(`/${row.path}`).includes(wanted)),
  );
  const { results, ...envelope } = cutPage(selected, query, address);
  return jsonReply(200, { ...envelope, results: results.map((row) => present(row, statusOf(row))) });
}
