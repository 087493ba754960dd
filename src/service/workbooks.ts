import { WORKBOOK_STATUS_FILTERS, type WorkbookStatusFilter } from '../api/schemas.ts';
import { type Answer, jsonAnswer } from './answer.ts';
import type { WorkbookListing, WorkbookRow } from './listing.ts';
import { formatVersionTime } from './names.ts';
import { cutPage, readPageRequest } from './paging.ts';
import { RequestError } from './request-error.ts';

/** How many versions of a workbook are being processed or have failed (service specification, section 2.4). */
export interface Counters {
  readonly processing: number;
  readonly failure: number;
}

/** Gives the counters of a workbook by its id. */
export type CountersOf = (workbookId: string) => Counters;

function readFilter(query: URLSearchParams): WorkbookStatusFilter | null {
  const text = query.get('status');
  if (text === null) return null;
  const filter = WORKBOOK_STATUS_FILTERS.find((value) => value === text);
  if (filter !== undefined) return filter;
  const allowed = WORKBOOK_STATUS_FILTERS.join(' or ');
  throw new RequestError(400, 'invalid', `status is ${allowed}, not ${JSON.stringify(text)}`);
}

/** A row as v1 gives it (sections 2.2 to 2.4). */
function present(row: WorkbookRow, counters: Counters): unknown {
  const { commit, action } = row.change;
  return {
    type: 'workbook',
    id: row.id,
    name: `/${row.path}`,
    display_name: row.path.slice(row.path.lastIndexOf('/') + 1),
    integration: row.integration,
    version: {
      id: commit.id,
      author: commit.author,
      action,
      created_at: formatVersionTime(commit.committedAtSeconds),
      message: commit.message,
      status: 'success',
      branch: row.branch,
      parent: { id: commit.parentId },
    },
    status: { processing: counters.processing, failure: counters.failure },
  };
}

/**
 * Answers a request for the list of workbooks (section 4.2).
 * @param address address of the list with the query that was asked, as the client reaches it
 * @throws RequestError 400 for a query that is not valid
 */
export async function answerWorkbooks(
  listing: WorkbookListing,
  countersOf: CountersOf,
  address: URL,
  defaultPageSize: number,
): Promise<Answer> {
  const filter = readFilter(address.searchParams);
  const page = readPageRequest(address.searchParams, defaultPageSize);
  const rows = await listing.rows();
  const selected = filter === null ? rows : rows.filter((row) => countersOf(row.id)[filter] > 0);
  const { results, ...envelope } = cutPage(selected, page, address);
  return jsonAnswer(200, { ...envelope, results: results.map((row) => present(row, countersOf(row.id))) });
}
