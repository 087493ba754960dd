import { type Answer, errorAnswer } from './answer.ts';
import { chooseRange, matchesTag } from './conditions.ts';
import type { Content, Library } from './library.ts';
import { mediaTypeOf } from '../api/media-types.ts';
import { chooseReading } from './repository-reference.ts';
import type { ContentsReading } from './routes.ts';

/** A request for contents (service specification, section 4.1). */
export interface ContentsRequest {
  readonly readings: readonly ContentsReading[];
  /** Null when the request names none. */
  readonly branch: string | null;
  /** The request's own conditions, in lower case as Node gives them. */
  readonly headers: {
    readonly 'if-none-match'?: string | undefined;
    readonly 'if-range'?: string | undefined;
    readonly range?: string | undefined;
  };
}

/**
 * Answers a request for a repository, a folder or a single file.
 * @throws RequestError 404 for a repository, branch or path that does not exist, 409 for an ambiguous repository
 */
export async function answerContents(library: Library, request: ContentsRequest): Promise<Answer> {
  const { repository, path } = chooseReading(await library.repositories(), request.readings);
  const content = await library.content(repository, request.branch, path);
  if (matchesTag(request.headers['if-none-match'], content.etag)) {
    return { kind: 'bare', status: 304, headers: { etag: content.etag } };
  }
  return content.kind === 'archive' ? archiveAnswer(content) : fileAnswer(content, path, request.headers);
}

function archiveAnswer({ etag, open }: Extract<Content, { kind: 'archive' }>): Answer {
  return { kind: 'stream', status: 200, headers: { 'content-type': 'application/zip', etag }, open };
}

function fileAnswer(
  { etag, sizeBytes, open }: Extract<Content, { kind: 'file' }>,
  path: string,
  { range, 'if-range': ifRange }: ContentsRequest['headers'],
): Answer {
  const headers = { 'content-type': mediaTypeOf(path), 'accept-ranges': 'bytes', etag };
  const choice = chooseRange(range, ifRange, etag, sizeBytes);
  if (choice.kind === 'whole') {
    return { kind: 'stream', status: 200, headers, lengthBytes: sizeBytes, open: (signal) => open(signal) };
  }
  if (choice.kind === 'unsatisfiable') {
    return errorAnswer(416, 'range_not_satisfiable', `the file has ${sizeBytes} bytes`, {
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
