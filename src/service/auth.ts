import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

import { CREDENTIAL_HEADERS, CREDENTIAL_PLACES, type Generation } from '../api/requests.ts';
import { RequestError } from './request-error.ts';

/** The credential of each generation; without one for v1, v1 is switched off. */
export interface Credentials {
  readonly current: string;
  readonly v1: string | undefined;
}

const CREDENTIAL_NAMES: Readonly<Record<Generation, string>> = {
  current: 'the API key of the current API',
  v1: 'the API token of v1',
};

/** Compares in a time that depends on neither value: hashes have the same length whatever was sent. */
function equal(sent: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(sent), digest(expected));
}

/** The specification shows the bare token (section 5.2); clients also write the usual words before it. */
function withoutScheme(header: string): string {
  return header.replace(/^(?:token|bearer) +/i, '');
}

/**
 * Checks that a request carries the credential of its generation (service specification, section 5).
 * @throws RequestError 401 when it is missing or another one, 404 for v1 when that is switched off
 */
export function authorise(
  generation: Generation,
  headers: IncomingHttpHeaders,
  credentials: Credentials,
): void {
  const expected = credentials[generation];
  if (expected === undefined)
    throw new RequestError(404, 'not_found', `${generation} is switched off on this server`);
  const name = CREDENTIAL_HEADERS[generation];
  const value = headers[name];
  const sent = typeof value === 'string' ? value : '';
  const accepted = generation === 'v1' ? [sent, withoutScheme(sent)] : [sent];
  // Every candidate is compared, so that the time does not tell which one came close.
  if (accepted.filter((candidate) => equal(candidate, expected)).length > 0) return;
  const problem = sent === '' ? 'is missing' : 'is not valid';
  const message =
    `${CREDENTIAL_NAMES[generation]} ${problem}: send it in the header ${name}; ` +
    `it is made in the application settings under ${CREDENTIAL_PLACES[generation]}`;
  throw new RequestError(401, 'unauthorized', message, {
    'www-authenticate': `${name} realm="${generation}"`,
  });
}
