import { PassThrough, type Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';
import type { OnReadOpts, Socket } from 'node:net';

import { type Dispatcher, buildConnector } from 'undici';

import { MirrorError } from '../../lib/errors/errors.ts';
import { transportError } from './failures.ts';
import { createWays } from '../../lib/net/ways.ts';

/** Headers of an answer, with names in lower case. */
export type AnswerHeaders = Readonly<Record<string, string | undefined>>;

/** An answer whose body must be read once, decoded, by {@link piecesOf}. */
export interface WireAnswer {
  readonly status: number;
  readonly headers: AnswerHeaders;
  readonly url: URL;
  readonly body: Readable;
}

/** A request as it goes over the wire. */
export interface WireRequest {
  readonly headers: Readonly<Record<string, string>>;
  /** The body of a POST; undefined for GET. */
  readonly body: string | undefined;
  readonly signal: AbortSignal;
}

/** Most bytes of one read. */
const READ_BYTES = 128 * 1024;

/** Reads that may wait in memory for the reader of an answer. */
const WAITING_READS = 2;

/** The longest time that a connection may take, unless the general timeout is shorter. */
const CONNECT_TIMEOUT_MS = 10_000;

/** Pooled connections to one origin. */
export type Connections = ReturnType<typeof createConnections>;

/**
 * Makes a pool. Proxies are taken from HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY.
 * @param timeoutMs the longest wait for an answer to begin, and for its next bytes
 * @param connections most at once
 */
export function createConnections(origin: string, timeoutMs: number, connections: number) {
  const connectTimeoutMs = Math.min(CONNECT_TIMEOUT_MS, timeoutMs);
  // HTTP/2 is off: its flow-control windows in this library cap all downloads together far below one plain connection.
  const ways = createWays({
    allowH2: false,
    connections,
    connectTimeoutMs,
    connect: receivingConnector(connectTimeoutMs),
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
  });
  return {
    /** Sends a request once, and follows no redirect. @throws MirrorError `service.*`, `pass.abandoned` */
    send: async (url: URL, request: WireRequest): Promise<WireAnswer> => {
      if (url.origin !== origin) {
        throw new MirrorError('internal.defect', `No credential may go to ${url.origin}.`);
      }
      const { dispatcher, proxy } = ways.to(url);
      try {
        return await exchange(dispatcher, url, request);
      } catch (error) {
        throw transportError(error, url, proxy);
      }
    },
    close: ways.close,
  };
}

/**
 * The body of an answer on its way from undici to its reader. If a slow reader lets it wait, undici reports the end of the connection
 * as a failure, although the whole body may have arrived: then it is no failure, and no piece is lost.
 */
class ReceivedBody extends PassThrough {
  readonly #announcedBytes: number | null;
  #sizeBytes = 0;

  constructor(announcedLengthBytes: number | null) {
    super({
      readableObjectMode: true,
      readableHighWaterMark: WAITING_READS,
      writableObjectMode: true,
      // After a wait undici writes an empty piece first, which must not cause another wait.
      writableHighWaterMark: 2,
    });
    this.#announcedBytes = announcedLengthBytes;
  }

  /** @param piece from undici */
  override write(piece: Uint8Array): boolean {
    this.#sizeBytes += piece.length;
    return super.write(piece);
  }

  override destroy(error?: Error): this {
    const isWhole = this.#sizeBytes === this.#announcedBytes;
    return error !== undefined && isWhole ? this.end() : super.destroy(error);
  }
}

/**
 * Sends a request once, and resolves when the headers of the answer have arrived. Pieces come one by one: undici's own `request` joins
 * waiting pieces, which copies them into new memory.
 * @throws MirrorError `service.wrong_kind`; errors of undici; the reason of the signal
 */
function exchange(
  dispatcher: Dispatcher,
  url: URL,
  { headers, body, signal }: WireRequest,
): Promise<WireAnswer> {
  const path = url.pathname + url.search;
  const sent = body === undefined ? ({ method: 'GET' } as const) : ({ method: 'POST', body } as const);
  return new Promise((resolve, reject) => {
    const receive = (answer: Dispatcher.StreamFactoryData): PassThrough => {
      const answerHeaders = singleHeaders(answer.headers);
      const received = new ReceivedBody(announcedBytes(answerHeaders));
      // It can fail before its reader starts, or when nothing reads it: that must not end the program.
      received.on('error', () => {});
      try {
        const decodedBody = decoded(received, answerHeaders['content-encoding'], url);
        resolve({ status: answer.statusCode, headers: answerHeaders, url, body: decodedBody });
      } catch (error) {
        reject(error);
      }
      return received;
    };
    // A failure after that fails the body.
    dispatcher.stream({ origin: url.origin, path, headers, signal, ...sent }, receive).catch(reject);
  });
}

function singleHeaders(headers: Dispatcher.StreamFactoryData['headers']): AnswerHeaders {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : value]),
  );
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
 * Undoes a content coding that some proxy applied although it was not asked to (RFC 9110, section 8.4).
 * @throws MirrorError `service.wrong_kind` for an unknown coding, or several: the bytes would be garbage
 */
function decoded(body: Readable, encoding: string | undefined, url: URL): Readable {
  const coding = (encoding ?? '').trim().toLowerCase();
  if (coding === '' || coding === 'identity') return body;
  const decoder = DECODERS.get(coding)?.();
  if (decoder === undefined) {
    body.destroy();
    throw unknownCoding(coding, url);
  }
  body.on('error', (error) => decoder.destroy(error));
  decoder.on('close', () => body.destroy());
  // A decoder can fail before its reader starts, as a body can.
  return body.pipe(decoder).on('error', () => {});
}

function unknownCoding(coding: string, url: URL): MirrorError {
  return new MirrorError(
    'service.wrong_kind',
    `${url.origin}${url.pathname} answered in the content coding ${JSON.stringify(coding.slice(0, 50))}, which is not understood.`,
    { hint: 'Something between here and the service compresses answers without being asked: turn it off.' },
  );
}

/** The most buffers that are kept for reuse. */
const MOST_FREE = 32;

/**
 * The share of a buffer that a read must fill, or its bytes are copied: otherwise pieces that wait for a slow reader would hold many
 * times the memory that they need. With TLS a read brings 16 kB at most.
 */
const LEAST_SHARE = 1 / 8;

/**
 * Reused memory for socket reads: new memory for each read would keep the garbage collector busy. A buffer is reused
 * only if the end of the read reached its reader and came back; otherwise it is garbage like any other.
 */
export class ReceiveBuffers {
  private readonly sizeBytes: number;
  private readonly free: Buffer[] = [];
  /** How many bytes each lent buffer holds. */
  private readonly lent = new WeakMap<ArrayBufferLike, number>();

  /** @param sizeBytes most bytes of one read */
  constructor(sizeBytes: number) {
    this.sizeBytes = sizeBytes;
  }

  /** A buffer for the next read. */
  take(): Buffer {
    return this.free.pop() ?? Buffer.allocUnsafeSlow(this.sizeBytes);
  }

  /** The bytes of a read into such a buffer, which is not reused until they come back. */
  lend(buffer: Uint8Array, readBytes: number): Uint8Array {
    const bytes = buffer.subarray(0, readBytes);
    if (readBytes >= this.sizeBytes * LEAST_SHARE) {
      this.lent.set(buffer.buffer, readBytes);
      return bytes;
    }
    const copy = Buffer.from(bytes);
    this.keep(buffer.buffer);
    return copy;
  }

  /**
   * Takes back a piece, once. The pieces of one read belong to one body and come back in order, so the buffer is free with
   * the piece that ends where the read ended; bytes before the pieces are the headers of the answer.
   */
  giveBack(piece: Uint8Array): void {
    if (this.lent.get(piece.buffer) !== piece.byteOffset + piece.byteLength) return;
    this.lent.delete(piece.buffer);
    this.keep(piece.buffer);
  }

  private keep(memory: ArrayBufferLike): void {
    if (this.free.length < MOST_FREE) this.free.push(Buffer.from(memory));
  }
}

const buffers = new ReceiveBuffers(READ_BYTES);

/** Makes connections that read into the buffers. @param timeoutMs the longest time that a connection may take */
function receivingConnector(timeoutMs: number): buildConnector.connector {
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

/** The pieces of a body as they arrive. Each is valid until the next one is requested: its memory is then reused. */
export async function* piecesOf({ body }: Pick<WireAnswer, 'body'>): AsyncGenerator<Uint8Array, void, void> {
  const pieces: AsyncIterable<unknown> = body;
  for await (const piece of pieces) {
    if (!(piece instanceof Uint8Array) || piece.length === 0) continue;
    yield piece;
    buffers.giveBack(piece);
  }
}

/** The announced length of a body, before decoding; null if the answer does not give it. */
export function announcedBytes(headers: AnswerHeaders): number | null {
  const text = headers['content-length'];
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : null;
}
