import { channel } from 'node:diagnostics_channel';

import { type Dispatcher, request } from 'undici';

import { CREDENTIAL_HEADERS, type Generation, requestHeaders } from '../lib/api/requests.ts';
import { MirrorError, toMirrorError } from '../lib/errors/errors.ts';
import { CONNECT_TIMEOUT_MS, decoded } from '../mirror/upstream/connections.ts';
import { transportError } from '../mirror/upstream/failures.ts';
import { createWays, type Ways } from '../lib/net/ways.ts';

/** How the probe's requests are made. Durations in milliseconds. */
interface ConnectionOptions {
  /** The application's address followed by `/api`, without a slash at the end. */
  readonly baseUrl: string;
  readonly credential: (generation: Generation) => string | null;
  /** How long an answer may take to begin, and to go on. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** A request of the probe: it only reads. */
export interface ProbeRequest {
  readonly generation: Generation;
  readonly method: 'GET' | 'HEAD';
  /** Path and query below the base address, or a whole address of the same origin. */
  readonly target: string | URL;
  readonly headers: Readonly<Record<string, string>>;
  /** `own` sends the configured one. */
  readonly credential: 'own' | 'made-up' | 'none';
  /** So many bytes of the body are read, after decoding; then it is broken off. */
  readonly maxBytes: number;
}

/** An answer, or why there is none. */
export interface ProbeAnswer {
  /** HTTP status code; 0 where there was no whole answer. */
  readonly status: number;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Without its content coding. */
  readonly body: Buffer;
  /** False where the body was broken off. */
  readonly isWhole: boolean;
  /** From sending to the first byte of the answer, in milliseconds. */
  readonly waitMs: number;
  /** When it began to come, by this machine's clock, in milliseconds since the epoch. */
  readonly atMs: number;
  /** Why there was no whole answer; null where there was one. */
  readonly failure: MirrorError | null;
}

/** Stands for an answer that did not come. */
export const NO_ANSWER: ProbeAnswer = {
  status: 0,
  headers: {},
  body: Buffer.alloc(0),
  isWhole: false,
  waitMs: 0,
  atMs: 0,
  failure: null,
};

/** Sends single requests, without retries and redirects, to one origin. */
export interface ProbeConnection {
  /** @throws MirrorError `pass.abandoned` when the signal ends it; nothing else */
  readonly send: (request: ProbeRequest) => Promise<ProbeAnswer>;
  /** How many connections were opened so far. */
  readonly connections: () => number;
  /** Whether the service offers HTTP/2; null where that cannot be seen. Sends no credential. */
  readonly offersHttp2: () => Promise<boolean | null>;
  readonly close: () => Promise<void>;
}

/** An answer that comes more slowly than this is given up, in bytes a millisecond: a drip would hold the probe for ever. */
const LEAST_RATE = 32;

/** No service gives out such a key. */
const MADE_UP = 'made-up-by-workbook-mirror-probe';

/** Opens the way to a service. Proxies are taken from HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. */
export function openProbeConnection(options: ConnectionOptions): ProbeConnection {
  const base = new URL(options.baseUrl);
  const ways = openWays(options, false);
  const connections = watchConnections(base);
  return {
    send: (sent) => sendOnce(ways, base, sent, options),
    connections: () => connections.versions.length,
    offersHttp2: () => seesHttp2(base, options),
    close: async () => {
      connections.stop();
      await ways.close();
    },
  };
}

function openWays(options: ConnectionOptions, allowH2: boolean): Ways {
  return createWays({
    allowH2,
    connectTimeoutMs: Math.min(CONNECT_TIMEOUT_MS, options.timeoutMs),
    headersTimeout: options.timeoutMs,
    bodyTimeout: options.timeoutMs,
  });
}

async function sendOnce(
  ways: Ways,
  base: URL,
  sent: ProbeRequest,
  options: ConnectionOptions,
): Promise<ProbeAnswer> {
  const { generation, method, target, maxBytes } = sent;
  const url = target instanceof URL ? target : new URL(options.baseUrl + target);
  if (url.origin !== base.origin) {
    throw new MirrorError('internal.defect', `No credential may go to ${url.origin}.`);
  }
  const headers = { ...headersOf(generation, sent.credential, options), ...sent.headers };
  const startedAtMs = performance.now();
  const limitMs = 2 * options.timeoutMs + Math.ceil(maxBytes / LEAST_RATE);
  const limit = AbortSignal.timeout(limitMs);
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
    return { ...NO_ANSWER, waitMs, atMs: Date.now(), failure };
  }
}

function tooSlow(cause: unknown, { origin, pathname }: URL): MirrorError {
  return new MirrorError('service.timeout', `${origin}${pathname} did not answer in full in time.`, {
    cause,
    hint: 'If the service is always slow, raise service.timeout.',
  });
}

function headersOf(
  generation: Generation,
  which: ProbeRequest['credential'],
  { credential }: ConnectionOptions,
): Record<string, string> {
  const value = which === 'made-up' ? MADE_UP : (credential(generation) ?? '');
  const headers = requestHeaders(generation, value);
  if (which === 'none') delete headers[CREDENTIAL_HEADERS[generation]];
  return headers;
}

async function readUpTo(
  body: Dispatcher.ResponseData['body'],
  coding: string | undefined,
  url: URL,
  maxBytes: number,
): Promise<Pick<ProbeAnswer, 'body' | 'isWhole'>> {
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

/** A new connection, as the HTTP library tells of it (undici, "Diagnostics Channel Support"). */
interface ConnectedMessage {
  readonly connectParams: { readonly host: string; readonly version?: string };
}

function isConnected(message: unknown): message is ConnectedMessage {
  return typeof message === 'object' && message !== null && 'connectParams' in message;
}

const CONNECTED = channel('undici:client:connected');

/** Notes the versions of HTTP of the connections that are opened to a host. */
function watchConnections({ host }: URL): {
  readonly versions: ReadonlyArray<string | undefined>;
  readonly stop: () => void;
} {
  const versions: Array<string | undefined> = [];
  const onConnected = (message: unknown): void => {
    if (isConnected(message) && message.connectParams.host === host)
      versions.push(message.connectParams.version);
  };
  CONNECTED.subscribe(onConnected);
  return { versions, stop: () => CONNECTED.unsubscribe(onConnected) };
}

/** Whether HTTP/2 is offered in the TLS handshake (RFC 9113, section 3.2): seen with one request that carries no credential. */
async function seesHttp2(base: URL, options: ConnectionOptions): Promise<boolean | null> {
  if (base.protocol !== 'https:') return null;
  const ways = openWays(options, true);
  const connections = watchConnections(base);
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
    connections.stop();
    await ways.close();
  }
  const version = connections.versions.at(-1);
  return version === undefined ? null : version === 'h2';
}
