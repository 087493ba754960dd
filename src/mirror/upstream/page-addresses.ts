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
