import { parseBaseUrl } from '../../config/addresses.ts';

/** The most folders of a pasted address that may lead to the application. */
const MOST_FOLDERS = 3;

/**
 * The possible addresses of the API for a pasted address, the likeliest first: its part up to `/api`, or the application at the host or in
 * a folder of the address. https comes first, and http only if it was typed: a guess must not send a key unencrypted.
 * @throws MirrorError `settings.invalid` if it is not an address, or holds a password
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

/** Whether the API gave this answer to a request for the repositories without a key. @param status 0 if no answer came */
export function isOfApi(status: number, contentType = ''): boolean {
  return status === 401 || status === 403 || (status === 200 && /\bjson\b/i.test(contentType));
}
