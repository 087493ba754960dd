import { channel } from 'node:diagnostics_channel';

import { type Dispatcher, request } from 'undici';

import { CREDENTIAL_HEADERS, type Generation, requestHeaders } from '../lib/api/requests.ts';
import { MirrorError, toMirrorError } from '../lib/errors/errors.ts';
import { decoded } from '../mirror/upstream/decoding.ts';
import { transportError } from '../mirror/upstream/failures.ts';
import { createWays, type Ways } from '../mirror/upstream/proxies.ts';

/** How the probe's requests are made. Durations in milliseconds. */
interface ProbeConnection {
  /** The application's address followed by `/api`, without a slash at the end. */
  readonly baseUrl: string;
  readonly credential: (generation: Generation) => string | null;
  readonly connectTimeoutMs: number;
  readonly headersTimeoutMs: number;
  readonly stallTimeoutMs: number;
  readonly signal: AbortSignal;
}

/** A request as it is to be sent: see the probe, which declares the same. */
interface RawRequest {
  readonly generation: Generation;
  readonly method: 'GET' | 'HEAD';
  readonly target: string | URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly credential: 'own' | 'made-up' | 'none';
  readonly maxBytes: number;
}

/** An answer as it came; status 0 where none did. */
interface RawAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: Buffer;
  readonly isWhole: boolean;
  readonly waitMs: number;
  readonly atMs: number;
  readonly failure: MirrorError | null;
}

/** What sends single requests, without retries and redirects, to one origin. */
interface ProbeConnectionOpened {
  readonly send: (request: RawRequest) => Promise<RawAnswer>;
  readonly connections: () => number;
  readonly offersHttp2: () => Promise<boolean | null>;
  readonly close: () => Promise<void>;
}

const NOTHING = { status: 0, headers: {}, body: Buffer.alloc(0), isWhole: false } as const;

/** An answer that comes more slowly than this is given up, in bytes a millisecond: a drip would hold the probe for ever. */
const LEAST_RATE = 32;

/** How long an answer may take in all, in milliseconds. */
function answerLimitMs(
  { headersTimeoutMs, stallTimeoutMs }: ProbeConnection,
  { maxBytes }: Pick<RawRequest, 'maxBytes'>,
): number {
  return headersTimeoutMs + stallTimeoutMs + Math.ceil(maxBytes / LEAST_RATE);
}

/** No service gives out such a key. */
const MADE_UP = 'made-up-by-workbook-mirror-probe';

/** Opens the way to a service. Proxies are taken from HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. */
export function openProbeConnection(options: ProbeConnection): ProbeConnectionOpened {
  const base = new URL(options.baseUrl);
  const ways = openWays(options, false);
  const connections = countConnections(base);
  return {
    send: (sent) => sendOnce(ways, base, sent, options),
    connections: connections.count,
    offersHttp2: () => seesHttp2(base, options),
    close: async () => {
      connections.stop();
      await ways.close();
    },
  };
}

function openWays(options: ProbeConnection, allowH2: boolean): Ways {
  return createWays({
    allowH2,
    connectTimeoutMs: options.connectTimeoutMs,
    headersTimeout: options.headersTimeoutMs,
    bodyTimeout: options.stallTimeoutMs,
  });
}

async function sendOnce(
  ways: Ways,
  base: URL,
  sent: RawRequest,
  options: ProbeConnection,
): Promise<RawAnswer> {
  const { generation, method, target, maxBytes } = sent;
  const url = target instanceof URL ? target : new URL(options.baseUrl + target);
  if (url.origin !== base.origin) {
    throw new MirrorError('internal.defect', `No credential may go to ${url.origin}.`);
  }
  const headers = { ...headersOf(generation, sent.credential, options), ...sent.headers };
  const startedAtMs = performance.now();
  const limit = AbortSignal.timeout(answerLimitMs(options, sent));
  const signal = AbortSignal.any([options.signal, limit]);
  const { dispatcher, proxy } = ways.to(url);
  try {
    const response = await request(url, { dispatcher, method, headers, signal });
    const waitMs = performance.now() - startedAtMs;
    const atMs = Date.now();
    const single = singleHeaders(response.headers);
    const body = await readUpTo(response.body, single['content-encoding'], url, maxBytes);
    return { status: response.statusCode, headers: single, ...body, waitMs, atMs, failure: null };
  } catch (error) {
    if (options.signal.aborted) {
      throw new MirrorError('pass.abandoned', 'The probe was abandoned.', { cause: error });
    }
    const waitMs = performance.now() - startedAtMs;
    const failure = toMirrorError(limit.aborted ? tooSlow(error, url) : transportError(error, url, proxy));
    return { ...NOTHING, waitMs, atMs: Date.now(), failure };
  }
}

function tooSlow(cause: unknown, { origin, pathname }: URL): MirrorError {
  return new MirrorError('service.timeout', `${origin}${pathname} did not answer in full in time.`, {
    cause,
    hint: 'If the service is always slow, raise service.headersTimeout or service.stallTimeout.',
  });
}

function headersOf(
  generation: Generation,
  which: RawRequest['credential'],
  { credential }: ProbeConnection,
): Record<string, string> {
  const value = which === 'made-up' ? MADE_UP : (credential(generation) ?? '');
  const headers = requestHeaders(generation, value);
  const name = CREDENTIAL_HEADERS[generation];
  return which === 'none'
    ? Object.fromEntries(Object.entries(headers).filter(([each]) => each !== name))
    : headers;
}

async function readUpTo(
  body: Dispatcher.ResponseData['body'],
  coding: string | undefined,
  url: URL,
  maxBytes: number,
): Promise<Pick<RawAnswer, 'body' | 'isWhole'>> {
  // What is broken off below fails when nobody reads it any more.
  body.on('error', () => {});
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  try {
    const pieces: AsyncIterable<unknown> = decoded(body, coding, url);
    for await (const chunk of pieces) {
      if (!(chunk instanceof Uint8Array)) continue;
      chunks.push(chunk);
      sizeBytes += chunk.length;
      if (sizeBytes > maxBytes) return { body: Buffer.concat(chunks).subarray(0, maxBytes), isWhole: false };
    }
    return { body: Buffer.concat(chunks), isWhole: true };
  } finally {
    body.destroy();
  }
}

function singleHeaders(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Record<string, string | undefined> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : value]),
  );
}

/** What the HTTP library tells of a new connection (undici, "Diagnostics Channel Support"). */
interface ConnectedMessage {
  readonly connectParams: { readonly host: string; readonly version?: string };
}

function isConnected(message: unknown): message is ConnectedMessage {
  return typeof message === 'object' && message !== null && 'connectParams' in message;
}

const CONNECTED = channel('undici:client:connected');

/** Counts the connections that are opened to a host. */
function countConnections({ host }: URL): { readonly count: () => number; readonly stop: () => void } {
  let count = 0;
  const onConnected = (message: unknown): void => {
    if (isConnected(message) && message.connectParams.host === host) count += 1;
  };
  CONNECTED.subscribe(onConnected);
  return { count: () => count, stop: () => CONNECTED.unsubscribe(onConnected) };
}

/** Whether HTTP/2 is offered in the TLS handshake (RFC 9113, section 3.2): seen with one request that carries no credential. */
async function seesHttp2(base: URL, options: ProbeConnection): Promise<boolean | null> {
  if (base.protocol !== 'https:') return null;
  const ways = openWays(options, true);
  let version: string | undefined;
  const onConnected = (message: unknown): void => {
    if (isConnected(message) && message.connectParams.host === base.host)
      version = message.connectParams.version;
  };
  CONNECTED.subscribe(onConnected);
  try {
    const { body } = await request(base.origin, {
      dispatcher: ways.to(base).dispatcher,
      method: 'HEAD',
      signal: options.signal,
    });
    body.on('error', () => {}).destroy();
  } catch {
    // What was seen of the connection stands.
  } finally {
    CONNECTED.unsubscribe(onConnected);
    await ways.close();
  }
  return version === undefined ? null : version === 'h2';
}
