import { CREDENTIAL_HEADERS, type Generation, requestHeaders } from '../lib/api/requests.ts';
import { MirrorError, toMirrorError } from '../lib/errors/errors.ts';
import {
  announcedBytes,
  type AnswerHeaders,
  type Connections,
  createConnections,
  piecesOf,
  type WireAnswer,
} from '../mirror/upstream/connections.ts';
import { transportError } from '../mirror/upstream/failures.ts';

/** How to reach the service, and the limits of a probe. Durations in milliseconds. */
export interface AskOptions {
  /** The application's address followed by `/api`, without a slash at the end. */
  readonly baseUrl: string;
  /** Null for a generation without credential. */
  readonly credential: (generation: Generation) => string | null;
  /** Longest time until an answer begins, and until it ends. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Most requests in total. */
  readonly maxRequests: number;
  /** Called before each request with the subject and the number of this request. */
  readonly onProgress: (what: string, sent: number) => void;
}

/** A request of the probe: it only reads. */
export interface ProbeRequest {
  /** Path and query below the base address, or a whole address of the same origin. */
  readonly target: string | URL;
  /** The current one if omitted. */
  readonly generation?: Generation;
  /** Additional headers. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent instead of the configured credential; null for none. */
  readonly credential?: string | null;
  /** Most bytes of the decoded body to read; then it is cut off. Only its start if omitted. */
  readonly maxBytes?: number;
}

/** An answer, or the reason for its absence. */
export interface ProbeAnswer {
  /** HTTP status code; 0 without a complete answer. */
  readonly status: number;
  readonly headers: AnswerHeaders;
  /** The decoded body. */
  readonly body: Buffer;
  /** False if the body was cut off. */
  readonly isWhole: boolean;
  /** Time from sending to the first byte of the answer, in milliseconds. */
  readonly waitMs: number;
  /** Arrival of its first byte by this machine's clock, in milliseconds since the epoch. */
  readonly atMs: number;
  /** Why there was no complete answer; null if there was one. */
  readonly failure: MirrorError | null;
}

/** Ends a probe early; the findings so far are kept. */
export class ProbeStopped extends MirrorError {}

export const KEY_HINT = 'Check the setting service.apiKey: a personal API key is needed.';
const LATER = { hint: 'Try again later.' };

/** A slower answer is aborted, in bytes per millisecond: a trickle would block the probe forever. */
const LEAST_RATE = 32;

/** Enough for an error, or for the start of a body that is not read completely. */
const PEEK_BYTES = 64 * 1024;

const MOST_SILENCES = 4;

/**
 * Decides whether to go on after an answer.
 * @param isOwn whether the configured credential was sent
 * @param silences number of consecutive requests without answer, including this one
 * @throws ProbeStopped
 */
export function stopAfter(status: number, isOwn: boolean, silences: number): void {
  if (silences >= MOST_SILENCES)
    throw new ProbeStopped('service.unreachable', `${silences} requests in a row had no answer`, LATER);
  if (status === 429)
    throw new ProbeStopped('service.busy', 'the service asked for fewer requests (status 429)', LATER);
  if (status !== 401 || !isOwn) return;
  const message = 'the service refused the credential (status 401)';
  throw new ProbeStopped('credentials.refused', message, { hint: KEY_HINT });
}

/**
 * Sends requests to a service, within limits, one after the other. Proxies come from HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and
 * NO_PROXY.
 */
export class Asker {
  /** The subject of the next requests. */
  about = '';
  /** The answer to each sent request, without its body. */
  readonly answers: Omit<ProbeAnswer, 'body'>[] = [];
  readonly #options: AskOptions;
  readonly #connections: Connections;
  #silences = 0;

  constructor(options: AskOptions) {
    this.#options = options;
    this.#connections = createConnections(new URL(options.baseUrl).origin, options.timeoutMs, 1);
  }

  /**
   * Sends a request, without following redirects.
   * @returns the answer, with status 0 if none came
   * @throws ProbeStopped when the limits are reached, or the service wants no more requests; MirrorError `pass.abandoned`
   */
  async ask(sent: ProbeRequest): Promise<ProbeAnswer> {
    const { maxRequests, onProgress } = this.#options;
    const { length } = this.answers;
    if (length >= maxRequests)
      throw new ProbeStopped('service.busy', `all ${maxRequests} requests were used up`, LATER);
    onProgress(this.about, length + 1);
    const answer = await this.#send(sent);
    const { body: _, ...head } = answer;
    this.answers.push(head);
    this.#silences = answer.status === 0 ? this.#silences + 1 : 0;
    stopAfter(answer.status, sent.credential === undefined, this.#silences);
    return answer;
  }

  async #send(sent: ProbeRequest): Promise<ProbeAnswer> {
    const { baseUrl, timeoutMs, signal } = this.#options;
    const { target, generation = 'current', maxBytes = PEEK_BYTES } = sent;
    const { credential = this.#options.credential(generation) } = sent;
    const url = target instanceof URL ? target : new URL(baseUrl + target);
    const headers = { ...requestHeaders(generation, credential ?? ''), ...sent.headers };
    if (credential === null) delete headers[CREDENTIAL_HEADERS[generation]];
    const limit = AbortSignal.timeout(2 * timeoutMs + Math.ceil(maxBytes / LEAST_RATE));
    const startedAtMs = performance.now();
    const whenItCame = () => ({ waitMs: performance.now() - startedAtMs, atMs: Date.now() });
    try {
      const request = { headers, body: undefined, signal: AbortSignal.any([signal, limit]) };
      const answer = await this.#connections.send(url, request);
      const times = whenItCame();
      const read = await readUpTo(answer, maxBytes);
      return { status: answer.status, headers: answer.headers, ...read, ...times, failure: null };
    } catch (error) {
      if (signal.aborted)
        throw new MirrorError('pass.abandoned', 'The probe was abandoned.', { cause: error });
      const slow = `${url.origin}${url.pathname} did not answer in full in time.`;
      const failure = limit.aborted
        ? new MirrorError('service.timeout', slow, { hint: 'If it is always slow, raise service.timeout.' })
        : toMirrorError(transportError(error, url));
      return { status: 0, headers: {}, body: Buffer.alloc(0), isWhole: false, ...whenItCame(), failure };
    }
  }

  close(): Promise<void> {
    return this.#connections.close();
  }
}

/** Reads a body up to a limit; only the start of one that is announced to be longer. */
async function readUpTo(answer: WireAnswer, maxBytes: number) {
  const limit = (announcedBytes(answer.headers) ?? 0) > maxBytes ? Math.min(maxBytes, PEEK_BYTES) : maxBytes;
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  try {
    for await (const piece of piecesOf(answer)) {
      // Copy the piece: its memory is reused.
      chunks.push(Buffer.from(piece));
      sizeBytes += piece.length;
      if (sizeBytes > limit) return { body: Buffer.concat(chunks).subarray(0, limit), isWhole: false };
    }
    return { body: Buffer.concat(chunks), isWhole: true };
  } finally {
    answer.body.destroy();
  }
}
