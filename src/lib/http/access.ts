import { hash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';

/**
 * Whether a request carries the token: as a bearer token (RFC 6750), or as the password of any user (RFC 7617), which
 * browsers ask for automatically.
 */
export function hasToken(authorization: string | undefined, token: string): boolean {
  const pair = basicPair(authorization);
  const bearer = /^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1] ?? '';
  const sent = pair === null ? bearer : pair.slice(pair.indexOf(':') + 1);
  return isSame(sent, token) && token !== '';
}

/** The user and password of Basic credentials, with the colon between them (RFC 7617); null for other credentials. */
export function basicPair(authorization: string | undefined): string | null {
  const encoded = /^basic +(\S+) *$/i.exec(authorization ?? '')?.[1];
  return encoded === undefined ? null : Buffer.from(encoded, 'base64').toString('utf8');
}

/** Compares in a time that depends on neither text: their digests have one length for every input. */
function isSame(sent: string, expected: string): boolean {
  const digest = (text: string): Buffer => hash('sha256', text, 'buffer');
  return timingSafeEqual(digest(sent), digest(expected));
}

/** Whether an address is one that only this machine can reach (RFC 1122, RFC 4291). */
export function isLoopback(address: string): boolean {
  const plain = address.toLowerCase().replace(/^::ffff:/, '');
  return plain === '::1' || (isIP(plain) === 4 && plain.startsWith('127.'));
}

/**
 * Whether a request names a host that a browser can only have reached on purpose: an address, `localhost`, or a known own
 * name. Any other name may belong to a foreign site that was made to point here (DNS rebinding): its scripts could read
 * everything, also from a network that the site itself does not reach.
 * @param host the header; programs other than browsers may send none
 * @param ownNames names, in any case; a leading `*.` covers all names below
 */
export function isOwnHost(host: string | undefined, ownNames: readonly string[]): boolean {
  if (host === undefined) return true;
  if (!/^[a-z0-9._:[\]-]+$/i.test(host)) return false;
  const name = URL.parse(`http://${host}`)?.hostname.replace(/\.$/, '') ?? '';
  if (isIP(name.replace(/^\[|\]$/g, '')) !== 0) return true;
  if (name === 'localhost' || name.endsWith('.localhost')) return true;
  return ownNames.some((each) => {
    const own = each.toLowerCase();
    return own.startsWith('*.') ? name.endsWith(own.slice(1)) : name === own;
  });
}

/**
 * Whether a browser says that another site's page makes a background request (Fetch Metadata, W3C). Such a page could not read
 * the answer, but would take up the daemon's time and its event streams. Following a link from another site is allowed.
 */
export function isForeignFetch(headers: IncomingHttpHeaders): boolean {
  const site = headers['sec-fetch-site'];
  if (site === undefined || site === 'same-origin' || site === 'none') return false;
  return headers['sec-fetch-mode'] !== 'navigate';
}
