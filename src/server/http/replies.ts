import { LAST_VERIFIED_HEADER } from '../../lib/api/requests.ts';
import { plainBody } from '../../lib/http/buffered-body.ts';
import type { Reply, ReplyHeaders } from '../../lib/http/reply.ts';
import type { RequestError } from '../../lib/http/request-error.ts';
import type { Repository } from './library.ts';

/** A reply in JSON. */
export function jsonReply(status: number, value: unknown, headers: ReplyHeaders = {}): Reply {
  return { status, headers, body: plainBody('application/json', JSON.stringify(value)) };
}

/** An error as this service tells it; the specification shows no shape (section 7). */
export function errorReply({ status, code, message, headers }: RequestError): Reply {
  return jsonReply(status, { error: { code, message } }, headers);
}

/** The fields of a repository that the API shows (service specification, section 2.1). */
export function presentRepository({ id, name, full_name, url, created_at }: Repository): Repository {
  return { id, name, full_name, url, created_at };
}

/**
 * The header that says how old a reply of a replica may be: when it was last known to be what the original has.
 * @param verifiedAtMs milliseconds since the epoch; null or undefined where nobody says
 */
export function verifiedHeader(verifiedAtMs: number | null | undefined): ReplyHeaders {
  if (verifiedAtMs === null || verifiedAtMs === undefined) return {};
  return { [LAST_VERIFIED_HEADER]: new Date(verifiedAtMs).toISOString() };
}
