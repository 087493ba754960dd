import { invalid } from '../../lib/http/request-error.ts';

/** Which page of a list is asked for. */
export interface PageRequest {
  /** 1 for the first one. */
  readonly page: number;
  /** Rows on a page. */
  readonly pageSize: number;
}

/** A page of rows with its neighbours (service specification, section 2.5). */
export interface Page<T> {
  readonly count: number;
  readonly next: string | null;
  readonly previous: string | null;
  readonly results: readonly T[];
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
 * @param defaultPageSize rows on a page when the query does not say
 * @throws RequestError 400 for anything but whole numbers in range
 */
export function readPageRequest(query: URLSearchParams, defaultPageSize: number): PageRequest {
  return {
    page: readNumber(query, 'page', 1, Number.MAX_SAFE_INTEGER),
    pageSize: readNumber(query, 'page_size', defaultPageSize, LARGEST_PAGE_SIZE),
  };
}

/**
 * Cuts one page out of all rows. A page after the last one is empty: rows may have become fewer since the client was
 * told of it, and "not found" would read as if v1 were switched off.
 * @param address address of the list with the query that was asked; neighbours differ in `page` only
 */
export function cutPage<T>(rows: readonly T[], { page, pageSize }: PageRequest, address: URL): Page<T> {
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
