import type { IncomingMessage, ServerResponse } from 'node:http';

import { hasToken, isForeignFetch, isOwnHost } from '../../lib/http/access.ts';
import type { Connections } from '../../lib/http/connections.ts';
import { PAGE_HEADERS } from '../../lib/http/page-files.ts';
import { type Reply, sendReply } from '../../lib/http/reply.ts';
import { splitTarget } from '../../lib/http/target.ts';
import { POLL_PATH, type PollAccess, replyToPoll } from './poll-requests.ts';
import { refusal } from './replies.ts';
import type { Route } from './routes.ts';
import type { EventStreams } from './streams.ts';

/** Everything that requests are answered from. */
export interface Context {
  readonly routes: ReadonlyMap<string, Route>;
  readonly streams: EventStreams;
  readonly polls: PollAccess;
  readonly connections: Connections;
  /** The token in force; null for none. */
  readonly token: () => string | null;
  /** The names under which it is answered without a token, beside addresses and `localhost`. */
  readonly ownNames: () => readonly string[];
  /** Told of a reply that failed, and of the path that was asked for. */
  readonly onFailure: (path: string, error: unknown) => void;
}

/** The path of the event stream. */
const EVENTS_PATH = '/api/events';

/** How long a client may take to read a reply, in milliseconds: what it leaves unread is kept in memory for it. */
const READING_TIMEOUT_MS = 30_000;

/** Answers one request; never rejects. */
export async function handle(
  context: Context,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const [path = ''] = splitTarget(request.url ?? '/').path.split('#', 1);
  try {
    const reply = await replyTo(context, request, response, path);
    if (reply === 'stream') openStream(context.streams, request, response);
    else await send(request, response, reply);
  } catch (error) {
    context.onFailure(path, error);
    if (response.headersSent) response.destroy();
    // The reason names paths of this machine: it goes to the log.
    else await send(request, response, refusal(500, 'This could not be answered; the log says why.'));
  }
}

async function replyTo(
  { routes, streams, polls, connections, token: tokenInForce, ownNames }: Context,
  request: IncomingMessage,
  response: ServerResponse,
  path: string,
): Promise<Reply | 'stream'> {
  if (path === POLL_PATH) return replyToPoll(polls, request);
  const token = tokenInForce();
  const early = refuseEarly(request, token, ownNames);
  if (early !== null) return early;
  const route = path === EVENTS_PATH ? 'stream' : routes.get(path);
  if (route === undefined) return refusal(404, 'There is nothing here.');
  const isTrusted = token === null || hasToken(request.headers.authorization, token);
  const isPublic = route !== 'stream' && route.isPublic;
  if (!isTrusted && !isPublic) {
    return refusal(
      401,
      'This needs the token of http.token, as a bearer token or as the password of any user.',
      { 'www-authenticate': 'Basic realm="workbook-mirror", charset="UTF-8"' },
    );
  }
  if (!isPublic && !connections.keep(request, response))
    return refusal(503, 'Too many requests are being answered.', { 'retry-after': '5' });
  if (route !== 'stream') return route.reply(isTrusted);
  return streams.hasRoom()
    ? 'stream'
    : refusal(503, 'Too many event streams are open.', { 'retry-after': '30' });
}

/** Refuses a request for reasons that do not depend on its path. */
function refuseEarly(
  { method, headers }: IncomingMessage,
  token: string | null,
  ownNames: () => readonly string[],
): Reply | null {
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

async function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: Reply,
): Promise<void> {
  const timer = setTimeout(() => response.destroy(), READING_TIMEOUT_MS).unref();
  response.once('close', () => clearTimeout(timer));
  const all = { ...PAGE_HEADERS, 'cache-control': 'no-store', ...headers };
  await sendReply(request, response, { status, headers: all, body });
}

function openStream(streams: EventStreams, request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, {
    ...PAGE_HEADERS,
    'cache-control': 'no-store',
    'content-type': 'text/event-stream',
    // nginx would keep the messages back until it has a buffer full of them.
    'x-accel-buffering': 'no',
  });
  if (request.method === 'HEAD') response.end();
  else streams.add(response);
}
