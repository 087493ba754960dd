import type { IncomingHttpHeaders } from 'node:http';

import { CREDENTIAL_HEADERS, CREDENTIAL_PLACES, type Generation } from '../api/requests.ts';
import { findKeyOfKind, type KeyKind, type KnownKey } from './keys.ts';
import { RequestError } from './request-error.ts';

const CREDENTIAL_NAMES: Readonly<Record<Generation, string>> = {
  current: 'the API key of the current API',
  v1: 'the API token of v1',
};

/** The kind of key that each generation takes (service specification, sections 5.1 and 5.2). */
const KINDS: Readonly<Record<Generation, KeyKind>> = { current: 'personal', v1: 'token' };

/** The specification shows the bare token (section 5.2); clients also write the usual words before it. */
export function withoutScheme(header: string): string {
  return header.replace(/^(?:token|bearer) +/i, '');
}

/**
 * Checks that a request carries the credential of its generation (service specification, section 5).
 * @returns the key that it carries
 * @throws RequestError 401 when it is missing or another one, 403 for a group key, 404 for v1 where there is no token at all
 */
export function authorise(
  generation: Generation,
  headers: IncomingHttpHeaders,
  keys: readonly KnownKey[],
): KnownKey {
  const kind = KINDS[generation];
  if (generation === 'v1' && !keys.some((key) => key.kind === kind))
    throw new RequestError(404, 'not_found', `${generation} is switched off on this server`);
  const name = CREDENTIAL_HEADERS[generation];
  const value = headers[name];
  const header = typeof value === 'string' ? value : '';
  const sent = generation === 'v1' ? withoutScheme(header) : header;
  const key = findKeyOfKind(keys, kind, sent);
  if (key !== null) return key;
  if (findKeyOfKind(keys, 'group', sent) !== null) {
    const wanted = generation === 'v1' ? 'an API token' : 'a personal API key';
    throw new RequestError(403, 'group_key', `a group key is for incoming webhooks only: send ${wanted}`);
  }
  const problem = sent === '' ? 'is missing' : 'is not valid';
  const message =
    `${CREDENTIAL_NAMES[generation]} ${problem}: send it in the header ${name}; ` +
    `it is made in the application settings under ${CREDENTIAL_PLACES[generation]}`;
  throw new RequestError(401, 'unauthorized', message, {
    'www-authenticate': `${name} realm="${generation}"`,
  });
}
