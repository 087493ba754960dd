import { hash } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** Headers of a reply, by their names in lower case. */
export type ReplyHeaders = Readonly<Record<string, string>>;

/** The body of a reply, whole and in memory. */
export interface BufferedBody {
  readonly contentType: string;
  readonly bytes: Uint8Array;
  /** The same, compressed by gzip (RFC 1952): once for all requests. Null if that saves nothing. */
  readonly packed: (() => Promise<Uint8Array>) | null;
  /** Entity tag (RFC 9110, section 8.8.3); null if clients never request the same content again. */
  readonly etag: string | null;
}

/** Below this, in bytes, compression saves no packet. */
const LEAST_TO_PACK_BYTES = 1400;

const pack = promisify(gzip);

/**
 * Makes a body that is sent compressed to clients that accept gzip.
 * @param mark changes with the content, and gives the tag; null for a body without one
 */
export function packableBody(
  contentType: string,
  content: string | Uint8Array,
  mark: string | Uint8Array | null = null,
): BufferedBody {
  const bytes = Buffer.from(content);
  let packed: Promise<Uint8Array> | null = null;
  return {
    contentType,
    bytes,
    packed: bytes.length < LEAST_TO_PACK_BYTES ? null : () => (packed ??= pack(bytes)),
    // A weak one: compressed or not, it is the same.
    etag: mark === null ? null : `W/"${hash('sha256', mark, 'base64url').slice(0, 22)}"`,
  };
}

/** Makes a body that is always sent unchanged. */
export function plainBody(contentType: string, content: string): BufferedBody {
  return { contentType, bytes: Buffer.from(content), packed: null, etag: null };
}

/** Bytes that are made, or read, while they are sent. */
export interface StreamedBody {
  /** In bytes; left out if unknown. */
  readonly lengthBytes?: number;
  /** Called when the bytes are needed; `signal` fires when the client no longer needs them. */
  readonly open: (signal: AbortSignal) => AsyncIterable<Uint8Array>;
}

/** The answer to a request, as a value; {@link sendReply} puts it on the wire. */
export interface Reply {
  /** HTTP status code. */
  readonly status: number;
  readonly headers: ReplyHeaders;
  /** Null for no body at all, as for 304. */
  readonly body: BufferedBody | StreamedBody | null;
}

/**
 * Sends a reply, in full or visibly broken: compressed if the client accepts it, and only its head if the client has the content already.
 * @throws errors of streamed content; before its first bytes, nothing has been sent
 */
export async function sendReply(
  { method, headers: asked }: Pick<IncomingMessage, 'method' | 'headers'>,
  response: ServerResponse,
  { status, headers, body }: Reply,
): Promise<void> {
  if (body === null) {
    response.writeHead(status, headers).end();
    return;
  }
  if ('open' in body) return sendStream(response, status, headers, body, method === 'HEAD');
  const { contentType, bytes, packed, etag } = body;
  const head: Record<string, string | number> = { ...headers };
  if (etag !== null) head['etag'] = etag;
  if (packed !== null) head['vary'] = 'accept-encoding';
  if (status === 200 && etag !== null && matchesTag(asked['if-none-match'], etag)) {
    response.writeHead(304, head).end();
    return;
  }
  const isPacked = packed !== null && acceptsGzip(asked['accept-encoding']);
  const sent = isPacked ? await packed() : bytes;
  head['content-type'] = contentType;
  head['content-length'] = sent.length;
  if (isPacked) head['content-encoding'] = 'gzip';
  // For HEAD, Node sends only the head.
  response.writeHead(status, head).end(sent);
}

async function sendStream(
  response: ServerResponse,
  status: number,
  headers: ReplyHeaders,
  { lengthBytes, open }: StreamedBody,
  isHead: boolean,
): Promise<void> {
  const head = { ...headers, ...(lengthBytes === undefined ? {} : { 'content-length': lengthBytes }) };
  if (isHead) {
    response.writeHead(status, head).end();
    return;
  }
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  if (response.destroyed) return;
  const failures: Error[] = [];
  const source = Readable.from(open(gone.signal)).on('error', (error) => {
    if (!gone.signal.aborted) failures.push(error);
  });
  try {
    await once(source, 'readable', { signal: gone.signal });
  } catch (error) {
    source.destroy();
    if (gone.signal.aborted) return;
    throw error;
  }
  response.writeHead(status, head);
  // An error cuts the connection: an answer that ended properly would look whole.
  await pipeline(source, response).catch(() => undefined);
  const [failure] = failures;
  if (failure !== undefined) throw failure;
}

/** Whether a client names gzip, not with a weight of 0 (RFC 9110, section 12.5.3). */
export function acceptsGzip(acceptEncoding: string | string[] | undefined): boolean {
  const codings = String(acceptEncoding ?? '').split(',');
  return codings.some((coding) => /^\s*gzip\s*(?:;\s*q=(?!0(?:\.0*)?\s*$)[\d.]+\s*)?$/i.test(coding));
}

/**
 * Whether a client has the current content already: If-None-Match compares weakly (RFC 9110, section 13.1.2).
 * @param header the value of If-None-Match, if it was sent
 */
export function matchesTag(header: string | undefined, tag: string): boolean {
  if (header === undefined) return false;
  // With its quotes, which no tag contains, it occurs as a whole or not at all.
  return header.trim() === '*' || header.includes(tag.replace(/^W\//, ''));
}
