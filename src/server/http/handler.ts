import type { IncomingMessage, ServerResponse } from 'node:http';

import { type BufferedBody, type Reply, sendReply } from '../../lib/http/reply.ts';
import { PAGE_HEADERS, type PageFiles } from '../../lib/http/page-files.ts';
import { RequestError } from '../../lib/http/request.ts';
import { authorise } from './auth.ts';
import { answerContents } from './contents.ts';
import { answerCreate } from './create.ts';
import { answerGit, authoriseGit, gitRefusal } from './git-http.ts';
import type { Changes } from '../git/library.ts';
import type { Keys, KnownKey } from '../keys/keys.ts';
import type { Library } from './library.ts';
import { answerPushEvent } from './push-event.ts';
import { errorReply, jsonReply, presentRepository, verifiedHeader } from './replies.ts';
import { addressOf, type ServiceRequest, serviceRequest } from './request.ts';
import { findRoute, type Route } from './routes.ts';
import { answerUpload, formReply } from '../uploads/answer.ts';
import { answerWorkbooks } from './workbooks.ts';

/** The data and settings of a service. */
export interface Sources {
  readonly library: Library;
  /** Null or omitted for a read-only service. */
  readonly changes?: Changes | null;
  readonly keys: Keys;
  /** The page for uploads; none if omitted. */
  readonly page?: PageFiles;
  /** Rows on a page of v1 unless the client says; 100 if omitted. */
  readonly pageSize?: number;
}

const DEFAULT_PAGE_SIZE = 100;

/** The methods and the credential of a route. */
interface Rule {
  readonly methods: readonly string[];
  /** Finds the key of a request; null if the route is public or its body is signed. */
  readonly authorise: ((headers: ServiceRequest['headers'], keys: readonly KnownKey[]) => KnownKey) | null;
}

const authoriseCurrent: Rule['authorise'] = (headers, keys) => authorise('current', headers, keys);
const READ: readonly string[] = ['GET', 'HEAD'];

const RULES: Readonly<Record<Route['kind'], Rule>> = {
  repositories: { methods: [...READ, 'POST'], authorise: authoriseCurrent },
  contents: { methods: READ, authorise: authoriseCurrent },
  workbooks: { methods: READ, authorise: (headers, keys) => authorise('v1', headers, keys) },
  'push-event': { methods: ['POST'], authorise: null },
  // The key is in the form.
  form: { methods: [...READ, 'POST'], authorise: null },
  page: { methods: READ, authorise: null },
  git: {
    methods: [...READ, 'POST'],
    authorise: ({ authorization }, keys) => authoriseGit(authorization, keys),
  },
};

/** Answers one request; never rejects. Returns the service's own error, if there was one. */
export async function handle(
  context: Sources,
  message: IncomingMessage,
  response: ServerResponse,
): Promise<unknown> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  try {
    const reply = await replyTo(context, serviceRequest(message), gone.signal);
    await sendReply(message, response, reply);
    return undefined;
  } catch (error) {
    // The client has disconnected, and nothing has gone wrong.
    if (gone.signal.aborted && error === gone.signal.reason) return undefined;
    const isRefusal = error instanceof RequestError;
    if (response.headersSent) response.destroy();
    else await sendReply(message, response, errorReply(isRefusal ? error : OWN_FAILURE));
    return isRefusal ? undefined : error;
  }
}

/** The reason contains paths of this machine: it goes to the log, not to the client. */
const OWN_FAILURE = new RequestError(
  500,
  'internal',
  'the service could not read the requested content; its log says why',
);

/**
 * Gives the answer to a request.
 * @param signal aborted when the client is gone
 * @throws RequestError if it is refused
 */
async function replyTo(context: Sources, request: ServiceRequest, signal: AbortSignal): Promise<Reply> {
  const route = findRoute(request.path);
  const { methods, authorise } = RULES[route.kind];
  if (!methods.includes(request.method)) {
    const allow = methods.join(', ');
    throw new RequestError(405, 'method_not_allowed', `this path takes ${allow} only`, { allow });
  }
  // A replica lacks these paths, with or without a key.
  if (route.kind === 'git') madeHere(context);
  try {
    const keys = await context.keys();
    // Check the key before slower work on the request.
    authorise?.(request.headers, keys);
    return await replyAt(context, route, request, keys, signal);
  } catch (error) {
    if (route.kind === 'git' && error instanceof RequestError) return gitRefusal(error);
    throw error;
  }
}

async function replyAt(
  context: Sources,
  route: Route,
  request: ServiceRequest,
  keys: readonly KnownKey[],
  signal: AbortSignal,
): Promise<Reply> {
  const { library, changes = null, pageSize = DEFAULT_PAGE_SIZE } = context;
  switch (route.kind) {
    case 'repositories':
      if (request.method === 'POST') return answerCreate(changesOf(context), request);
      return answerRepositories(library);
    case 'contents':
      return answerContents(library, route.tail, request, signal);
    case 'workbooks':
      return answerWorkbooks(library, addressOf(request), pageSize);
    case 'push-event':
      return answerPushEvent(library, changes, keys, request);
    case 'form': {
      const template = Buffer.from(pageFile(context.page, 'index.html').bytes).toString('utf8');
      if (request.method !== 'POST') return formReply(template);
      return answerUpload(template, library, madeHere(context), keys, request);
    }
    case 'page':
      return pageReply(context.page, route.name);
    case 'git':
      return answerGit(library, madeHere(context), route, request, signal);
  }
}

/** @throws RequestError 403 if the service is read-only */
function changesOf({ changes = null }: Sources): Changes {
  if (changes !== null) return changes;
  throw new RequestError(403, 'read_only', 'this service is a read-only replica');
}

/** @throws RequestError 404 for paths that exist only to make changes */
function madeHere({ changes = null }: Sources): Changes {
  if (changes !== null) return changes;
  throw new RequestError(404, 'not_found', 'a replica has neither Git nor the form for uploads');
}

async function answerRepositories(library: Library): Promise<Reply> {
  const repositories = await library.repositories();
  const headers = verifiedHeader(await library.verifiedAtMs?.());
  return jsonReply(200, repositories.map(presentRepository), headers);
}

/** @throws RequestError 404 for a file that is not part of the page */
function pageFile(page: PageFiles | undefined, name: string): BufferedBody {
  const file = page?.get(name);
  if (file !== undefined) return file;
  throw new RequestError(404, 'not_found', 'there is no page here: the API is below /api');
}

function pageReply(page: PageFiles | undefined, name: string): Reply {
  // The browser asks each time, so that it shows a newer version immediately.
  return {
    status: 200,
    headers: { ...PAGE_HEADERS, 'cache-control': 'no-cache' },
    body: pageFile(page, name),
  };
}
