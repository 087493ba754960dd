import type { IncomingMessage } from 'node:http';

import { hasToken, isForeignFetch } from '../../lib/http/access.ts';
import { packableBody } from '../../lib/http/buffered-body.ts';
import type { Reply } from '../../lib/http/reply.ts';
import { refusal } from './replies.ts';

/** The path at which a program elsewhere asks for a pass. */
export const POLL_PATH = '/api/poll';

/** Who may ask for a pass, and what comes of it. */
export interface PollAccess {
  /** The token in force, asked for with every request; null where nobody may ask. */
  readonly token: () => string | null;
  /** Has a pass made; null while this instance makes none. */
  readonly ask: (() => void) | null;
}

const ACCEPTED = packableBody('application/json; charset=utf-8', JSON.stringify({ accepted: true }));

/**
 * Answers a request for a pass, which begins soon: many requests are one pass. What else the request says, such as the news that a
 * webhook brings, is not read: the pass finds out what changed.
 */
export function replyToPoll(
  { token: tokenInForce, ask }: PollAccess,
  { method, headers }: Pick<IncomingMessage, 'method' | 'headers'>,
): Reply {
  const token = tokenInForce();
  if (token === null) return refusal(404, 'There is nothing here: http.pollToken is not set.');
  if (method !== 'POST') return refusal(405, 'Only POST is answered here.', { allow: 'POST' });
  // Not even a form there may be sent, although a browser takes that for a way here.
  if (isForeignFetch({ ...headers, 'sec-fetch-mode': 'cors' }))
    return refusal(403, 'Pages of other sites are not answered.');
  if (!hasToken(headers.authorization, token)) {
    return refusal(401, 'This needs the token of http.pollToken, as a bearer token or as a password.', {
      'www-authenticate': 'Bearer realm="workbook-mirror"',
    });
  }
  if (ask === null)
    return refusal(503, 'This instance makes no pass now: it stands by.', { 'retry-after': '5' });
  ask();
  return { status: 202, headers: {}, body: ACCEPTED };
}
