import type { IncomingHttpHeaders } from 'node:http';

import {
  CREDENTIAL_HEADERS,
  CREDENTIAL_PLACES,
  type Generation,
  KEY_KINDS,
  type KeyKind,
} from '../../lib/api/requests.ts';
import { RequestError } from '../../lib/http/request.ts';
import { findKey, findKeyOfKind, type KnownKey } from '../keys/keys.ts';

/** The credential of each generation (service specification, sections 5.1 and 5.2): its kind of key, and its name. */
const CREDENTIALS: Readonly<Record<Generation, { readonly kind: KeyKind; readonly name: string }>> = {
  current: { kind: 'personal', name: 'the API key of the current API' },
  v1: { kind: 'token', name: 'the API token of v1' },
};

/** The name of each kind of key, and the prefix of its keys; revoked keys keep it. */
const KINDS: Readonly<Record<KeyKind, { readonly name: string; readonly beginning: string }>> = {
  personal: { name: 'a personal API key', beginning: 'wbp_' },
  group: { name: 'a group key', beginning: 'wbg_' },
  token: { name: 'an API token', beginning: 'wbt_' },
};

/** How to make a key for a generation, here and in the real service. */
function howToMake(generation: Generation): string {
  return (
    `here \`workbook-mirror keys create --kind ${CREDENTIALS[generation].kind}\` makes one; ` +
    `elsewhere it is made in the application settings under ${CREDENTIAL_PLACES[generation]}`
  );
}

/** The specification shows the bare token (section 5.2); clients also put the usual words in front of it. */
export function withoutScheme(header: string): string {
  return header.replace(/^(?:token|bearer) +/i, '');
}

/**
 * Checks that a request carries the credential of its generation (service specification, section 5).
 * @returns that key
 * @throws RequestError 401 when it is missing or wrong, 403 for a group key, 404 for v1 if no token exists
 */
export function authorise(
  generation: Generation,
  headers: IncomingHttpHeaders,
  keys: readonly KnownKey[],
): KnownKey {
  const { kind } = CREDENTIALS[generation];
  if (generation === 'v1' && !keys.some((key) => key.kind === kind))
    throw new RequestError(
      404,
      'not_found',
      `v1 is switched off, because there is no token: ${howToMake(generation)}`,
    );
  const name = CREDENTIAL_HEADERS[generation];
  const value = headers[name];
  const header = typeof value === 'string' ? value : '';
  const sent = generation === 'v1' ? withoutScheme(header) : header;
  const key = findKeyOfKind(keys, kind, sent);
  if (key !== null) return key;
  if (findKeyOfKind(keys, 'group', sent) !== null) {
    const message = `a group key is for incoming webhooks only: send ${KINDS[kind].name}`;
    throw new RequestError(403, 'group_key', message);
  }
  const message = `${problemOf(generation, keys, sent)}: send it in the header ${name}; ${howToMake(generation)}`;
  throw new RequestError(401, 'unauthorized', message, {
    'www-authenticate': `${name} realm="${generation}"`,
  });
}

/** The problem with a credential; never repeats the sent text. */
function problemOf(generation: Generation, keys: readonly KnownKey[], sent: string): string {
  const { kind: wanted, name } = CREDENTIALS[generation];
  if (sent === '') return `${name} is missing`;
  const kind = findKey(keys, sent)?.kind ?? KEY_KINDS.find((each) => sent.startsWith(KINDS[each].beginning));
  if (kind === undefined || kind === wanted) return `${name} is not valid`;
  return `the request carries ${KINDS[kind].name}, not ${name}`;
}
