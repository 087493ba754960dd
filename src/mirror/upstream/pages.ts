import { WORKBOOKS_PATH } from '../../lib/api/requests.ts';
import { MirrorError } from '../../lib/errors/errors.ts';

/**
 * Where the next page is. `next` may be absolute, a path or a query, and behind a proxy it may name the service's inner
 * host or lack the prefix of the base address: the token goes to this list only, so that of a `next` that leads elsewhere
 * only the query counts (service specification, section 2.5: "Reference to the next page").
 * @param next the reference as the page gives it
 * @param current the address that the page came from
 * @throws MirrorError `listing.malformed` when it is no reference to another page of this list
 */
export function nextPageUrl(next: string, current: URL): URL {
  if (next.length > MAX_REFERENCE_LENGTH) throw malformed(next);
  const resolved = URL.parse(next, current.href);
  if (resolved === null) throw malformed(next);
  const list = listPath(current);
  const isBelow = resolved.origin === current.origin && resolved.pathname.startsWith(`${list}/`);
  const target = new URL(isBelow ? resolved : current);
  if (!isBelow) {
    if (resolved.search === '') throw malformed(next);
    if (current.pathname !== `${list}/`) target.pathname = list;
    target.search = resolved.search;
  }
  target.username = '';
  target.password = '';
  const status = current.searchParams.get('status');
  if (status !== null && !target.searchParams.has('status')) target.searchParams.set('status', status);
  target.hash = '';
  return target;
}

/** Servers need take no longer addresses (RFC 9110, section 4.1). */
const MAX_REFERENCE_LENGTH = 8000;

/** The path of the list itself, of which a page may be a part. */
function listPath(current: URL): string {
  const at = current.pathname.indexOf(WORKBOOKS_PATH);
  return at === -1 ? current.pathname : current.pathname.slice(0, at + WORKBOOKS_PATH.length);
}

function malformed(next: string): MirrorError {
  return new MirrorError(
    'listing.malformed',
    `The list of workbooks names a next page that cannot be followed: ${JSON.stringify(next.slice(0, 200))}.`,
    {
      hint: 'Nothing was deleted. It is tried again by itself; if it stays, report it to the maker of the service.',
    },
  );
}

/** What one reading of all pages gave. */
export interface Reading<Row> {
  readonly rows: readonly Row[];
  /** The `count` of each page. */
  readonly counts: readonly number[];
  /** Rows that could not be understood. */
  readonly malformed: number;
  /** Whether a row occurs twice. */
  readonly repeats: boolean;
  /** Whether a page that another one named was gone when it was asked for. */
  readonly isCut: boolean;
}

/** What to think of a reading. */
export type Completeness =
  | { readonly kind: 'complete' }
  | { readonly kind: 'doubtful'; readonly why: string };

/** Judges whether pages shifted while they were read: counts must agree with each other and with the rows. */
export function checkCompleteness(reading: Reading<unknown>): Completeness {
  const total = reading.rows.length + reading.malformed;
  const [count] = reading.counts;
  if (reading.isCut) return { kind: 'doubtful', why: 'a page was gone while it was read' };
  if (count === undefined) return { kind: 'doubtful', why: 'there was no page' };
  if (reading.counts.some((each) => each !== count)) {
    return { kind: 'doubtful', why: 'the count changed from page to page' };
  }
  if (count !== total)
    return { kind: 'doubtful', why: `the count says ${count}, the pages hold ${total} rows` };
  if (reading.repeats) return { kind: 'doubtful', why: 'a row occurs twice' };
  return { kind: 'complete' };
}

/**
 * Whether two readings hold the same rows.
 * @param keyOf gives a text for a row that is the same for the same row
 */
export function sameRows<Row>(one: Reading<Row>, other: Reading<Row>, keyOf: (row: Row) => string): boolean {
  if (one.rows.length !== other.rows.length || one.malformed !== other.malformed) return false;
  if (one.rows === other.rows) return true;
  const a = one.rows.map(keyOf).sort();
  const b = other.rows.map(keyOf).sort();
  return a.every((key, index) => key === b[index]);
}
