import { Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';
import type { OnReadOpts, Socket } from 'node:net';

import { type Dispatcher, errors, buildConnector } from 'undici';

import { MirrorError } from '../../lib/errors/errors.ts';
import { transportError } from './failures.ts';
import { createWays } from '../../lib/net/ways.ts';

/** How connections are made and kept. Durations in milliseconds. */
export interface ConnectionOptions {
  /** How long an answer may take to begin, and to go on. */
  readonly timeoutMs: number;
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

/** How long a connection may take, unless everything may take less. */
export const CONNECT_TIMEOUT_MS = 10_000;

/** Makes a pool. Proxies are taken from HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. */
export function createConnections(origin: string, options: ConnectionOptions): Connections {
  const connectTimeoutMs = Math.min(CONNECT_TIMEOUT_MS, options.timeoutMs);
  const readBytes = Math.min(READ_BYTES, options.bufferBytes);
  const buffers = new ReceiveBuffers(readBytes);
  const mostPieces = Math.ceil(options.bufferBytes / readBytes);
  // HTTP/2 is off: its flow-control windows in this library cap all downloads together far below one plain connection.
  const ways = createWays({
    allowH2: false,
    connections: options.connections,
    connectTimeoutMs,
    connect: receivingConnector(buffers, connectTimeoutMs),
    headersTimeout: options.timeoutMs,
    bodyTimeout: options.timeoutMs,
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
        return {
          status,
          headers: single,
          url,
          body: decoded(body, single['content-encoding'], url),
          giveBack,
        };
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

/** A request as it goes over the wire. */
export interface WireRequest {
  readonly headers: Readonly<Record<string, string>>;
  /** The body of a POST; undefined for GET. */
  readonly body: string | undefined;
  readonly signal: AbortSignal;
}

/** An answer as it comes over the wire. */
interface Exchanged {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Its pieces as they came, which undici's own `request` joins where several wait: that copies them into new memory. */
  readonly body: Readable;
}

/**
 * Sends a request once, and resolves when the headers of the answer have come.
 * @param buffers are told of each piece of the body
 * @param mostPieces how many of them may wait for their reader
 * @throws errors of undici; what the signal was aborted with
 */
export function exchange(
  dispatcher: Dispatcher,
  url: URL,
  { headers, body, signal }: WireRequest,
  buffers: ReceiveBuffers,
  mostPieces: number,
): Promise<Exchanged> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | null = null;
    let received: Readable | null = null;
    const abort = (): void => {
      const reason = reasonOf(signal);
      if (received === null) controller?.abort(reason);
      else received.destroy(reason);
    };
    const leave = (): void => signal.removeEventListener('abort', abort);
    signal.addEventListener('abort', abort);
    const path = url.pathname + url.search;
    const sent = body === undefined ? ({ method: 'GET' } as const) : ({ method: 'POST', body } as const);
    dispatcher.dispatch(
      { origin: url.origin, path, headers, ...sent },
      {
        onRequestStart: (started) => {
          controller = started;
          if (signal.aborted) abort();
        },
        onResponseStart: (answered, status, answerHeaders) => {
          if (status < 200) return;
          received = bodyOf(answered, mostPieces).on('close', leave);
          resolve({ status, headers: answerHeaders, body: received });
        },
        onResponseData: (answered, piece) => {
          if (piece.length === 0) return;
          buffers.handOut(piece);
          if (received?.push(piece) === false) answered.pause();
        },
        onResponseEnd: () => {
          received?.push(null);
        },
        onResponseError: (_controller, error) => {
          leave();
          reject(error);
          // Who waits for the headers comes first, and listens.
          queueMicrotask(() => received?.destroy(error));
        },
      },
    );
  });
}

function bodyOf(controller: Dispatcher.DispatchController, mostPieces: number): Readable {
  const body = new Readable({
    objectMode: true,
    highWaterMark: mostPieces,
    read: () => controller.resume(),
    destroy: (error, done) => {
      const cause = error ?? (body.readableEnded ? null : new errors.RequestAbortedError());
      if (cause !== null) controller.abort(cause);
      done(cause);
    },
  });
  // It can fail before its reader has come, or when nobody reads it: that must not end the program.
  return body.on('error', () => {});
}

function reasonOf({ reason }: AbortSignal): Error {
  return reason instanceof Error ? reason : new errors.RequestAbortedError();
}

/** Makes the decoders of content codings, by name. */
const DECODERS: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
  ['zstd', createZstdDecompress],
]);

/**
 * Undoes a content coding that some proxy applied without being asked (RFC 9110, section 8.4).
 * @throws MirrorError `service.wrong_kind` for a coding that is not known, or several: the bytes would be garbage
 */
export function decoded(body: Readable, encoding: string | undefined, url: URL): Readable {
  const coding = (encoding ?? '').trim().toLowerCase();
  if (coding === '' || coding === 'identity') return body;
  const decoder = DECODERS.get(coding)?.();
  if (decoder === undefined) {
    body.destroy();
    throw unknownCoding(coding, url);
  }
  body.on('error', (error) => decoder.destroy(error));
  decoder.on('close', () => body.destroy());
  // A decoder can fail before its reader has come, as a body can.
  return body.pipe(decoder).on('error', () => {});
}

function unknownCoding(coding: string, url: URL): MirrorError {
  return new MirrorError(
    'service.wrong_kind',
    `${url.origin}${url.pathname} answered in the content coding ${JSON.stringify(coding.slice(0, 50))}, which is not understood.`,
    { hint: 'Something between here and the service compresses answers without being asked: turn it off.' },
  );
}

/** Most buffers that are kept for their next use. */
const MOST_FREE = 32;

/**
 * What a read must fill of a buffer, or its bytes are copied: pieces that wait for a slow reader would hold many times the memory that
 * they need. With TLS a read brings 16 kB at most.
 */
const LEAST_SHARE = 1 / 8;

/** The bytes of one read, while their readers have them. */
interface Loan {
  /** Where they end in their buffer. */
  readonly endBytes: number;
  /** Whether the last of them were handed out. */
  isWhole: boolean;
  /** How many pieces are with their readers. */
  pieces: number;
}

/**
 * Memory that sockets read into, again and again: to allocate it anew for each read keeps the garbage collector busy. A buffer is used
 * again only when its bytes were handed out to the last one, and each piece of them was given back; otherwise it is garbage like any
 * other.
 */
export class ReceiveBuffers {
  private readonly sizeBytes: number;
  private readonly free: Buffer[] = [];
  private readonly loans = new WeakMap<ArrayBufferLike, Loan>();
  private readonly loansOfPieces = new WeakMap<Uint8Array, Loan>();

  /** @param sizeBytes most bytes of one read */
  constructor(sizeBytes: number) {
    this.sizeBytes = sizeBytes;
  }

  /** A buffer for the next read. */
  take(): Buffer {
    return this.free.pop() ?? Buffer.allocUnsafeSlow(this.sizeBytes);
  }

  /** The bytes of a read, which nothing is read over from now on. */
  lend(buffer: Uint8Array, readBytes: number): Uint8Array {
    const bytes = buffer.subarray(0, readBytes);
    if (readBytes < this.sizeBytes * LEAST_SHARE) {
      const copy = Buffer.from(bytes);
      this.keep(buffer.buffer);
      return copy;
    }
    this.loans.set(buffer.buffer, { endBytes: readBytes, isWhole: false, pieces: 0 });
    return bytes;
  }

  /** Is told of each piece of what was lent, in their order, before a reader has it. What comes from elsewhere does not count. */
  handOut(piece: Uint8Array): void {
    const loan = this.loans.get(piece.buffer);
    if (loan === undefined) return;
    loan.pieces += 1;
    loan.isWhole ||= piece.byteOffset + piece.byteLength === loan.endBytes;
    this.loansOfPieces.set(piece, loan);
  }

  /** Takes back such a piece: the very one, and once. Another one does not count. */
  giveBack(piece: Uint8Array): void {
    const loan = this.loansOfPieces.get(piece);
    if (loan === undefined) return;
    this.loansOfPieces.delete(piece);
    loan.pieces -= 1;
    if (!loan.isWhole || loan.pieces > 0) return;
    this.loans.delete(piece.buffer);
    this.keep(piece.buffer);
  }

  private keep(memory: ArrayBufferLike): void {
    if (this.free.length < MOST_FREE) this.free.push(Buffer.from(memory));
  }
}

/** Makes connections that read into the buffers. @param timeoutMs how long a connection may take */
function receivingConnector(buffers: ReceiveBuffers, timeoutMs: number): buildConnector.connector {
  return (options, callback) => {
    let socket: Socket | null = null;
    const onread: OnReadOpts = {
      buffer: () => buffers.take(),
      callback: (readBytes, buffer) => socket?.push(buffers.lend(buffer, readBytes)) ?? true,
    };
    const connect = buildConnector({ allowH2: false, timeout: timeoutMs, onread });
    connect(options, (...made) => {
      [, socket] = made;
      callback(...made);
    });
  };
}
