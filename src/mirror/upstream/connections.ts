import type { Readable } from 'node:stream';

import { MirrorError } from '../../lib/errors/errors.ts';
import { decoded } from './decoding.ts';
import { exchange, type WireRequest } from './exchange.ts';
import { transportError } from './failures.ts';
import { createWays } from '../../lib/net/ways.ts';
import { ReceiveBuffers, receivingConnector } from './receive-buffers.ts';

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

/** An answer whose body is still to be read, once, decoded. */
export interface WireAnswer {
  readonly status: number;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly url: URL;
  /** Its pieces are as they came, and are the reader's until they are given back. */
  readonly body: Readable;
  /** Takes back a piece of the body that its reader is done with: its memory is used for what comes next. */
  readonly giveBack: (piece: Uint8Array) => void;
}

/** Pooled connections to one origin. */
export interface Connections {
  /** Sends a request once, and follows no redirect. @throws MirrorError `service.*`, `pass.abandoned` */
  readonly send: (url: URL, request: WireRequest) => Promise<WireAnswer>;
  readonly close: () => Promise<void>;
}

/** Most bytes of one read. */
const READ_BYTES = 128 * 1024;

/** Makes a pool. Proxies are taken from HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. */
export function createConnections(origin: string, options: ConnectionOptions): Connections {
  const readBytes = Math.min(READ_BYTES, options.bufferBytes);
  const buffers = new ReceiveBuffers(readBytes);
  const mostPieces = Math.ceil(options.bufferBytes / readBytes);
  // HTTP/2 is off: its flow-control windows in this library cap all downloads together far below one plain connection.
  const ways = createWays({
    allowH2: false,
    connections: options.connections,
    connectTimeoutMs: options.connectTimeoutMs,
    connect: receivingConnector(buffers, options.connectTimeoutMs),
    headersTimeout: options.headersTimeoutMs,
    bodyTimeout: options.stallTimeoutMs,
  });
  return {
    send: async (url, request) => {
      if (url.origin !== origin) {
        throw new MirrorError('internal.defect', `No credential may go to ${url.origin}.`);
      }
      const { dispatcher, proxy } = ways.to(url);
      try {
        const { status, headers, body } = await exchange(dispatcher, url, request, buffers, mostPieces);
        const single = singleHeaders(headers);
        const giveBack = (piece: Uint8Array): void => buffers.giveBack(piece);
        return { status, headers: single, url, body: decodedBody(body, single, url), giveBack };
      } catch (error) {
        throw transportError(error, url, proxy);
      }
    },
    close: ways.close,
  };
}

function singleHeaders(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): WireAnswer['headers'] {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : value]),
  );
}

function decodedBody(body: Readable, headers: WireAnswer['headers'], url: URL): Readable {
  try {
    // A decoder can fail as a body can.
    return decoded(body, headers['content-encoding'], url).on('error', () => {});
  } catch (error) {
    body.destroy();
    throw error;
  }
}
