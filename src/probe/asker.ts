import { retryAfterMs } from '../lib/time/back-off.ts';
import type { ProbeAnswer, ProbeConnection, ProbeRequest } from './connection.ts';

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
  /** Asks about a subject, which a person is told. */
  readonly about: (what: string) => Ask;
  /** One for each request that was sent. */
  readonly answers: readonly AnswerHead[];
}

/** Enough for an error, or for the first bytes of what is not read whole. */
const PEEK_BYTES = 64 * 1024;
const MOST_PAUSES = 3;
const MOST_SILENCES = 4;

/**
 * Decides whether to go on after an answer (RFC 9110, section 10.2.3; RFC 6585, section 4).
 * @param isOwn whether it was asked with the configured credential
 * @param pauses how many pauses were made already
 * @param silences how many requests in a row had no answer, this one included
 * @returns how long to wait before the same is asked again, in milliseconds; null where it need not be
 * @throws ProbeStopped
 */
export function pauseAfter(
  { status, headers, atMs }: Pick<ProbeAnswer, 'status' | 'headers' | 'atMs'>,
  isOwn: boolean,
  pauses: number,
  silences: number,
  maxPauseMs: number,
): number | null {
  if (silences >= MOST_SILENCES) throw new ProbeStopped(`${silences} requests in a row had no answer`);
  if (status === 401 && isOwn) throw new ProbeStopped('the service refused the credential (status 401)');
  if (status !== 429 && status !== 503) return null;
  const waitMs = retryAfterMs(headers['retry-after'], atMs);
  if (waitMs === undefined && status === 503) return null;
  if (waitMs !== undefined && waitMs <= maxPauseMs && pauses < MOST_PAUSES) return waitMs;
  throw new ProbeStopped(`the service asked for fewer requests (status ${status})`);
}

/**
 * Makes an asker.
 * @param pause waits for so many milliseconds
 * @param onRequest told before each request what it is about, and how many there are with it
 */
export function createAsker(
  connection: ProbeConnection,
  { maxRequests, maxPauseMs }: ProbeLimits,
  pause: (delayMs: number) => Promise<void>,
  onRequest: (what: string, sent: number) => void,
): Asker {
  const answers: AnswerHead[] = [];
  let pauses = 0;
  let silences = 0;
  const ask = async (what: string, request: ShortRequest): Promise<ProbeAnswer> => {
    const whole = {
      generation: 'current',
      method: 'GET',
      headers: {},
      credential: 'own',
      maxBytes: PEEK_BYTES,
      ...request,
    } as const;
    for (;;) {
      if (answers.length >= maxRequests) throw new ProbeStopped(`all ${maxRequests} requests were used up`);
      onRequest(what, answers.length + 1);
      const answer = await connection.send(whole);
      const { body: _, ...head } = answer;
      answers.push({ ...head, isCodingAllowed: 'accept-encoding' in whole.headers });
      silences = answer.status === 0 ? silences + 1 : 0;
      const waitMs = pauseAfter(answer, whole.credential === 'own', pauses, silences, maxPauseMs);
      if (waitMs === null) return answer;
      pauses += 1;
      await pause(waitMs);
    }
  };
  return { about: (what) => (request) => ask(what, request), answers };
}
