import type { IncomingMessage, ServerResponse } from 'node:http';

import type { Connections } from '../../lib/http/connections.ts';
import type { Liveness } from '../status/readiness.ts';
import type { DaemonReport } from '../status/report.ts';
import { hasToken, isForeignFetch, isOwnHost } from '../../lib/http/access.ts';
import { textBody } from './body.ts';
import type { FailureNotes } from './failure-notes.ts';
import { healthAnswer } from './health.ts';
import type { Route } from './routes.ts';
import { type Answer, COMMON_HEADERS, sendAnswer } from './send.ts';
import { waitAtMost } from '../../lib/concurrency/shared-work.ts';
import type { EventStreams } from './streams.ts';

/** What requests are answered from. */
export interface Context {
  readonly routes: ReadonlyMap<string, Route>;
  readonly report: () => Promise<DaemonReport>;
  readonly liveness: () => Liveness;
  readonly streams: EventStreams;
  readonly connections: Connections;
  /** The token in force; null for none. */
  readonly token: () => string | null;
  /** The names under which it is answered without a token, beside addresses and `localhost`. */
  readonly ownNames: () => readonly string[];
  readonly failures: FailureNotes;
}

/** A report that takes longer, in milliseconds, is not waited for. */
const LONGEST_WAIT_MS = 10_000;

/** Answers one request; never rejects. */
export async function handle(
  context: Context,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const path = pathOf(request.url ?? '/');
  try {
    const answer = await answerTo(context, request, response, path);
    if (answer === 'stream') openStream(context.streams, request, response);
    else await sendAnswer(request, response, answer);
  } catch (error) {
    context.failures.note(path, error);
    if (response.headersSent) response.destroy();
    // The reason names paths of this machine: it goes to the log.
    else await sendAnswer(request, response, refusal(500, 'This could not be answered; the log says why.'));
  }
}

/** The path alone, also of a request that a proxy wrote with the whole address (RFC 9112, 3.2.2). */
function pathOf(url: string): string {
  const [path = ''] = url.replace(/^https?:\/\/[^/?#]*/i, '').split(/[?#]/, 1);
  return path === '' ? '/' : path;
}

async function answerTo(
  context: Context,
  request: IncomingMessage,
  response: ServerResponse,
  path: string,
): Promise<Answer | 'stream'> {
  const token = context.token();
  const early = refuseEarly(context, request, token);
  if (early !== null) return early;
  const route = context.routes.get(path);
  if (route === undefined) return refusal(404, 'There is nothing here.');
  const isTrusted = token === null || hasToken(request.headers.authorization, token);
  const isPublic = route.kind === 'liveness' || (route.kind === 'report' && route.isPublic);
  if (!isTrusted && !isPublic) {
    return refusal(
      401,
      'This needs the token of http.token, as a bearer token or as the password of any user.',
      {
        'www-authenticate': 'Basic realm="workbook-mirror", charset="UTF-8"',
      },
    );
  }
  // What is asked for health is short, and comes through whatever else goes on.
  if (!isPublic && !context.connections.keep(request, response)) {
    return refusal(503, 'Too many requests are being answered.', { 'retry-after': '5' });
  }
  return answerRoute(context, route, isTrusted);
}

async function answerRoute(context: Context, route: Route, isTrusted: boolean): Promise<Answer | 'stream'> {
  switch (route.kind) {
    case 'fixed':
      return { status: 200, headers: { 'cache-control': 'no-cache' }, body: route.body };
    case 'liveness':
      return healthAnswer(context.liveness());
    case 'events':
      if (context.streams.hasRoom()) return 'stream';
      return refusal(503, 'Too many event streams are open.', { 'retry-after': '30' });
    case 'report': {
      const report = await waitAtMost(context.report(), LONGEST_WAIT_MS);
      if (report === null)
        return refusal(503, 'The state of the mirror cannot be told in time: its disk may hang.');
      const answer = await route.answer(report, isTrusted);
      context.failures.clear();
      return answer;
    }
  }
}

/** Refuses what is to be refused whatever was asked for. */
function refuseEarly(
  { ownNames }: Context,
  { method, headers }: IncomingMessage,
  token: string | null,
): Answer | null {
  if (method !== 'GET' && method !== 'HEAD') {
    // What else the client sends with it is not read.
    return refusal(405, 'Only GET and HEAD are answered.', { allow: 'GET, HEAD', connection: 'close' });
  }
  if (token === null && !isOwnHost(headers.host, ownNames())) {
    return refusal(
      421,
      'Without http.token, this is only answered under an IP address, the name localhost, the host of http.listen and the names ' +
        'of http.allowedHosts, so that no web site can read it under a name of its own. Add the name to http.allowedHosts, have a ' +
        'proxy send another Host header, or set http.token.',
    );
  }
  if (isForeignFetch(headers)) return refusal(403, 'Pages of other sites are not answered.');
  return null;
}

function refusal(status: number, line: string, headers: Readonly<Record<string, string>> = {}): Answer {
  return { status, headers, body: textBody(line) };
}

function openStream(streams: EventStreams, request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, {
    ...COMMON_HEADERS,
    'cache-control': 'no-store',
    'content-type': 'text/event-stream',
    // nginx would keep the messages back until it has a buffer full of them.
    'x-accel-buffering': 'no',
  });
  if (request.method === 'HEAD') response.end();
  else streams.add(response);
}
