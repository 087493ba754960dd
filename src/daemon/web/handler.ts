import type { IncomingMessage, ServerResponse } from 'node:http';

import type { Settings } from '../../config/schema.ts';
import { hasToken, isForeignFetch, isOwnHost } from '../../lib/http/access.ts';
import { PAGE_HEADERS } from '../../lib/http/page-files.ts';
import { packableBody, type Reply, sendReply } from '../../lib/http/reply.ts';
import { splitTarget } from '../../lib/http/request.ts';
import { refusal, type Routes } from './routes.ts';
import type { EventStreams } from './streams.ts';

/** Everything needed to answer requests. */
export interface Context {
  /** The settings in force: accepted tokens and hosts. */
  readonly http: () => Pick<Settings['http'], 'token' | 'pollToken' | 'allowedHosts'>;
  /** The host of `http.listen`, which is accepted without a token. */
  readonly ownHost: () => string;
  readonly routes: Routes;
  readonly streams: EventStreams;
  /** Requests a pass; null while this instance makes none. */
  readonly askForPass: (() => void) | null;
  /** Called with the error and the path of a failed reply; no path means a failed connection. */
  readonly onFailure: (path: string | null, error: unknown) => void;
}

/** The paths of the event stream and of requests for a pass. */
const EVENTS_PATH = '/api/events';
const POLL_PATH = '/api/poll';

/** How long a client may take to read a reply, in milliseconds: unread data stays in memory. */
const READING_TIMEOUT_MS = 30_000;

const ACCEPTED = packableBody('application/json; charset=utf-8', JSON.stringify({ accepted: true }));

/** The headers of all replies; some have their own `cache-control`. */
const HEADERS = { ...PAGE_HEADERS, 'cache-control': 'no-store' };

/** Answers one request; never rejects. */
export async function handle(
  context: Context,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const [path = ''] = splitTarget(request.url ?? '/').path.split('#', 1);
  try {
    const reply = path === POLL_PATH ? replyToPoll(context, request) : await replyTo(context, request, path);
    if (reply === 'stream') openStream(context.streams, request, response);
    else await send(request, response, reply);
  } catch (error) {
    context.onFailure(path, error);
    if (response.headersSent) response.destroy();
    // The reason contains paths of this machine: it goes to the log.
    else await send(request, response, refusal(500, 'This could not be answered; the log says why.'));
  }
}

/**
 * Answers a request for a pass, which begins soon: many requests cause one pass. The request's body, such as the event of a
 * webhook, is ignored: the pass finds the changes.
 */
function replyToPoll({ http, askForPass }: Context, { method, headers }: IncomingMessage): Reply {
  const token = http().pollToken?.reveal();
  if (token === undefined) return refusal(404, 'There is nothing here: http.pollToken is not set.');
  if (method !== 'POST') return refusal(405, 'Only POST is answered here.', { allow: 'POST' });
  // Other sites must not even send a form, which browsers would allow.
  if (isForeignFetch({ ...headers, 'sec-fetch-mode': 'cors' }))
    return refusal(403, 'Requests from pages of other sites are refused.');
  if (!hasToken(headers.authorization, token)) {
    return refusal(401, 'This needs the token of http.pollToken, as a bearer token or as a password.', {
      'www-authenticate': 'Bearer realm="workbook-mirror"',
    });
  }
  if (askForPass === null)
    return refusal(503, 'This instance makes no pass now: it is on standby.', { 'retry-after': '5' });
  askForPass();
  return { status: 202, headers: {}, body: ACCEPTED };
}

async function replyTo(
  { http, ownHost, routes, streams }: Context,
  { method, headers }: IncomingMessage,
  path: string,
): Promise<Reply | 'stream'> {
  const token = http().token?.reveal();
  if (method !== 'GET' && method !== 'HEAD') {
    // The rest of the request is not read.
    return refusal(405, 'Only GET and HEAD are answered.', { allow: 'GET, HEAD', connection: 'close' });
  }
  if (token === undefined && !isOwnHost(headers.host, [ownHost(), ...http().allowedHosts])) {
    return refusal(
      421,
      'Without http.token, this is only answered under an IP address, the name localhost, the host of http.listen and the names ' +
        'of http.allowedHosts, so that no web site can read it under a name of its own. Add the name to http.allowedHosts, have a ' +
        'proxy send another Host header, or set http.token.',
    );
  }
  if (isForeignFetch(headers)) return refusal(403, 'Pages of other sites are not answered.');
  const route = path === EVENTS_PATH ? null : routes.get(path);
  if (route === undefined) return refusal(404, 'There is nothing here.');
  const isTrusted = token === undefined || hasToken(headers.authorization, token);
  if (!isTrusted && route?.isPublic !== true) {
    return refusal(
      401,
      'This needs the token of http.token, as a bearer token or as the password of any user.',
      { 'www-authenticate': 'Basic realm="workbook-mirror", charset="UTF-8"' },
    );
  }
  if (route !== null) return route.reply(isTrusted);
  if (streams.isFull()) return refusal(503, 'Too many event streams are open.', { 'retry-after': '30' });
  return 'stream';
}

async function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: Reply,
): Promise<void> {
  const timer = setTimeout(() => response.destroy(), READING_TIMEOUT_MS).unref();
  response.once('close', () => clearTimeout(timer));
  await sendReply(request, response, { status, headers: { ...HEADERS, ...headers }, body });
}

function openStream(streams: EventStreams, request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, {
    ...HEADERS,
    'content-type': 'text/event-stream',
    // nginx would delay the messages until its buffer is full.
    'x-accel-buffering': 'no',
  });
  if (request.method === 'HEAD') response.end();
  else streams.add(response);
}
