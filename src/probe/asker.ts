import { retryAfterMs } from '../lib/time/back-off.ts';
import type { Generation } from '../lib/api/requests.ts';
import type { ProbeAnswer, ProbeRequest, ProbeConnection } from './connection.ts';

/** How far a probe may go. */
export interface ProbeLimits {
  /** Most requests in all. */
  readonly maxRequests: number;
  /** Longest pause that is waited for when the service asks for one, in milliseconds. */
  readonly maxPauseMs: number;
  /** Greatest archive or file that is downloaded, in bytes. */
  readonly maxDownloadBytes: number;
}

/** A probe that ends early; what was found until then stands. */
export class ProbeStopped extends Error {
  override readonly name = 'ProbeStopped';
}

/** An answer without its body, and whether it might have come compressed. */
export type AnswerHead = Omit<ProbeAnswer, 'body'> & { readonly isCodingAllowed: boolean };

/** What a question is asked with; what is left out is the usual. */
export type Question = Partial<Omit<ProbeRequest, 'generation' | 'target'>>;

/** A request; what is left out is the usual: GET of the current API with the configured credential, and the start of the body. */
export type ShortRequest = Pick<ProbeRequest, 'target'> & Partial<ProbeRequest>;

/**
 * Sends a request, and sends it again after a pause that the service asks for.
 * @returns an answer with status 0 where none came
 * @throws ProbeStopped when the limits are reached, or the service does not want to be asked any more
 */
export type Ask = (request: ShortRequest) => Promise<ProbeAnswer>;

/** Asks the service, within limits. */
export interface Asker {
  readonly ask: Ask;
  /**
   * Asks the current API, or v1.
   * @returns an answer with status 0 where none came
   * @throws ProbeStopped when the limits are reached, or the service does not want to be asked any more
   */
  readonly current: (target: string, question?: Question) => Promise<ProbeAnswer>;
  readonly v1: (target: string | URL, question?: Question) => Promise<ProbeAnswer>;
  /** How many requests were sent. */
  readonly sent: () => number;
  /** One for each request that was sent. */
  readonly answers: readonly AnswerHead[];
  readonly maxDownloadBytes: number;
}

/** Enough for an error, or for the first bytes of what is not read whole. */
const PEEK_BYTES = 64 * 1024;
const MOST_PAUSES = 3;
const MOST_SILENCES = 4;

/** What follows from an answer for the requests after it. */
export type Reaction =
  | { readonly kind: 'go-on' }
  | { readonly kind: 'pause'; readonly waitMs: number }
  | { readonly kind: 'stop'; readonly why: string };

/**
 * Decides whether to go on after an answer (RFC 9110, section 10.2.3; RFC 6585, section 4).
 * @param isOwn whether it was asked with the configured credential
 * @param pauses how many pauses were made already
 * @param silences how many requests in a row had no answer, this one included
 */
export function reactTo(
  answer: Pick<ProbeAnswer, 'status' | 'headers' | 'atMs'>,
  isOwn: boolean,
  pauses: number,
  silences: number,
  maxPauseMs: number,
): Reaction {
  if (silences >= MOST_SILENCES) return { kind: 'stop', why: `${silences} requests in a row had no answer` };
  if (answer.status === 401 && isOwn)
    return { kind: 'stop', why: 'the service refused the credential (status 401)' };
  if (answer.status !== 429 && answer.status !== 503) return { kind: 'go-on' };
  const waitMs = retryAfterMs(answer.headers['retry-after'], answer.atMs);
  if (waitMs === undefined && answer.status === 503) return { kind: 'go-on' };
  const isShort = waitMs !== undefined && waitMs <= maxPauseMs && pauses < MOST_PAUSES;
  if (isShort) return { kind: 'pause', waitMs };
  return { kind: 'stop', why: `the service asked for fewer requests (status ${answer.status})` };
}

/**
 * Makes an asker.
 * @param pause waits for so many milliseconds
 * @param onRequest told before each request how many there were
 */
export function createAsker(
  sender: ProbeConnection,
  limits: ProbeLimits,
  pause: (delayMs: number) => Promise<void>,
  onRequest: (sent: number) => void,
): Asker {
  const answers: AnswerHead[] = [];
  let sent = 0;
  let pauses = 0;
  let silences = 0;
  const ask = async (
    generation: Generation,
    target: string | URL,
    question: Question,
  ): Promise<ProbeAnswer> => {
    for (;;) {
      if (sent >= limits.maxRequests)
        throw new ProbeStopped(`all ${limits.maxRequests} requests were used up`);
      sent += 1;
      onRequest(sent);
      const request = {
        method: 'GET',
        headers: {},
        credential: 'own',
        maxBytes: PEEK_BYTES,
        ...question,
      } as const;
      const answer = await sender.send({ ...request, generation, target });
      const { body: _, ...seen } = answer;
      answers.push({ ...seen, isCodingAllowed: 'accept-encoding' in request.headers });
      silences = answer.status === 0 ? silences + 1 : 0;
      const reaction = reactTo(answer, request.credential === 'own', pauses, silences, limits.maxPauseMs);
      if (reaction.kind === 'stop') throw new ProbeStopped(reaction.why);
      if (reaction.kind === 'go-on') return answer;
      pauses += 1;
      await pause(reaction.waitMs);
    }
  };
  return {
    ask: ({ generation = 'current', target, ...question }) => ask(generation, target, question),
    current: (target, question = {}) => ask('current', target, question),
    v1: (target, question = {}) => ask('v1', target, question),
    sent: () => sent,
    answers,
    maxDownloadBytes: limits.maxDownloadBytes,
  };
}
