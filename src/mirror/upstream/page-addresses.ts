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
      hint: 'Nothing was deleted. If it stays, report it to the vendor of the service.',
    },
  );
}

/** How the addresses of a list's pages go on: one number in the query that grows by the same step from page to page. */
export interface PageSteps {
  /** The address up to the number, and what follows it. */
  readonly before: string;
  readonly after: string;
  /** The number of the address last seen. */
  readonly last: number;
  readonly step: number;
}

const NUMBER = /^(?<name>[^=]*=)(?<digits>0|[1-9]\d{0,14})$/;

/**
 * Finds out from two addresses in a row how the next ones will look. Two that differ in anything but one parameter that is a
 * number and grows, such as an opaque cursor, teach nothing.
 */
export function learnSteps(one: URL, other: URL): PageSteps | null {
  if (withoutQuery(one) !== withoutQuery(other)) return null;
  const former = one.search.slice(1).split('&');
  const latter = other.search.slice(1).split('&');
  const [at, ...others] = latter.flatMap((piece, index) => (piece === former[index] ? [] : [index]));
  if (former.length !== latter.length || at === undefined || others.length > 0) return null;
  const from = NUMBER.exec(former[at] ?? '')?.groups;
  const to = NUMBER.exec(latter[at] ?? '')?.groups;
  if (from === undefined || to === undefined || from['name'] !== to['name']) return null;
  const last = Number(to['digits']);
  const step = last - Number(from['digits']);
  if (step <= 0) return null;
  return {
    before: `${withoutQuery(other)}?${[...latter.slice(0, at), to['name']].join('&')}`,
    after: ['', ...latter.slice(at + 1)].join('&'),
    last,
    step,
  };
}

/** The address so many pages after the one last seen. */
export function stepAhead({ before, after, last, step }: PageSteps, pages: number): URL {
  return new URL(`${before}${last + pages * step}${after}`);
}

function withoutQuery(url: URL): string {
  return `${url.origin}${url.pathname}`;
}
