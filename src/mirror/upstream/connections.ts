import type { Readable } from 'node:stream';

import { request } from 'undici';

import { MirrorError } from '../../lib/errors/errors.ts';
import { decoded } from './decoding.ts';
import { transportError } from './failures.ts';
import { createWays } from './proxies.ts';

/** How connections are made and kept. Durations in milliseconds. */
export interface ConnectionOptions {
  readonly connectTimeoutMs: number;
  readonly headersTimeoutMs: number;
  /** An answer that gives no byte for so long is given up. */
  readonly stallTimeoutMs: number;
  /** Most connections at once. */
  readonly connections: number;
  /** How much of an answer may wait in memory for its reader. */
  readonly bufferBytes: number;
}

/** A request as it goes over the wire. */
export interface WireRequest {
  readonly headers: Readonly<Record<string, string>>;
  /** The body of a POST; undefined for GET. */
  readonly body: string | undefined;
  readonly signal: AbortSignal;
}

/** An answer whose body is still to be read, once, decoded. */
export interface WireAnswer {
  readonly status: number;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly url: URL;
  readonly body: Readable;
}

/** Pooled connections to one origin. */
export interface Connections {
  /** Sends a request once, and follows no redirect. @throws MirrorError `service.*`, `pass.abandoned` */
  readonly send: (url: URL, request: WireRequest) => Promise<WireAnswer>;
  readonly close: () => Promise<void>;
}

/** Makes a pool. Proxies are taken from HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. */
export function createConnections(origin: string, options: ConnectionOptions): Connections {
  // HTTP/2 is off: its flow-control windows in this library cap all downloads together far below one plain connection.
  const ways = createWays({
    allowH2: false,
    connections: options.connections,
    connectTimeoutMs: options.connectTimeoutMs,
    headersTimeout: options.headersTimeoutMs,
    bodyTimeout: options.stallTimeoutMs,
  });
  return {
    send: async (url, { headers, body, signal }) => {
      if (url.origin !== origin) {
        throw new MirrorError('internal.defect', `No credential may go to ${url.origin}.`);
      }
      const { dispatcher, proxy } = ways.to(url);
      try {
        const response = await request(url, {
          dispatcher,
          headers,
          ...(body === undefined ? {} : { method: 'POST', body }),
          signal,
          highWaterMark: options.bufferBytes,
        });
        // A body can fail before its reader has come, or when nobody reads it: that must not end the program.
        response.body.on('error', () => {});
        return wireAnswer(response, url);
      } catch (error) {
        throw transportError(error, url, proxy);
      }
    },
    close: ways.close,
  };
}

function wireAnswer(response: Awaited<ReturnType<typeof request>>, url: URL): WireAnswer {
  const headers = Object.fromEntries(
    Object.entries(response.headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(', ') : value,
    ]),
  );
  try {
    const body = decoded(response.body, headers['content-encoding'], url);
    body.on('error', () => {});
    return { status: response.statusCode, headers, url, body };
  } catch (error) {
    response.body.destroy();
    throw error;
  }
}
