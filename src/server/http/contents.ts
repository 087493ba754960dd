import { mediaTypeOf } from '../../lib/api/media-types.ts';
import { matchesTag, type Reply } from '../../lib/http/reply.ts';
import { RequestError } from '../../lib/http/request.ts';
import type { ByteRange, Library, Repository } from './library.ts';
import { type ServiceRequest, verifiedHeader } from './messages.ts';
import { findContents } from './repository-reference.ts';

/**
 * Answers a request for a repository, a folder or a single file (service specification, section 4.1): with all of it, or with the
 * requested part (RFC 9110, sections 14.2, 15.3.7 and 15.5.17).
 * @throws RequestError 404 for a repository, branch or path that does not exist, 409 for an ambiguous repository, 416
 */
export async function answerContents(
  library: Library,
  { method, parts: { tail = '' }, query, headers: asked, signal }: ServiceRequest,
): Promise<Reply> {
  const located = await locate(library, tail);
  const content = await library.content({ ...located, branch: query.get('branch'), signal });
  const { etag, sizeBytes, kind, open } = content;
  const facts = { etag, ...verifiedHeader(content.verifiedAtMs) };
  if (matchesTag(asked['if-none-match'], etag)) return { status: 304, headers: facts, body: null };
  const whole = {
    ...facts,
    'content-type': kind === 'archive' ? 'application/zip' : mediaTypeOf(located.path),
  };
  if (sizeBytes === null) return { status: 200, headers: whole, body: { open } };
  const headers = { ...whole, 'accept-ranges': 'bytes' };
  // A range has no meaning without a body.
  const range = method === 'HEAD' ? undefined : asked.range;
  const choice = chooseRange(range, asked['if-range']?.toString(), etag, sizeBytes);
  if (choice === 'whole') return { status: 200, headers, body: { lengthBytes: sizeBytes, open } };
  if (choice === 'unsatisfiable') {
    const where = { ...facts, 'accept-ranges': 'bytes', 'content-range': `bytes */${sizeBytes}` };
    throw new RequestError(416, 'range_not_satisfiable', `there are ${sizeBytes} bytes`, where);
  }
  const { first, last } = choice;
  return {
    status: 206,
    headers: { ...headers, 'content-range': `bytes ${first}-${last}/${sizeBytes}` },
    body: { lengthBytes: last - first + 1, open: (gone) => open(gone, choice) },
  };
}

/** Reads the list of repositories again only if the requested one is not among those of a moment ago. */
async function locate(
  library: Library,
  tail: string,
): Promise<{ readonly repository: Repository; readonly path: string }> {
  try {
    return findContents(await library.repositories('recent'), tail);
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    return findContents(await library.repositories(), tail);
  }
}

/**
 * Decides which part of a file a request wants; `unsatisfiable` if it lies outside the file. A request for several ranges, and one for a range
 * of a file that has changed since, get the whole file: RFC 9110, sections 14.2 and 13.1.5, allow and ask for that.
 * @param range value of Range, if it was sent
 * @param ifRange value of If-Range, if it was sent; a date never matches, as the content is sent without a time
 */
export function chooseRange(
  range: string | undefined,
  ifRange: string | undefined,
  tag: string,
  sizeBytes: number,
): ByteRange | 'whole' | 'unsatisfiable' {
  if (range === undefined || (ifRange !== undefined && ifRange.trim() !== tag)) return 'whole';
  const [, suffix] = /^bytes=-(\d{1,15})$/i.exec(range.trim()) ?? [];
  const [, first, last = ''] = /^bytes=(\d{1,15})-(\d{0,15})$/i.exec(range.trim()) ?? [];
  const from = suffix === undefined ? Number(first) : Math.max(0, sizeBytes - Number(suffix));
  const to = last === '' ? Infinity : Number(last);
  // Neither form, or the end is before the beginning.
  if (Number.isNaN(from) || to < from) return 'whole';
  return from >= sizeBytes ? 'unsatisfiable' : { first: from, last: Math.min(to, sizeBytes - 1) };
}
