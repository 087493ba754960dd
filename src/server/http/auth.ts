import type { IncomingHttpHeaders } from 'node:http';

import { CREDENTIAL_HEADERS, CREDENTIAL_PLACES, type Generation } from '../../lib/api/requests.ts';
import { findKey, findKeyOfKind, type KeyKind, type KnownKey } from './keys.ts';
import { RequestError } from '../../lib/http/request-error.ts';

const CREDENTIAL_NAMES: Readonly<Record<Generation, string>> = {
  current: 'the API key of the current API',
  v1: 'the API token of v1',
};

/** What each kind of key is called. */
const KIND_NAMES: Readonly<Record<KeyKind, string>> = {
  personal: 'a personal API key',
  group: 'a group key',
  token: 'an API token',
};

/** What keys of each kind begin with, also those that nobody has any more. */
const BEGINNINGS: ReadonlyMap<string, KeyKind> = new Map([
  ['wbp_', 'personal'],
  ['wbg_', 'group'],
  ['wbt_', 'token'],
]);

/** The kind of what was sent, where that can be told: that of a key that is known, or that of its beginning. */
function kindOf(keys: readonly KnownKey[], sent: string): KeyKind | null {
  return findKey(keys, sent)?.kind ?? BEGINNINGS.get(sent.slice(0, 4)) ?? null;
}

/** How a key for a generation is made, here and in the service that this one stands in for. */
function howToMake(generation: Generation): string {
  return (
    `here \`workbook-mirror keys create --kind ${KINDS[generation]}\` makes one; ` +
    `elsewhere it is made in the application settings under ${CREDENTIAL_PLACES[generation]}`
  );
}

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
    throw new RequestError(
      404,
      'not_found',
      `v1 is switched off here, as there is no token: ${howToMake(generation)}`,
    );
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
  const message = `${problemOf(generation, keys, sent)}: send it in the header ${name}; ${howToMake(generation)}`;
  throw new RequestError(401, 'unauthorized', message, {
    'www-authenticate': `${name} realm="${generation}"`,
  });
}

/** What is wrong with what was sent, without a word of it. */
function problemOf(generation: Generation, keys: readonly KnownKey[], sent: string): string {
  const name = CREDENTIAL_NAMES[generation];
  if (sent === '') return `${name} is missing`;
  const kind = kindOf(keys, sent);
  if (kind === null || kind === KINDS[generation]) return `${name} is not valid`;
  return `what was sent is ${KIND_NAMES[kind]}, and not ${name}`;
}
