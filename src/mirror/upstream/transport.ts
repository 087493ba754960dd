import type { Readable } from 'node:stream';
import { inspect } from 'node:util';

import { request } from 'undici';

import { type Generation, REPOSITORIES_PATH, requestHeaders } from '../../lib/api/requests.ts';
import { retryAfterMs } from '../../lib/time/back-off.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { CredentialPlace } from '../pass/events.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { askWithKeys, type Asked, type KeyRequest } from './key-attempts.ts';
import { type Bandwidth, createBandwidth } from './bandwidth.ts';
import { decoded } from './decoding.ts';
import { ContentsRefusedError, statusError, transportError } from './failures.ts';
import { createsNothing, neverArrived, unsure, UnsureError } from './unsure-creation.ts';
import { type Key, Keyring, type KeyringOptions } from './keyring.ts';
import { extendPause, type PauseMemory, pausesOrigin, waitFor, waitOut } from './pause.ts';
import { type Continuation, type RetryPolicy, Tries } from './retries.ts';
import { createWays, type Ways } from './proxies.ts';

/** How requests are made. Durations in milliseconds. */
export interface TransportOptions extends KeyringOptions, RetryPolicy {
  /** The application's address followed by `/api`, without a slash at the end. */
  readonly baseUrl: string;
  readonly connectTimeoutMs: number;
  readonly headersTimeoutMs: number;
  /** An answer that gives no byte for so long is given up. */
  readonly stallTimeoutMs: number;
  /** Most connections for contents; those for everything else are apart, so that a poll never waits for a download. */
  readonly connections: number;
  /** What all downloads of contents together may take, in bytes a second; null for no limit. */
  readonly maxBandwidth: number | null;
  /** Greatest answer in JSON, in bytes after decoding. */
  readonly maxAnswerBytes: number;
  /** Until when the service asked to be left alone: read before each attempt, written to as the service asks. */
  readonly pause: PauseMemory;
  /** Called when a pause has begun or grown longer. */
  readonly onPause?: () => void;
  /** `fromBytes`: where a download goes on; 0 where it starts anew, and for what is no download. */
  readonly onRetry?: (error: MirrorError, delayMs: number, fromBytes: number) => void;
  /** Called whenever bytes of an answer came. */
  readonly onProgress?: () => void;
}

/** A request: GET, or POST where it has a body. */
export interface TransportRequest extends KeyRequest {
  /** Below the base address, or a whole address of the same origin. */
  readonly target: string | URL;
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether contents are asked for, which take long: they have connections of their own. */
  readonly isContents?: boolean;
  /** What each further try goes on with; left out, it begins anew. */
  readonly continuation?: Continuation;
  /** What a POST sends, in JSON. It is sent again only after a failure that says that nothing was done with it. */
  readonly body?: string;
  /** Whether the answer may turn out not to be needed: a failure is not retried then, and no pause is kept to that it asks for. */
  readonly isTentative?: boolean;
  /** Told of the status of every answer that is no redirect, whatever becomes of it. */
  readonly onStatus?: (status: number) => void;
  readonly signal: AbortSignal;
}

/** An answer whose body is still to be read, once, decoded. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly url: URL;
  readonly body: Readable;
  /** Which of the keys the request was sent with. */
  readonly keyPlace: CredentialPlace;
}

/** What bounds the answers in JSON. */
export type AnswerLimits = Pick<TransportOptions, 'maxAnswerBytes' | 'stallTimeoutMs' | 'onProgress'>;

/** The way to the service: one origin, pooled connections, retries. */
export interface Transport {
  readonly hasCredential: (generation: Generation) => boolean;
  /**
   * To be asked before a poll, so that no request at all is sent while the keys of either generation all wait.
   * @param isUrgent a person waits: keys that wait are tried once more
   * @throws MirrorError `credentials.refused` while all keys of a generation wait
   */
  readonly admit: (isUrgent: boolean) => void;
  /**
   * Sends a request and lets `consume` read the answer; what fails in either and may be retried is retried, from the
   * beginning or as the request's `continuation` says. Statuses 401, 408, 425, 429 and 5xx never reach `consume`. While the service has asked for no requests
   * (Retry-After, RFC 9110, section 10.2.3; not in answer to a tentative request) none is sent: a short pause is waited for, a longer one fails at once. With
   * status 401 the other key is tried, if there is one; no key is sent while it waits because it was refused.
   * @throws MirrorError `service.*`, `credentials.refused`, `contents.forbidden`, `pass.abandoned`, and what `consume` throws: none
   *   of them names a key, even if the service did; where a POST may have been done, the hint says so
   */
  readonly send: <T>(request: TransportRequest, consume: (answer: Answer) => Promise<T>) => Promise<T>;
  readonly limits: AnswerLimits;
  /** What is to be asked for leave before more of any contents is read. */
  readonly bandwidth: Bandwidth;
  readonly close: () => Promise<void>;
}

const MAX_REDIRECTS = 5;

/** Opens the way to a service. Proxies are taken from HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. */
export function createTransport(options: TransportOptions): Transport {
  const base = new URL(options.baseUrl);
  const bandwidth = createBandwidth(options.maxBandwidth);
  const contents = createLine(options, options.connections, bandwidth.isLimited);
  const lists = createLine(options, LIST_CONNECTIONS, false);
  const keyring = new Keyring(options);

  const askOnce = async <T>(
    sent: TransportRequest,
    key: Key,
    consume: (answer: Answer) => Promise<T>,
  ): Promise<Asked<T>> => {
    const url = sent.target instanceof URL ? sent.target : new URL(options.baseUrl + sent.target);
    await waitOut(options.pause, options.maxRetryDelayMs, url, sent.signal);
    const line = sent.isContents === true ? contents : lists;
    const answer = await sendFollowing(line, base, url, sent, key).catch((error: unknown) => {
      throw sent.body === undefined || neverArrived(error) ? error : unsure(error);
    });
    try {
      const waitMs = heedWish(answer, sent, options);
      if (answer.status === 401) return { kind: 'refused', url, retryAfterMs: waitMs ?? 0 };
      if (isPassing(answer.status)) throw statusError(answer.status, url, waitMs);
      return { kind: 'answered', status: answer.status, value: await consume(answer) };
    } catch (error) {
      const known = transportError(error, url);
      throw sent.body === undefined || createsNothing(answer.status) ? known : unsure(known);
    } finally {
      answer.body.destroy();
    }
  };

  return {
    hasCredential: (generation) => keyring.hasKey(generation),
    admit: (isUrgent) => keyring.admit(isUrgent),
    send: async (sent, consume) => {
      const tries = new Tries(options, sent.continuation);
      for (;;) {
        try {
          return await askWithKeys(
            keyring,
            sent,
            (key) => askOnce(sent, key, consume),
            (key) => judge(askOnce, keyring, key, sent.signal),
          );
        } catch (thrown) {
          const error = withoutKeys(thrown, keyring.values());
          if (sent.signal.aborted) throw abandoned(error, thrown);
          const isLast = thrown instanceof UnsureError || sent.isTentative === true;
          const next = isLast ? null : tries.next(error, Math.random());
          if (next === null) throw error;
          if (error instanceof MirrorError) options.onRetry?.(error, next.delayMs, next.fromBytes);
          await waitFor(next.delayMs, sent.signal);
        }
      }
    },
    limits: options,
    bandwidth,
    close: async () => {
      await Promise.all([contents.ways.close(), lists.ways.close()]);
    },
  };
}

/** Reads for how long the service wants to be left alone, and keeps to it. @returns milliseconds; undefined where it says nothing */
function heedWish(
  { status, headers }: Answer,
  { isTentative }: TransportRequest,
  { pause, onPause }: TransportOptions,
): number | undefined {
  const nowMs = Date.now();
  const waitMs = retryAfterMs(headers['retry-after'], nowMs);
  // A service that takes few requests at a time refuses those that were asked ahead of need, and would take those that are needed.
  const isHeeded = waitMs !== undefined && pausesOrigin(status) && isTentative !== true;
  if (isHeeded && extendPause(pause, waitMs, nowMs)) onPause?.();
  return waitMs;
}

/** Statuses that say nothing of what was asked for: another try may do better. */
function isPassing(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500;
}

function abandoned(cause: unknown, thrown: unknown): MirrorError {
  const hint = thrown instanceof UnsureError && thrown.hint !== undefined ? { hint: thrown.hint } : {};
  return new MirrorError('pass.abandoned', 'The request was abandoned.', { cause, ...hint });
}

/** A poll reads some pages of a list ahead, while a key may be judged. */
const LIST_CONNECTIONS = 6;

/** What of an answer may wait in memory for its reader: much, which is fast, or little, where a limit is to be kept to. */
const BUFFER_BYTES = 1024 * 1024;
const LIMITED_BUFFER_BYTES = 64 * 1024;

/** Connections for one kind of request, and what of an answer may wait in memory. */
interface Line {
  readonly ways: Ways;
  readonly bufferBytes: number;
}

function createLine(options: TransportOptions, connections: number, isLimited: boolean): Line {
  // HTTP/2 is off: its flow-control windows in this library cap all downloads together far below one plain connection.
  const ways = createWays({
    allowH2: false,
    connections,
    connectTimeoutMs: options.connectTimeoutMs,
    headersTimeout: options.headersTimeoutMs,
    bodyTimeout: options.stallTimeoutMs,
  });
  return { ways, bufferBytes: isLimited ? LIMITED_BUFFER_BYTES : BUFFER_BYTES };
}

/** Sends a request once, with one key. */
type AskOnce = <T>(
  sent: TransportRequest,
  key: Key,
  consume: (answer: Answer) => Promise<T>,
) => Promise<Asked<T>>;

/** Asks for the list of repositories, and does not read it: its status tells whether a key of the current API is let in. */
async function judge(askOnce: AskOnce, keyring: Keyring, key: Key, signal: AbortSignal): Promise<void> {
  const request = { generation: 'current', judgesKey: true, target: REPOSITORIES_PATH, signal } as const;
  const asked = await askOnce(request, key, ({ status }) => Promise.resolve(status));
  if (asked.kind === 'refused') keyring.refuse(key, asked.retryAfterMs);
  else if (asked.value === 200) keyring.accept(key);
}

/** An error that names no key: an address that the service redirects to may hold one. The cause goes with it. */
function withoutKeys(error: unknown, keys: readonly string[]): unknown {
  if (!(error instanceof MirrorError)) return error;
  // Host names of addresses lose their capitals.
  const secrets = keys.flatMap((key) => [key, key.toLowerCase()]);
  const { code, message, hint, retryAfterMs } = error;
  const clean = { message: scrub(message, secrets), hint: hint === undefined ? hint : scrub(hint, secrets) };
  if (clean.message === message && clean.hint === hint && !namesAny(error.cause, secrets)) return error;
  const Kind = error instanceof ContentsRefusedError ? ContentsRefusedError : MirrorError;
  return new Kind(code, clean.message, {
    ...(clean.hint === undefined ? {} : { hint: clean.hint }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

function namesAny(cause: unknown, secrets: readonly string[]): boolean {
  const text = inspect(cause, { depth: 8 });
  return scrub(text, secrets) !== text;
}

/** Sends a request and follows redirects inside the service's origin; credentials never go to another one. */
async function sendFollowing(
  line: Line,
  base: URL,
  first: URL,
  sent: TransportRequest,
  key: Key,
): Promise<Answer> {
  let url = first;
  for (let redirects = 0; ; redirects += 1) {
    const answer = await sendOnce(line, base, url, sent, key);
    const { location } = answer.headers;
    const isRedirect = answer.status >= 300 && answer.status < 400 && answer.status !== 304;
    if (!isRedirect) {
      sent.onStatus?.(answer.status);
      return answer;
    }
    answer.body.destroy();
    const next = location === undefined ? null : URL.parse(location, url.href);
    // Other redirects may turn a POST into a GET (RFC 9110, section 15.4).
    const keepsMethod = sent.body === undefined || answer.status === 307 || answer.status === 308;
    const isAllowed = next !== null && keepsMethod && mayFollow(next, base, sent.generation);
    if (!isAllowed || redirects === MAX_REDIRECTS) {
      throw redirected(url, answer.status, next, base);
    }
    url = next;
  }
}

/** A redirect is followed inside the service's origin, and only to the generation whose credential is on the way. */
function mayFollow(url: URL, base: URL, generation: Generation): boolean {
  if (url.origin !== base.origin) return false;
  const isV1 = url.pathname.startsWith(`${base.pathname.replace(/\/$/, '')}/v1/`);
  return isV1 === (generation === 'v1');
}

/** The error for a redirect. Of an address elsewhere only the origin is named: nobody knows what else stands in it. */
function redirected(url: URL, status: number, next: URL | null, base: URL): MirrorError {
  const path = next?.origin === base.origin ? next.pathname : '';
  const where = next === null ? 'to nowhere' : `to ${next.origin}${path}`;
  return new MirrorError(
    'service.redirected',
    `${url.origin}${url.pathname} redirects ${where} (status ${status}), which is not followed with credentials.`,
    {
      hint: 'Put the final address into the setting service.baseUrl. A redirect to a login page means that the key is missing or refused.',
    },
  );
}

async function sendOnce(line: Line, base: URL, url: URL, sent: TransportRequest, key: Key): Promise<Answer> {
  if (url.origin !== base.origin) {
    throw new MirrorError('internal.defect', `No credential may go to ${url.origin}.`);
  }
  const { dispatcher, proxy } = line.ways.to(url);
  try {
    const response = await request(url, {
      dispatcher,
      headers: {
        ...requestHeaders(sent.generation, key.value),
        ...sent.headers,
        ...sent.continuation?.headers(),
      },
      ...(sent.body === undefined ? {} : { method: 'POST', body: sent.body }),
      signal: sent.signal,
      highWaterMark: line.bufferBytes,
    });
    const headers = singleHeaders(response.headers);
    try {
      const body = decoded(response.body, headers['content-encoding'], url);
      // A body can fail before its reader has come, or when nobody reads it: that must not end the program.
      body.on('error', () => {});
      return { status: response.statusCode, headers, url, body, keyPlace: key.place };
    } catch (error) {
      response.body.on('error', () => {}).destroy();
      throw error;
    }
  } catch (error) {
    throw transportError(error, url, proxy);
  }
}

function singleHeaders(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Record<string, string | undefined> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : value]),
  );
}
