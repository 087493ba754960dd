import { LAST_VERIFIED_HEADER } from '../../lib/api/requests.ts';
import { plainBody, type Reply, type ReplyHeaders } from '../../lib/http/reply.ts';
import type { RequestError } from '../../lib/http/request.ts';
import type { Repository } from './library.ts';

/** A reply in JSON. */
export function jsonReply(status: number, value: unknown, headers: ReplyHeaders = {}): Reply {
  return { status, headers, body: plainBody('application/json', JSON.stringify(value)) };
}

/** An error in this service's own shape; the specification shows none (section 7). */
export function errorReply({ status, code, message, headers }: RequestError): Reply {
  return jsonReply(status, { error: { code, message } }, headers);
}

/** The fields of a repository that the API shows (service specification, section 2.1). */
export function presentRepository({ id, name, full_name, url, created_at }: Repository): Repository {
  return { id, name, full_name, url, created_at };
}

/**
 * The header with the time when a replica's data was last verified against the original.
 * @param verifiedAtMs milliseconds since the epoch; null or undefined if unknown
 */
export function verifiedHeader(verifiedAtMs: number | null | undefined): ReplyHeaders {
  if (verifiedAtMs === null || verifiedAtMs === undefined) return {};
  return { [LAST_VERIFIED_HEADER]: new Date(verifiedAtMs).toISOString() };
}
