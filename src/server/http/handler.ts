import type { IncomingMessage, ServerResponse } from 'node:http';

import type { Generation } from '../../lib/api/requests.ts';
import { type BufferedBody, type Reply, sendReply } from '../../lib/http/reply.ts';
import { PAGE_HEADERS, type PageFiles } from '../../lib/http/page-files.ts';
import { RequestError, splitTarget } from '../../lib/http/request.ts';
import { authorise, requireKey } from './auth.ts';
import { answerContents } from './contents.ts';
import { answerCreate } from './create.ts';
import { answerGit, basicPassword, GIT_CREDENTIAL, gitRefusal } from './git-http.ts';
import type { Changes } from '../git/library.ts';
import type { Keys } from '../keys/keys.ts';
import type { Library } from './library.ts';
import {
  addressOf,
  BASE_PATH,
  errorReply,
  jsonReply,
  presentRepository,
  type ServiceRequest,
  verifiedHeader,
} from './messages.ts';
import { answerPushEvent } from './push-event.ts';
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

interface Route {
  /** Matches the path of a request as it was sent: nothing is decoded before the key is checked. */
  readonly path: RegExp;
  readonly methods: readonly string[];
  /** The kind of client, which decides about its key; null if the route is public, or its body is signed or holds the key. */
  readonly client: Generation | 'git' | null;
  /** @throws RequestError if the request is refused */
  readonly answer: (sources: Sources, request: ServiceRequest) => Reply | Promise<Reply>;
}

const READ: readonly string[] = ['GET', 'HEAD'];

/** The API (service specification, section 4, and `/repositories` as newer installations answer it), and what lies beside it. */
const ROUTES: readonly Route[] = [
  {
    path: /^\/api\/(?:repos|repositories)\/?$/,
    methods: [...READ, 'POST'],
    client: 'current',
    answer: (sources, request) =>
      request.method === 'POST'
        ? answerCreate(changesOf(sources), request)
        : answerRepositories(sources.library),
  },
  {
    path: /^\/api\/(?:repos|repositories)\/(?<tail>.+\/contents(?:\/.*)?)$/,
    methods: READ,
    client: 'current',
    answer: ({ library }, request) => answerContents(library, request),
  },
  {
    path: /^\/api\/v1\/workbooks\/?$/,
    methods: READ,
    client: 'v1',
    answer: ({ library, pageSize = DEFAULT_PAGE_SIZE }, request) =>
      answerWorkbooks(library, addressOf(request), pageSize),
  },
  {
    // Incoming webhooks: section 6 shows no address.
    path: /^\/api\/webhooks\/push$/,
    methods: ['POST'],
    client: null,
    answer: ({ library, changes = null }, request) => answerPushEvent(library, changes, request),
  },
  {
    // The form with which people upload.
    path: /^\/$/,
    methods: [...READ, 'POST'],
    client: null,
    answer: (sources, request) => {
      const template = Buffer.from(pageFile(sources.page, 'index.html').bytes).toString('utf8');
      if (request.method !== 'POST') return formReply(template);
      return answerUpload(template, sources.library, changesOf(sources), request);
    },
  },
  {
    path: /^\/page\/(?<file>.*)$/,
    methods: READ,
    client: null,
    // The browser asks each time, so that it shows a newer version immediately.
    answer: ({ page }, { parts: { file = '' } }) => ({
      status: 200,
      headers: { ...PAGE_HEADERS, 'cache-control': 'no-cache' },
      body: pageFile(page, file),
    }),
  },
  {
    // Git over HTTP (gitprotocol-http(5)); its addresses may end with `.git`.
    path: /^\/git\/(?<reference>.+?)(?:\.git)?\/(?<asked>info\/refs|git-upload-pack|git-receive-pack)$/,
    methods: [...READ, 'POST'],
    client: 'git',
    answer: (sources, request) => answerGit(sources.library, changesOf(sources), request),
  },
];

/**
 * Finds the route of a path.
 * @param path as it was sent, still encoded
 * @throws RequestError 404 for an unknown path
 */
export function findRoute(path: string): { readonly route: Route; readonly parts: ServiceRequest['parts'] } {
  for (const route of ROUTES) {
    const match = route.path.exec(path);
    if (match !== null) return { route, parts: match.groups ?? {} };
  }
  const base = `the base address of the API is that of this server followed by ${BASE_PATH}`;
  throw new RequestError(404, 'not_found', `there is no path ${path}; ${base}`);
}

/** Answers one request; never rejects. Returns the service's own error, if there was one. */
export async function handle(
  sources: Sources,
  message: IncomingMessage,
  response: ServerResponse,
): Promise<unknown> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  try {
    const reply = await replyTo(sources, message, gone.signal);
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

/** Gives the answer to a request. @throws RequestError if it is refused */
async function replyTo(sources: Sources, message: IncomingMessage, signal: AbortSignal): Promise<Reply> {
  const { method = '', headers, url = '/' } = message;
  const { path, query: sent } = splitTarget(url);
  const { route, parts } = findRoute(path);
  if (!route.methods.includes(method)) {
    const allow = route.methods.join(', ');
    throw new RequestError(405, 'method_not_allowed', `this path takes ${allow} only`, { allow });
  }
  const { client } = route;
  // A replica lacks this path, with or without a key.
  if (client === 'git' && (sources.changes ?? null) === null)
    throw new RequestError(404, 'not_found', 'a replica has no Git');
  try {
    const keys = await sources.keys();
    // Check the key before slower work on the request.
    if (client === 'git') requireKey(GIT_CREDENTIAL, basicPassword(headers.authorization), keys);
    else if (client !== null) authorise(client, headers, keys);
    const query = new URLSearchParams(sent);
    return await route.answer(sources, { method, path, parts, query, headers, body: message, keys, signal });
  } catch (error) {
    if (client === 'git' && error instanceof RequestError) return gitRefusal(error);
    throw error;
  }
}

/** @throws RequestError 403 if the service is read-only */
function changesOf({ changes = null }: Sources): Changes {
  if (changes !== null) return changes;
  throw new RequestError(403, 'read_only', 'this service is a read-only replica');
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
