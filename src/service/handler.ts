import type { IncomingMessage, ServerResponse } from 'node:http';

import { type Answer, errorAnswer, jsonAnswer } from './answer.ts';
import { authorise, type Credentials } from './auth.ts';
import { answerContents } from './contents.ts';
import type { Git } from './git.ts';
import type { WorkbookListing } from './listing.ts';
import type { Registry } from './registry.ts';
import type { Repository } from './registry-index.ts';
import { RequestError } from './request-error.ts';
import { findRoute, generationOf, splitTarget } from './routes.ts';
import { sendAnswer } from './send.ts';
import { answerWorkbooks, type Counters } from './workbooks.ts';

/** What requests are answered from. */
export interface Context {
  readonly git: Git;
  readonly registry: Registry;
  readonly listing: WorkbookListing;
  /** By workbook id; zero for any other workbook. */
  readonly counters: ReadonlyMap<string, Counters>;
  readonly credentials: Credentials;
  /** Rows on a page of v1 when the client does not say. */
  readonly pageSize: number;
}

const NO_COUNTERS: Counters = { processing: 0, failure: 0 };
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD']);

/** Address of the request as the client wrote it, for references to other pages. */
function addressOf(request: IncomingMessage, path: string, query: URLSearchParams): URL {
  const { localAddress = '127.0.0.1', localPort = 80 } = request.socket;
  const own = `${localAddress.includes(':') ? `[${localAddress}]` : localAddress}:${localPort}`;
  const said = `http://${request.headers.host ?? own}`;
  const address = new URL(URL.canParse(said) ? said : `http://${own}`);
  address.pathname = path;
  address.search = query.toString();
  return address;
}

function presentRepository({ id, name, full_name, url, created_at }: Repository): Repository {
  return { id, name, full_name, url, created_at };
}

/** Decides what a request is answered. */
async function answer(context: Context, request: IncomingMessage): Promise<Answer> {
  const { path, query } = splitTarget(request.url ?? '/');
  const route = findRoute(path);
  if (!METHODS.has(request.method ?? '')) {
    const allow = [...METHODS].join(', ');
    return errorAnswer(405, 'method_not_allowed', `this path takes ${allow} only`, { allow });
  }
  authorise(generationOf(route), request.headers, context.credentials);
  switch (route.kind) {
    case 'repositories':
      return jsonAnswer(200, context.registry.list().map(presentRepository));
    case 'contents':
      return answerContents(context.git, context.registry, {
        readings: route.readings,
        branch: query.get('branch'),
        ifNoneMatch: request.headers['if-none-match'],
      });
    case 'workbooks': {
      const countersOf = (id: string): Counters => context.counters.get(id) ?? NO_COUNTERS;
      return answerWorkbooks(context.listing, countersOf, addressOf(request, path, query), context.pageSize);
    }
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
  request: IncomingMessage,
  response: ServerResponse,
): Promise<unknown> {
  const withBody = request.method !== 'HEAD';
  try {
    await sendAnswer(response, await answer(context, request), withBody);
    return undefined;
  } catch (error) {
    if (response.headersSent) response.destroy();
    else await sendAnswer(response, answerError(error), withBody);
    return error instanceof RequestError ? undefined : error;
  }
}
