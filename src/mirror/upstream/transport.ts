import { type Generation, requestHeaders } from '../../lib/api/requests.ts';
import { retryAfterMs } from '../../lib/time/back-off.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import {
  Bandwidth,
  type Continuation,
  extendPause,
  type PauseMemory,
  type RetryPolicy,
  Tries,
  waitFor,
  waitOut,
} from './pace.ts';
import type { Answer, AnswerLimits } from './answers.ts';
import { cachedAnswer } from './listing.ts';
import {
  type ConnectionOptions,
  type Connections,
  createConnections,
  type WireAnswer,
} from './connections.ts';
import {
  contentsRefused,
  isLasting,
  mayBeDone,
  statusError,
  transportError,
  withoutKeys,
} from './failures.ts';
import { Keyring, type KeyringOptions } from './keyring.ts';

/** How requests are made. Durations in milliseconds. */
export interface TransportOptions
  extends KeyringOptions, RetryPolicy, AnswerLimits, Omit<ConnectionOptions, 'connections' | 'bufferBytes'> {
  /** The application's address followed by `/api`, without a slash at the end. */
  readonly baseUrl: string;
  /** Most connections for contents; those for everything else are apart, so that a poll never waits for a download. */
  readonly connections: number;
  /** Limit of all downloads of contents together, in bytes a second; null for none. */
  readonly maxBandwidth: number | null;
  /** Until when the service asked to be left alone: read before each attempt, written to as the service asks. */
  readonly pause: PauseMemory;
  /** Called when a pause has begun or grown longer. */
  readonly onPause?: () => void;
  /** `fromBytes`: where a download goes on; 0 where it starts anew, and for what is no download. */
  readonly onRetry?: (error: MirrorError, delayMs: number, fromBytes: number) => void;
}

/** A request: GET, or POST where it has a body. */
export interface TransportRequest {
  readonly generation: Generation;
  /** Below the base address, or a whole address of the same origin. */
  readonly target: string | URL;
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Whether contents are asked for. They take long and so have connections of their own, and their answers say nothing of the
   * keys: a person may not have access to one repository, and a download may have begun before its key was revoked.
   */
  readonly isContents?: boolean;
  /** Where each further try goes on; left out, it begins anew. */
  readonly continuation?: Continuation;
  /** The body of a POST, in JSON. It is sent again only after a failure that says that nothing was done with it. */
  readonly body?: string;
  readonly signal: AbortSignal;
}

/** A poll reads one page after the other; there may be two for a moment, as when the settings change. */
const LIST_CONNECTIONS = 2;

/** How much of an answer may wait in memory: much, which is fast, or little, where a limit is to be kept to. */
const BUFFER_BYTES = 1024 * 1024;
const LIMITED_BUFFER_BYTES = 64 * 1024;

/** The way to the service: one origin, pooled connections, retries. */
export class Transport {
  /** The base address, without anything secret. */
  readonly address: string;
  readonly limits: AnswerLimits;
  /** Asked for leave before more of any contents is read; null where that is not limited. */
  readonly bandwidth: Bandwidth | null;
  readonly #options: TransportOptions;
  readonly #base: URL;
  readonly #keyring: Keyring;
  readonly #contents: Connections;
  readonly #lists: Connections;
  /** Whether anything ever answered: a service that restarts refuses connections for a moment, a wrong address always does. */
  #hasAnswered = false;

  constructor(options: TransportOptions) {
    const { maxBandwidth, ...connections } = options;
    this.#options = options;
    this.#base = new URL(options.baseUrl);
    this.address = this.#base.origin + this.#base.pathname;
    this.limits = options;
    this.bandwidth = maxBandwidth === null ? null : new Bandwidth(maxBandwidth);
    this.#keyring = new Keyring(options);
    const { origin } = this.#base;
    const lists = { ...connections, connections: LIST_CONNECTIONS, bufferBytes: BUFFER_BYTES };
    const bufferBytes = maxBandwidth === null ? BUFFER_BYTES : LIMITED_BUFFER_BYTES;
    this.#contents = createConnections(origin, { ...connections, bufferBytes });
    this.#lists = createConnections(origin, lists);
  }

  hasCredential(generation: Generation): boolean {
    return this.#keyring.hasKey(generation);
  }

  /** See {@link Keyring.admit}. */
  admit(isUrgent: boolean): void {
    this.#keyring.admit(isUrgent);
  }

  /**
   * Sends a request and reads the answer; what fails in either and may be retried is retried, from the beginning or as the
   * request's `continuation` says; an address at which nothing ever answered is not tried again. While the service has asked for
   * no requests (Retry-After, RFC 9110, section 10.2.3) none is sent: a short pause is waited for, a longer one fails at once. With
   * status 401 the next key is tried. A POST is sent again only where it certainly was not done.
   * @param read is never given status 401, 408, 425, 429 and 5xx
   * @throws MirrorError `service.*`, `credentials.refused`, `contents.forbidden`, `pass.abandoned`, and what `read` throws: none
   *   of them names a key, even if the service did
   */
  async send<T>(request: TransportRequest, read: (answer: Answer) => Promise<T>): Promise<T> {
    const { signal, continuation, body } = request;
    const tries = new Tries(this.#options, continuation);
    for (;;) {
      try {
        return await this.#tryOnce(request, read);
      } catch (thrown) {
        const error = withoutKeys(thrown, this.#keyring.values());
        if (signal.aborted)
          throw new MirrorError('pass.abandoned', 'The request was abandoned.', { cause: error });
        const isLast = (body !== undefined && mayBeDone(thrown)) || (!this.#hasAnswered && isLasting(thrown));
        const next = isLast ? null : tries.next(error, Math.random());
        if (next === null) throw error;
        if (error instanceof MirrorError) this.#options.onRetry?.(error, next.delayMs, next.fromBytes);
        await waitFor(next.delayMs, signal);
      }
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#contents.close(), this.#lists.close()]);
  }

  /** Asks with the keys one after the other, until one is not refused; reads the answer. */
  async #tryOnce<T>(sent: TransportRequest, read: (answer: Answer) => Promise<T>): Promise<T> {
    const { generation, target, isContents = false } = sent;
    const url = target instanceof URL ? target : new URL(this.#options.baseUrl + target);
    const keys = this.#keyring.inOrder(generation);
    for (const [index, key] of keys.entries()) {
      const answer = await this.#ask(sent, url, key);
      try {
        if (answer.status !== 401) {
          const value = await read(answer);
          if (!isContents && isWelcome(answer.status))
            this.#keyring.accept(generation, key, keys.slice(0, index));
          return value;
        }
      } catch (error) {
        throw transportError(error, url);
      } finally {
        answer.body.destroy();
      }
    }
    throw isContents ? contentsRefused(url) : this.#keyring.refuse(generation, keys, url);
  }

  /** Sends a request with a key. @throws MirrorError also for statuses that say nothing of what was asked for */
  async #ask(sent: TransportRequest, url: URL, key: string): Promise<Answer> {
    const { pause, maxRetryDelayMs, onPause } = this.#options;
    await waitOut(pause, maxRetryDelayMs, url, sent.signal);
    const answer = await this.#sendFollowing(sent, url, key);
    const { status } = answer;
    const waitMs = wishMs(answer);
    // With these it is about the service, and not about one request (RFC 9110, 15.6.4; RFC 6585, section 4).
    const isForAll = status === 429 || status === 503;
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
      const headers = {
        ...requestHeaders(generation, key),
        ...sent.headers,
        ...continuation?.headers(),
      };
      const answer = await connections.send(url, { headers, body, signal });
      this.#hasAnswered = true;
      const { status } = answer;
      if (status < 300 || status >= 400 || status === 304) {
        return { ...answer, cached: cachedAnswer(answer.headers, Date.now()) };
      }
      answer.body.destroy();
      const isPost = body !== undefined;
      url = redirectTarget(answer, { redirects, isPost, base: this.#base, generation });
    }
  }
}

/** For how long the service wants to be left alone, in milliseconds; undefined where it says nothing. */
function wishMs({ headers }: Answer): number | undefined {
  return retryAfterMs(headers['retry-after'], Date.now());
}

/** Whether an answer that could be read was one for those who are let in: with other statuses, nobody knows. */
function isWelcome(status: number): boolean {
  return status === 200 || status === 201 || status === 304;
}

/** Statuses that say nothing of what was asked for: another try may do better. */
function isPassing(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500;
}

const MAX_REDIRECTS = 5;

/** The request that was redirected. */
interface Redirected {
  /** How often it was redirected before. */
  readonly redirects: number;
  readonly isPost: boolean;
  /** The address of the service. */
  readonly base: URL;
  readonly generation: Generation;
}

/** Where a redirect leads, if it may be followed. @throws MirrorError `service.redirected` */
function redirectTarget(
  { url, status, headers: { location } }: Pick<WireAnswer, 'url' | 'status' | 'headers'>,
  { redirects, isPost, base, generation }: Redirected,
): URL {
  const next = location === undefined ? null : URL.parse(location, url.href);
  // Other redirects may turn a POST into a GET (RFC 9110, section 15.4).
  const keepsMethod = !isPost || status === 307 || status === 308;
  const isAllowed = next !== null && keepsMethod && mayFollow(next, base, generation);
  if (!isAllowed || redirects === MAX_REDIRECTS) throw redirected(url, status, next, base);
  return next;
}

/** A redirect is followed inside the service's origin, and only to the generation whose credential is on the way. */
function mayFollow(url: URL, base: URL, generation: Generation): boolean {
  if (url.origin !== base.origin) return false;
  // A service decodes the path, so that %76 is a v there.
  const path = decoded(url.pathname);
  if (path === null) return false;
  const isV1 = `${path}/`.startsWith(`${base.pathname.replace(/\/$/, '')}/v1/`);
  return isV1 === (generation === 'v1');
}

function decoded(path: string): string | null {
  try {
    return decodeURIComponent(path);
  } catch {
    return null;
  }
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
