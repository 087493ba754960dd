import type { IncomingMessage, ServerResponse } from 'node:http';

import type { Body } from './body.ts';

/** An answer before it is sent. */
export interface Answer {
  /** HTTP status code. */
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Body;
}

/** What no page of this server needs is forbidden to all of them (CSP Level 3, W3C), even if a name got into it unescaped. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Sent with every answer. */
export const COMMON_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

/** Below this, in bytes, packing saves no packet. */
const LEAST_TO_PACK_BYTES = 1400;

/** How long a client may take to read an answer, in milliseconds: what it leaves unread is kept in memory for it. */
const READING_TIMEOUT_MS = 30_000;

/** Has a client that reads too slowly be cut off. */
function limitReading(response: ServerResponse): void {
  const timer = setTimeout(() => response.destroy(), READING_TIMEOUT_MS).unref();
  response.once('close', () => clearTimeout(timer));
}

/** Sends an answer, packed where that is wanted and worth it; only its head where the client has the body already. */
export async function sendAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: Answer,
): Promise<void> {
  const head: Record<string, string | number> = {
    ...COMMON_HEADERS,
    'cache-control': 'no-store',
    ...headers,
  };
  if (body.etag !== null) head['etag'] = body.etag;
  if (body.plain.length >= LEAST_TO_PACK_BYTES) head['vary'] = 'accept-encoding';
  if (status === 200 && isKnown(request.headers['if-none-match'], body.etag)) {
    response.writeHead(304, head).end();
    return;
  }
  const isPacked =
    body.plain.length >= LEAST_TO_PACK_BYTES && acceptsGzip(request.headers['accept-encoding']);
  const bytes = isPacked ? await body.packed() : body.plain;
  head['content-type'] = body.contentType;
  head['content-length'] = bytes.length;
  if (isPacked) head['content-encoding'] = 'gzip';
  limitReading(response);
  // Of HEAD, Node sends the head only.
  response.writeHead(status, head).end(bytes);
}

/** So many codings, and parameters of each, are looked at: more than there are (IANA, "HTTP Content Coding Registry"). */
const MOST_CODINGS = 20;
const MOST_PARAMETERS = 5;

/** Whether a client takes gzip: named, or covered by `*`, and not with a weight of 0 (RFC 9110, 12.5.3). */
export function acceptsGzip(acceptEncoding: string | string[] | undefined): boolean {
  const weights = new Map<string, number>();
  for (const entry of String(acceptEncoding ?? '').split(',', MOST_CODINGS)) {
    const [name = '', ...parameters] = entry
      .toLowerCase()
      .split(';', MOST_PARAMETERS)
      .map((part) => part.trim());
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? '1';
    weights.set(name === 'x-gzip' ? 'gzip' : name, Number(weight));
  }
  return (weights.get('gzip') ?? weights.get('*') ?? 0) > 0;
}

/** Whether one of the tags that a client names is that of the body: weak comparison (RFC 9110, 13.1.2). */
function isKnown(ifNoneMatch: string | undefined, etag: string | null): boolean {
  if (ifNoneMatch === undefined || etag === null) return false;
  if (ifNoneMatch.trim() === '*') return true;
  // With its quotes, which no tag has within it, it stands there as a whole or not at all.
  return ifNoneMatch.includes(etag.replace(/^W\//, ''));
}
