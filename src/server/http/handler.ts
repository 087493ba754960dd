import type { IncomingMessage, ServerResponse } from 'node:http';

import type { Connections } from '../../lib/http/connections.ts';
import { splitTarget } from '../../lib/http/target.ts';
import { type Answer, errorAnswer, jsonAnswer } from './answer.ts';
import type { ArchiveLengths } from './archive-lengths.ts';
import { authorise } from './auth.ts';
import { answerContents } from './contents-routes.ts';
import { answerCreate } from './create.ts';
import { answerGit, authoriseGit, gitRefusal } from './git-http.ts';
import type { Keys, KnownKey } from './keys.ts';
import type { Changes, Library } from './library.ts';
import { answerPage, type PageFiles } from './page.ts';
import { answerPushEvent } from './push-event.ts';
import { presentRepository } from './repositories.ts';
import { RequestError } from '../../lib/http/request-error.ts';
import { decodeSegments, findRoute, readContents, type Route } from './routes.ts';
import { sendAnswer } from './send.ts';
import { answerUploads } from './uploads.ts';
import { verifiedHeader } from './verified.ts';
import { answerWorkbooks } from './workbooks.ts';

/** What requests are answered from. */
export interface Context {
  readonly library: Library;
  readonly lengths: ArchiveLengths;
  /** Null for a service that takes no changes. */
  readonly changes: Changes | null;
  readonly keys: Keys;
  /** The page on which people upload; null without one. */
  readonly page: PageFiles | null;
  /** Rows on a page of v1 when the client does not say. */
  readonly pageSize: number;
  readonly connections: Connections;
}

/** A request as those who answer it see it. */
export interface ServiceRequest {
  readonly method: string;
  /** Path as it was sent, still encoded. */
  readonly path: string;
  /** Read when it is asked for, which is not before the key is known. */
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  /** The request's own body; whoever reads it limits it. */
  readonly body: IncomingMessage;
}

const READING: readonly string[] = ['GET', 'HEAD'];
const METHODS: Readonly<Record<Route['kind'], readonly string[]>> = {
  repositories: [...READING, 'POST'],
  contents: READING,
  workbooks: READING,
  'push-event': ['POST'],
  page: READING,
  uploads: [...READING, 'POST'],
  git: [...READING, 'POST'],
};

/** Address of the request as the client wrote it, for references to other pages. */
function addressOf({ body, headers, path, query }: ServiceRequest): URL {
  const { localAddress = '127.0.0.1', localPort = 80 } = body.socket;
  const own = `${localAddress.includes(':') ? `[${localAddress}]` : localAddress}:${localPort}`;
  const said = `http://${headers.host ?? own}`;
  const address = new URL(URL.canParse(said) ? said : `http://${own}`);
  address.pathname = path;
  address.search = query.toString();
  return address;
}

/** @throws RequestError 403 where nothing can be changed */
function changesOf({ changes }: Context): Changes {
  if (changes !== null) return changes;
  throw new RequestError(
    403,
    'read_only',
    'this service is a replica: it is read from, and takes no changes',
  );
}

/** @throws RequestError 404 where what is asked for is only there to change something */
function madeHere({ changes }: Context): Changes {
  if (changes !== null) return changes;
  throw new RequestError(404, 'not_found', 'a replica has neither Git nor the page for uploads');
}

async function answerRepositories(library: Library): Promise<Answer> {
  const repositories = await library.repositories();
  const headers = verifiedHeader(await library.verifiedAtMs?.());
  return jsonAnswer(200, repositories.map(presentRepository), headers);
}

/** The key that a request needs; null where what it asks for is open, or shows by its body who asks. */
const AUTHORISED_BY: Readonly<
  Record<Route['kind'], ((headers: ServiceRequest['headers'], keys: readonly KnownKey[]) => KnownKey) | null>
> = {
  repositories: (headers, keys) => authorise('current', headers, keys),
  contents: (headers, keys) => authorise('current', headers, keys),
  uploads: (headers, keys) => authorise('current', headers, keys),
  workbooks: (headers, keys) => authorise('v1', headers, keys),
  git: ({ authorization }, keys) => authoriseGit(authorization, keys),
  'push-event': null,
  page: null,
};

/**
 * Decides what a request is answered.
 * @param keep keeps its connection until it is answered, if it can
 * @param signal aborted when the client is gone
 */
async function answer(
  context: Context,
  request: ServiceRequest,
  keep: () => boolean,
  signal: AbortSignal,
): Promise<Answer> {
  const route = findRoute(request.path);
  const methods = METHODS[route.kind];
  if (!methods.includes(request.method)) {
    const allow = methods.join(', ');
    return errorAnswer(405, 'method_not_allowed', `this path takes ${allow} only`, { allow });
  }
  // A replica has no such paths, whoever asks.
  if (route.kind === 'uploads' || route.kind === 'git') madeHere(context);
  try {
    const keys = await context.keys();
    // Before anything of the request is read that takes time.
    const key = AUTHORISED_BY[route.kind]?.(request.headers, keys) ?? null;
    if (key !== null && !keep()) {
      throw new RequestError(503, 'busy', 'too many requests are being answered: ask again', {
        'retry-after': '5',
      });
    }
    return await answerRoute(context, route, request, { keys, key, signal });
  } catch (error) {
    if (route.kind === 'git' && error instanceof RequestError) return gitRefusal(error);
    throw error;
  }
}

interface Asker {
  readonly keys: readonly KnownKey[];
  /** The key of the request; null where it needs none. */
  readonly key: KnownKey | null;
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal;
}

async function answerRoute(
  context: Context,
  route: Route,
  request: ServiceRequest,
  { keys, key, signal }: Asker,
): Promise<Answer> {
  switch (route.kind) {
    case 'repositories':
      if (request.method === 'POST') return answerCreate(changesOf(context), request);
      return answerRepositories(context.library);
    case 'contents':
      return answerContents(context.library, context.lengths, {
        readings: readContents(route.tail),
        branch: request.query.get('branch'),
        signal,
        // A range has no meaning without a body (RFC 9110, section 14.2).
        headers: request.method === 'HEAD' ? { ...request.headers, range: undefined } : request.headers,
      });
    case 'workbooks':
      return answerWorkbooks(context.library, addressOf(request), context.pageSize);
    case 'push-event':
      return answerPushEvent(context.library, context.changes, keys, request);
    case 'page':
      return answerPage(context.page, route.name, request.headers);
    case 'uploads':
      return answerUploads(
        context.library,
        madeHere(context),
        key?.name ?? '',
        decodeSegments(route.tail),
        request,
      );
    case 'git':
      return answerGit(context.library, madeHere(context), route, request);
  }
}

function answerError(error: unknown): Answer {
  if (error instanceof RequestError) {
    return errorAnswer(error.status, error.code, error.message, error.headers);
  }
  // The reason names paths of this machine: it goes to the log, not to the client.
  return errorAnswer(500, 'internal', 'the service could not read what was asked for; its log says why');
}

/** Answers one request; never rejects. Gives the service's own error, if there was one. */
export async function handle(
  context: Context,
  message: IncomingMessage,
  response: ServerResponse,
): Promise<unknown> {
  const method = message.method ?? '';
  const withBody = method !== 'HEAD';
  const { path, query } = splitTarget(message.url ?? '/');
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  const keep = (): boolean => context.connections.keep(message, response);
  try {
    const { headers } = message;
    const request = {
      method,
      path,
      get query() {
        return new URLSearchParams(query);
      },
      headers,
      body: message,
    };
    await sendAnswer(response, await answer(context, request, keep, gone.signal), withBody);
    return undefined;
  } catch (error) {
    // Nobody is there to be answered, and nothing has gone wrong.
    if (gone.signal.aborted && error === gone.signal.reason) return undefined;
    if (response.headersSent) response.destroy();
    else await sendAnswer(response, answerError(error), withBody);
    return error instanceof RequestError ? undefined : error;
  }
}
