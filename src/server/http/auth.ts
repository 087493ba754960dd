import type { IncomingHttpHeaders } from 'node:http';

import {
  CREDENTIAL_HEADERS,
  CREDENTIAL_PLACES,
  type Generation,
  KEY_KINDS,
  type KeyKind,
} from '../../lib/api/requests.ts';
import { RequestError } from '../../lib/http/request.ts';
import { findKey, KEY_PREFIXES, type KnownKey } from '../keys/keys.ts';

/** A credential that a client must send, and how to refuse another one. */
export interface Credential {
  readonly kind: KeyKind;
  readonly advice: string;
  /** The header WWW-Authenticate (RFC 9110, section 11.6.1). */
  readonly challenge?: string;
}

const KIND_NAMES: Readonly<Record<KeyKind, string>> = {
  personal: 'a personal API key',
  group: 'a group key',
  token: 'an API token',
};

/** The specification shows the bare token (section 5.2); clients also put the usual words in front of it. */
export function withoutScheme(header: string): string {
  return header.replace(/^(?:token|bearer) +/i, '');
}

/**
 * Checks that a request carries the credential of its generation (service specification, sections 5.1 and 5.2).
 * @returns that key
 * @throws RequestError as {@link requireKey}, 404 for v1 if no token exists
 */
export function authorise(
  generation: Generation,
  headers: IncomingHttpHeaders,
  keys: readonly KnownKey[],
): KnownKey {
  const isV1 = generation === 'v1';
  const kind = isV1 ? 'token' : 'personal';
  const header = CREDENTIAL_HEADERS[generation];
  const advice =
    `send it in the header ${header}; here \`workbook-mirror keys create --kind ${kind}\` makes one; ` +
    `elsewhere it is made in the application settings under ${CREDENTIAL_PLACES[generation]}`;
  if (isV1 && !keys.some((key) => key.kind === kind))
    throw new RequestError(404, 'not_found', `v1 is switched off, because there is no token: ${advice}`);
  const sent = headers[header]?.toString() ?? '';
  const challenge = `${header} realm="${generation}"`;
  return requireKey({ kind, advice, challenge }, isV1 ? withoutScheme(sent) : sent, keys);
}

/** Finds the key that was sent. @throws RequestError 401 when it is missing or wrong, 403 for a group key */
export function requireKey(
  { kind, advice, challenge }: Credential,
  sent: string,
  keys: readonly KnownKey[],
): KnownKey {
  const key = findKey(keys, sent, kind);
  if (key !== null) return key;
  if (findKey(keys, sent, 'group') !== null) {
    const message = `a group key is for incoming webhooks only: use ${KIND_NAMES[kind]}`;
    throw new RequestError(403, 'group_key', message);
  }
  const headers = challenge === undefined ? {} : { 'www-authenticate': challenge };
  const other = findKey(keys, sent)?.kind ?? KEY_KINDS.find((each) => sent.startsWith(KEY_PREFIXES[each]));
  // Never repeat the sent text. Revoked keys keep their prefix.
  const problem =
    other === undefined || other === kind
      ? `the key is ${sent === '' ? 'missing' : 'not valid'}`
      : `this is ${KIND_NAMES[other]}; use ${KIND_NAMES[kind]}`;
  throw new RequestError(401, 'unauthorized', `${problem}: ${advice}`, headers);
}
