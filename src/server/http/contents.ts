import { mediaTypeOf } from '../../lib/api/media-types.ts';
import { matchesTag, type Reply, type ReplyHeaders } from '../../lib/http/reply.ts';
import { RequestError } from '../../lib/http/request.ts';
import { chooseRange } from './conditions.ts';
import type { Content, Library, Repository } from './library.ts';
import { errorReply, verifiedHeader } from './replies.ts';
import { findContents } from './repository-reference.ts';
import type { ServiceRequest } from './request.ts';

/**
 * Answers a request for a repository, a folder or a single file (service specification, section 4.1).
 * @throws RequestError 404 for a repository, branch or path that does not exist, 409 for an ambiguous repository
 */
export async function answerContents(
  library: Library,
  { method, parts: { tail = '' }, query, headers: asked, signal }: ServiceRequest,
): Promise<Reply> {
  const { repository, path } = await locate(library, tail);
  const content = await library.content(repository, query.get('branch'), path, signal);
  const { etag } = content;
  const headers = { etag, ...verifiedHeader(content.verifiedAtMs) };
  if (matchesTag(asked['if-none-match'], etag)) return { status: 304, headers, body: null };
  const whole = {
    ...headers,
    'content-type': content.kind === 'archive' ? 'application/zip' : mediaTypeOf(path),
    ...(content.sizeBytes === null ? {} : { 'accept-ranges': 'bytes' }),
  };
  // A range has no meaning without a body (RFC 9110, section 14.2).
  const range = method === 'HEAD' ? undefined : asked.range;
  return rangeReply(whole, content, range, asked['if-range']?.toString());
}

/** The whole content or the requested part (RFC 9110, sections 14.2, 15.3.7 and 15.5.17). */
function rangeReply(
  headers: ReplyHeaders,
  { sizeBytes, etag, open }: Content,
  range: string | undefined,
  ifRange: string | undefined,
): Reply {
  if (sizeBytes === null) return { status: 200, headers, body: { open: (signal) => open(signal) } };
  const choice = chooseRange(range, ifRange, etag, sizeBytes);
  if (choice === 'whole')
    return { status: 200, headers, body: { lengthBytes: sizeBytes, open: (signal) => open(signal) } };
  if (choice === 'unsatisfiable') {
    const { 'content-type': _type, ...others } = headers;
    const rangeHeaders = { ...others, 'content-range': `bytes */${sizeBytes}` };
    return errorReply(
      new RequestError(416, 'range_not_satisfiable', `there are ${sizeBytes} bytes`, rangeHeaders),
    );
  }
  const { first, last } = choice;
  return {
    status: 206,
    headers: { ...headers, 'content-range': `bytes ${first}-${last}/${sizeBytes}` },
    body: { lengthBytes: last - first + 1, open: (signal) => open(signal, choice) },
  };
}

/** Reads the list of repositories again only if the requested one is not among the known ones. */
async function locate(
  library: Library,
  tail: string,
): Promise<{ readonly repository: Repository; readonly path: string }> {
  try {
    const known = await library.knownRepositories?.();
    if (known !== undefined) return findContents(known, tail);
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
  }
  return findContents(await library.repositories(), tail);
}
