import { parseBaseUrl } from '../../config/addresses.ts';

/** How many folders below the host of a pasted address may belong to the application's own. */
const MOST_FOLDERS = 3;

/**
 * The addresses of the API that a pasted address may mean, the likeliest first: its part up to `/api`, or the application at the host or
 * in a folder that the address names. https comes first, and http only where it was typed: a key must not go unencrypted by a guess.
 * @throws MirrorError `settings.invalid` for what is no address, or holds a password
 */
export function addressCandidates(pasted: string): readonly string[] {
  const text = pasted.trim().replace(/[?#].*$/s, '');
  const [, rest = text] = /^https?:\/\/(.*)$/is.exec(text) ?? [];
  const secure = rest.includes('://') ? '' : 'https://';
  const schemes = /^http:/i.test(text) ? [secure, 'http://'] : [secure];
  const found = schemes.flatMap((scheme) => {
    const { origin, pathname } = new URL(parseBaseUrl(scheme + rest));
    const names = pathname.split('/').filter((name) => name !== '');
    const folders = Array.from(names.slice(0, MOST_FOLDERS), (_, index) => index + 1);
    const counts = [...(names.includes('api') ? [names.indexOf('api')] : []), 0, ...folders];
    return counts.map((count) => [origin, ...names.slice(0, count), 'api'].join('/'));
  });
  return [...new Set(found)];
}

/** Whether an answer to a request for the repositories without a key is one of the API. @param status 0 where no answer came */
export function isOfApi(status: number, contentType = ''): boolean {
  return status === 401 || status === 403 || (status === 200 && /\bjson\b/i.test(contentType));
}
