import { setTimeout as sleep } from 'node:timers/promises';

import { type Generation, requestHeaders, underOtherName } from '../../lib/api/requests.ts';
import { backOffDelayMs, MAX_RETRY_AFTER_MS, retryAfterMs } from '../../lib/time/back-off.ts';
import { type ErrorCode, MirrorError } from '../../lib/errors/errors.ts';
import { utcTime } from '../../lib/text/humanize.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { type Answer, cachedAnswer, type Patience, serviceTimeMs } from './answers.ts';
import { type Connections, createConnections } from './connections.ts';
import {
  contentsRefused,
  isLasting,
  isPassing,
  mayBeDone,
  statusError,
  transportError,
  withoutKeys,
} from './failures.ts';
import { credentialRefused, Keyring, type KeyringOptions } from './keyring.ts';

/** How often a failed request is tried again, after waits that double. Durations in milliseconds. */
export const RETRIES = {
  /** Further tries after a failed one; for a download, after its last try that got further. */
  most: 4,
  firstDelayMs: 500,
  /** Also the longest pause that a request waits for, if the service asks for one. */
  maxDelayMs: 30_000,
};

/** How requests are made. */
export interface TransportOptions extends KeyringOptions, Patience {
  /** The application's address followed by `/api`, without a slash at the end. */
  readonly baseUrl: string;
  /** Most connections for contents; everything else has separate ones, so that a poll never waits for a download. */
  readonly connections: number;
  /** The end of the pause that the service asked for: read before each attempt, written when the service asks. */
  readonly pause: PauseMemory;
  /** Called when a pause has begun or grown longer. */
  readonly onPause?: () => void;
  /** `fromBytes`: where a download continues; 0 if it restarts, and for other requests. */
  readonly onRetry?: (error: MirrorError, delayMs: number, fromBytes: number) => void;
}

/** The end of the pause that the service asked for; it outlives the process if it is stored. */
export interface PauseMemory {
  /** Milliseconds since the epoch; absent or null while nothing was asked. */
  pausedUntilMs?: number | null | undefined;
}

/** A request whose every try continues where the last one broke off. */
export interface Continuation {
  /** Additional headers of the next try. */
  readonly headers: () => Readonly<Record<string, string>>;
  /** Where the next try continues, in bytes; 0 if it restarts. */
  readonly resumesAtBytes: () => number;
}

/** A request: GET, or POST if it has a body. */
export interface TransportRequest {
  readonly generation: Generation;
  /** A path below the base address, or a whole address of the same origin. */
  readonly target: string | URL;
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Whether contents are requested. They take long and so have separate connections, and their answers say nothing about the
   * keys: a person may not have access to one repository, and a download may have begun before its key was revoked.
   */
  readonly isContents?: boolean;
  /** Where each further try continues; if left out, it restarts. */
  readonly continuation?: Continuation;
  /** The body of a POST, in JSON. It is sent again only after a failure that proves that it was not carried out. */
  readonly body?: string;
  readonly signal: AbortSignal;
}

/** A poll reads pages in sequence; two polls may overlap for a moment, for example when the settings change. */
const LIST_CONNECTIONS = 2;

/** The connection to the service: one origin, pooled connections, retries. */
export class Transport {
  /** The base address, without anything secret, and without a slash at its end. */
  readonly address: string;
  readonly #options: TransportOptions;
  readonly #base: URL;
  readonly keyring: Keyring;
  readonly #contents: Connections;
  readonly #lists: Connections;
  /** Whether anything ever answered: a service that restarts refuses connections for a moment, a wrong address always does. */
  #hasAnswered = false;

  constructor(options: TransportOptions) {
    const { timeoutMs, connections } = options;
    this.#options = options;
    this.#base = new URL(options.baseUrl);
    this.address = options.baseUrl;
    this.keyring = new Keyring(options);
    this.#contents = createConnections(this.#base.origin, timeoutMs, connections);
    this.#lists = createConnections(this.#base.origin, timeoutMs, LIST_CONNECTIONS);
  }

  /** Whether requests use `/repositories`: see {@link underOtherName}. */
  usesOtherName = false;

  /**
   * Sends a request and reads the answer. Temporary failures of either are retried, from the beginning or as the
   * request's `continuation` says, except at an address that never answered. While the service has asked for
   * no requests (Retry-After, RFC 9110, section 10.2.3) none is sent: a short pause is waited for, a longer one fails immediately. At
   * status 401 the next key is tried. A POST is sent again only if it certainly was not carried out.
   * @param read never receives status 401, 408, 425, 429 and 5xx
   * @throws MirrorError `service.*`, `credentials.refused`, `contents.forbidden`, `pass.abandoned`, and the errors of `read`: none
   *   of them contains a key, even if the service sent one
   */
  async send<T>(request: TransportRequest, read: (answer: Answer) => Promise<T>): Promise<T> {
    const { signal, body } = request;
    const atBytes = (): number => request.continuation?.resumesAtBytes() ?? 0;
    let [failures, furthestBytes] = [0, 0];
    for (;;) {
      try {
        return await this.#tryOnce(request, read);
      } catch (thrown) {
        const error = withoutKeys(thrown, this.keyring.values());
        if (signal.aborted)
          throw new MirrorError('pass.abandoned', 'The request was abandoned.', { cause: error });
        const isLast = (body !== undefined && mayBeDone(thrown)) || (!this.#hasAnswered && isLasting(thrown));
        // A try that gets further than all before it does not use up the retries.
        failures = atBytes() >= furthestBytes + LEAST_PROGRESS_BYTES ? 0 : failures + 1;
        furthestBytes = Math.max(furthestBytes, atBytes());
        const delayMs = isLast ? null : retryDelayMs(error, failures, Math.random());
        if (delayMs === null) throw error;
        if (error instanceof MirrorError) this.#options.onRetry?.(error, delayMs, atBytes());
        await waitFor(delayMs, signal);
      }
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#contents.close(), this.#lists.close()]);
  }

  /** Tries the keys in turn until one is accepted; reads the answer. */
  async #tryOnce<T>(sent: TransportRequest, read: (answer: Answer) => Promise<T>): Promise<T> {
    const { generation, target, isContents = false } = sent;
    const named = this.usesOtherName && !(target instanceof URL) ? underOtherName(target) : target;
    const url = named instanceof URL ? named : new URL(this.#options.baseUrl + named);
    const keys = this.keyring.inOrder(generation);
    const refusals: number[] = [];
    for (const [index, key] of keys.entries()) {
      const answer = await this.#ask(sent, url, key);
      try {
        if (isKeyRefused(answer.status, sent, index === keys.length - 1)) refusals.push(answer.status);
        else {
          const value = await read(answer);
          if (!isContents && isWelcome(answer.status))
            this.keyring.accept(generation, key, keys.slice(0, index));
          return value;
        }
      } catch (error) {
        throw transportError(error, url);
      } finally {
        answer.body.destroy();
      }
    }
    if (refusals.includes(403)) throw credentialRefused(generation, 403, url);
    throw isContents ? contentsRefused(url) : this.keyring.refuse(generation, keys, url);
  }

  /** Sends a request with a key. @throws MirrorError also for statuses that say nothing about the requested thing */
  async #ask(sent: TransportRequest, url: URL, key: string): Promise<Answer> {
    const { pause, onPause } = this.#options;
    await waitOut(pause, url, sent.signal);
    const answer = await this.#sendFollowing(sent, url, key);
    const { status } = answer;
    // How long the service wants no requests.
    const { date, 'retry-after': retryAfter } = answer.headers;
    const waitMs = retryAfterMs(retryAfter, serviceTimeMs(date) ?? Date.now());
    // For these statuses the pause is for the whole service, and not for one request (RFC 9110, 15.6.4; RFC 6585, section 4). But
    // 503 for the contents of one repository must not stop the requests for all others.
    const isForAll = status === 429 || (status === 503 && sent.isContents !== true);
    if (isForAll && waitMs !== undefined && extendPause(pause, waitMs, Date.now())) onPause?.();
    if (!isPassing(status)) return answer;
    answer.body.destroy();
    throw statusError(status, url, waitMs);
  }

  /** Sends a request and follows redirects inside the service's origin; credentials never go to another one. */
  async #sendFollowing(sent: TransportRequest, first: URL, key: string): Promise<Answer> {
    const { generation, body, signal, continuation } = sent;
    const connections = sent.isContents === true ? this.#contents : this.#lists;
    let url = first;
    for (let redirects = 0; ; redirects += 1) {
      const headers = { ...requestHeaders(generation, key), ...sent.headers, ...continuation?.headers() };
      const answer = await connections.send(url, { headers, body, signal });
      this.#hasAnswered = true;
      const { status } = answer;
      if (status < 300 || status >= 400 || status === 304) {
        const { age, via } = answer.headers;
        const name = via === undefined ? via : scrub(via, this.keyring.values());
        const cached = cachedAnswer({ age, via: name }, Date.now());
        return { ...answer, cached, patience: this.#options };
      }
      answer.body.destroy();
      const { location } = answer.headers;
      const next = location === undefined ? null : URL.parse(location, url.href);
      const isAllowed = next !== null && mayFollow(next, status, this.#base, sent);
      if (!isAllowed || redirects === MAX_REDIRECTS) throw redirected(url, status, next, this.#base);
      url = next;
    }
  }
}

/** Whether a key was refused. A service may refuse a list to a revoked key with 403; for the last key, the reader says what that means. */
function isKeyRefused(status: number, { isContents, body }: TransportRequest, isLastKey: boolean): boolean {
  const isList = isContents !== true && body === undefined;
  return status === 401 || (status === 403 && isList && !isLastKey);
}

/** Whether an answer proves that its key was accepted: other statuses do not. */
function isWelcome(status: number): boolean {
  return status === 200 || status === 201 || status === 304;
}

/** The bytes that count as progress of a try, and that a download must bring per period of waiting. */
export const LEAST_PROGRESS_BYTES = 64 * 1024;

const RETRYABLE: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'service.unreachable',
  'service.timeout',
  'service.busy',
  'service.failed',
  'contents.interrupted',
]);

/**
 * Decides when a failed request is tried again: not before the service allows it.
 * @param failures in a row
 * @param random a number from 0 up to 1
 * @returns milliseconds; null for no further try
 */
export function retryDelayMs(error: unknown, failures: number, random: number): number | null {
  if (!(error instanceof MirrorError) || !RETRYABLE.has(error.code)) return null;
  const { most, maxDelayMs } = RETRIES;
  const wishMs = error.retryAfterMs ?? 0;
  if (failures > most || wishMs > maxDelayMs) return null;
  return backOffDelayMs(RETRIES, Math.max(1, failures), random, wishMs);
}

/**
 * The rest of a pause, in milliseconds; 0 for none. A pause ends at most a day ahead (see `retryAfterMs`), so one that ends
 * later was computed with a wrong clock, and does not count.
 */
export function pauseLeftMs({ pausedUntilMs }: PauseMemory, nowMs: number): number {
  const leftMs = (pausedUntilMs ?? 0) - nowMs;
  return leftMs > 0 && leftMs <= MAX_RETRY_AFTER_MS ? leftMs : 0;
}

/** Extends a pause to at least this long from now; returns whether it became longer. */
export function extendPause(memory: PauseMemory, waitMs: number, nowMs: number): boolean {
  if (waitMs <= pauseLeftMs(memory, nowMs)) return false;
  memory.pausedUntilMs = nowMs + waitMs;
  return true;
}

/**
 * Waits until the pause is over; it may become longer during the wait.
 * @throws MirrorError `service.busy` if the pause is longer than requests wait, `pass.abandoned`
 */
export async function waitOut(memory: PauseMemory, url: URL, signal: AbortSignal): Promise<void> {
  for (let leftMs = pauseLeftMs(memory, Date.now()); leftMs > 0; leftMs = pauseLeftMs(memory, Date.now())) {
    if (leftMs > RETRIES.maxDelayMs) throw paused(url, Date.now() + leftMs, leftMs);
    await waitFor(leftMs, signal);
  }
}

/** Waits. @throws MirrorError `pass.abandoned` */
export async function waitFor(delayMs: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(delayMs, undefined, { signal });
  } catch (cause) {
    throw new MirrorError('pass.abandoned', 'The pass was abandoned while waiting for the service.', {
      cause,
    });
  }
}

function paused(url: URL, untilMs: number, leftMs: number): MirrorError {
  return new MirrorError(
    'service.busy',
    `${url.origin} asked for no requests until ${utcTime(untilMs)} (Retry-After); ${url.pathname} was not requested.`,
    { retryAfterMs: leftMs, hint: 'No request is sent before that time.' },
  );
}

const MAX_REDIRECTS = 5;

/**
 * Whether a redirect is followed: inside the service's origin, only to the generation that its credential is for, and with the
 * method of the request.
 */
function mayFollow(next: URL, status: number, base: URL, { generation, body }: TransportRequest): boolean {
  // Other redirects may turn a POST into a GET (RFC 9110, section 15.4).
  const keepsMethod = body === undefined || status === 307 || status === 308;
  if (next.origin !== base.origin || !keepsMethod) return false;
  try {
    // A service decodes the path, so %76 means v there.
    const path = decodeURIComponent(next.pathname);
    const isV1 = `${path}/`.startsWith(`${base.pathname.replace(/\/$/, '')}/v1/`);
    return isV1 === (generation === 'v1');
  } catch {
    return false;
  }
}

/** The error for a redirect. It names only the origin of another address: the rest may hold a secret. */
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
