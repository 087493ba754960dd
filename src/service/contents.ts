import { type Answer, errorAnswer } from './answer.ts';
import { chooseRange, matchesTag, missesTag } from './conditions.ts';
import type { Content, Library } from './library.ts';
import { mediaTypeOf } from '../api/media-types.ts';
import { chooseReading } from './repository-reference.ts';
import { RequestError } from './request-error.ts';
import type { ContentsReading } from './routes.ts';
import { verifiedHeader } from './verified.ts';

/** A request for contents (service specification, section 4.1). */
export interface ContentsRequest {
  readonly readings: readonly ContentsReading[];
  /** Null when the request names none. */
  readonly branch: string | null;
  /** Aborted when the client is gone. */
  readonly signal?: AbortSignal;
  /** The request's own conditions, in lower case as Node gives them. */
  readonly headers: {
    readonly 'if-match'?: string | undefined;
    readonly 'if-none-match'?: string | undefined;
    readonly 'if-range'?: string | undefined;
    readonly range?: string | undefined;
  };
}

/**
 * Answers a request for a repository, a folder or a single file.
 * What a client has, or wants, decides in the order of RFC 9110, section 13.2.2.
 * @throws RequestError 404 for a repository, branch or path that does not exist, 409 for an ambiguous repository
 */
export async function answerContents(library: Library, request: ContentsRequest): Promise<Answer> {
  const { repository, path } = await findReading(library, request.readings);
  const content = await library.content(repository, request.branch, path, request.signal);
  if (missesTag(request.headers['if-match'], content.etag)) {
    return errorAnswer(412, 'changed', 'what is there now is not what If-Match names', {
      etag: content.etag,
      ...verifiedHeader(content.verifiedAtMs),
    });
  }
  if (matchesTag(request.headers['if-none-match'], content.etag)) {
    return {
      kind: 'bare',
      status: 304,
      headers: { etag: content.etag, ...verifiedHeader(content.verifiedAtMs) },
    };
  }
  return content.kind === 'archive' ? archiveAnswer(content) : fileAnswer(content, path, request.headers);
}

/** Asks anew for the repositories only if the one that is meant is not among those that are known. */
async function findReading(
  library: Library,
  readings: readonly ContentsReading[],
): Promise<ReturnType<typeof chooseReading>> {
  if (library.knownRepositories !== undefined) {
    const known = await library.knownRepositories();
    try {
      return chooseReading(known, readings);
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
    }
  }
  return chooseReading(await repositoriesFor(library), readings);
}

/**
 * The repositories, for whoever asks for contents. Where they cannot be listed now, the error does not say when they can: clients
 * take that for the whole service (RFC 9110, section 15.6.4), which may well give other contents.
 */
async function repositoriesFor(library: Library): ReturnType<Library['repositories']> {
  try {
    return await library.repositories();
  } catch (error) {
    if (error instanceof RequestError && error.status === 503)
      throw new RequestError(503, error.code, error.message);
    throw error;
  }
}

function archiveAnswer({ etag, verifiedAtMs, open }: Extract<Content, { kind: 'archive' }>): Answer {
  const headers = { 'content-type': 'application/zip', etag, ...verifiedHeader(verifiedAtMs) };
  return { kind: 'stream', status: 200, headers, open };
}

function fileAnswer(
  { etag, sizeBytes, verifiedAtMs, open }: Extract<Content, { kind: 'file' }>,
  path: string,
  { range, 'if-range': ifRange }: ContentsRequest['headers'],
): Answer {
  const verified = verifiedHeader(verifiedAtMs);
  const headers = { 'content-type': mediaTypeOf(path), 'accept-ranges': 'bytes', etag, ...verified };
  const choice = chooseRange(range, ifRange, etag, sizeBytes);
  if (choice.kind === 'whole') {
    return { kind: 'stream', status: 200, headers, lengthBytes: sizeBytes, open: (signal) => open(signal) };
  }
  if (choice.kind === 'unsatisfiable') {
    return errorAnswer(416, 'range_not_satisfiable', `the file has ${sizeBytes} bytes`, {
      'accept-ranges': 'bytes',
      etag,
      ...verified,
      'content-range': `bytes */${sizeBytes}`,
    });
  }
  const { first, last } = choice.range;
  return {
    kind: 'stream',
    status: 206,
    headers: { ...headers, 'content-range': `bytes ${first}-${last}/${sizeBytes}` },
    lengthBytes: last - first + 1,
    open: (signal) => open(signal, choice.range),
  };
}
