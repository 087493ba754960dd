import type { Generation } from '../../lib/api/requests.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { WireAnswer } from './connections.ts';

const MAX_REDIRECTS = 5;

/** The request that was redirected. */
interface Redirected {
  /** How often it was redirected before. */
  readonly redirects: number;
  readonly isPost: boolean;
  /** The address of the service. */
  readonly base: URL;
  readonly generation: Generation;
}

/** Where a redirect leads, if it may be followed. @throws MirrorError `service.redirected` */
export function redirectTarget(
  { url, status, headers: { location } }: Pick<WireAnswer, 'url' | 'status' | 'headers'>,
  { redirects, isPost, base, generation }: Redirected,
): URL {
  const next = location === undefined ? null : URL.parse(location, url.href);
  // Other redirects may turn a POST into a GET (RFC 9110, section 15.4).
  const keepsMethod = !isPost || status === 307 || status === 308;
  const isAllowed = next !== null && keepsMethod && mayFollow(next, base, generation);
  if (!isAllowed || redirects === MAX_REDIRECTS) throw redirected(url, status, next, base);
  return next;
}

/** A redirect is followed inside the service's origin, and only to the generation whose credential is on the way. */
function mayFollow(url: URL, base: URL, generation: Generation): boolean {
  if (url.origin !== base.origin) return false;
  const isV1 = url.pathname.startsWith(`${base.pathname.replace(/\/$/, '')}/v1/`);
  return isV1 === (generation === 'v1');
}

/** The error for a redirect. Of an address elsewhere only the origin is named: nobody knows what else stands in it. */
function redirected(url: URL, status: number, next: URL | null, base: URL): MirrorError {
  const path = next?.origin === base.origin ? next.pathname : '';
  const where = next === null ? 'to nowhere' : `to ${next.origin}${path}`;
  return new MirrorError(
    'service.redirected',
    `${url.origin}${url.pathname} redirects ${where} (status ${status}), which is not followed with credentials.`,
    {
      hint: 'Put the final address into the setting service.baseUrl. A redirect to a login page means that the key is missing or refused.',
    },
  );
}
