import type { IncomingMessage } from 'node:http';

import { LAST_VERIFIED_HEADER } from '../../lib/api/requests.ts';
import { plainBody, type Reply, type ReplyHeaders } from '../../lib/http/reply.ts';
import type { RequestError } from '../../lib/http/request.ts';
import type { KnownKey } from '../keys/keys.ts';
import type { Repository } from './library.ts';

/** The path below which the API lies (service specification, section 1). */
export const BASE_PATH = '/api';

/** A request whose key was checked, if its route needs one. */
export interface ServiceRequest {
  readonly method: string;
  /** Path as it was sent, still encoded. */
  readonly path: string;
  /** The named groups of the route's path, still encoded. */
  readonly parts: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  /** The size of its body is not limited yet. */
  readonly body: IncomingMessage;
  /** The valid keys. */
  readonly keys: readonly KnownKey[];
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal;
}

/** Address of the request as the client wrote it, for references to other pages. */
export function addressOf({ body, headers, path, query }: ServiceRequest): URL {
  const { localAddress = '127.0.0.1', localPort = 80 } = body.socket;
  const own = `${localAddress.includes(':') ? `[${localAddress}]` : localAddress}:${localPort}`;
  // A proxy that ends TLS says so: otherwise the next page would be asked for without TLS.
  const scheme = headers['x-forwarded-proto'] === 'https' ? 'https' : 'http';
  const said = `${scheme}://${headers.host ?? own}`;
  return new URL(`${path}?${query.toString()}`, URL.canParse(said) ? said : `http://${own}`);
}

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
