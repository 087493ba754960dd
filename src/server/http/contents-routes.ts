import { type Answer, errorAnswer } from './answer.ts';
import type { Archive, ArchiveLengths } from './archive-lengths.ts';
import { partOf } from './byte-ranges.ts';
import { matchesTag } from '../../lib/http/reply.ts';
import { chooseRange, missesTag } from './conditions.ts';
import type { ByteRange, Bytes, Content, Library } from './library.ts';
import { mediaTypeOf } from '../../lib/api/media-types.ts';
import { chooseReading } from './repository-reference.ts';
import { RequestError } from '../../lib/http/request-error.ts';
import type { ContentsReading } from './routes.ts';
import { verifiedHeader } from './verified.ts';

/** A request for contents (service specification, section 4.1). */
export interface ContentsRequest {
  /** Can be gone through more than once. */
  readonly readings: Iterable<ContentsReading>;
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
export async function answerContents(
  library: Library,
  lengths: ArchiveLengths,
  request: ContentsRequest,
): Promise<Answer> {
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
  return content.kind === 'archive'
    ? archiveAnswer(content, lengths, request)
    : fileAnswer(content, path, request.headers);
}

/** Asks anew for the repositories only if the one that is meant is not among those that are known. */
async function findReading(
  library: Library,
  readings: Iterable<ContentsReading>,
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

/** An archive, or the part of it that is asked for: the same archive is made anew, and what comes before is left out. */
async function archiveAnswer(
  archive: Archive,
  lengths: ArchiveLengths,
  { headers: { range, 'if-range': ifRange }, signal }: ContentsRequest,
): Promise<Answer> {
  const { etag, verifiedAtMs } = archive;
  const whole = { ...headersOf('application/zip', etag, verifiedAtMs) };
  const open = (signal: AbortSignal): Bytes => lengths.watched(archive, signal);
  // Nothing can be said of a part without the length, which it costs something to find out.
  const isPartWanted = chooseRange(range, ifRange, etag, Infinity).kind !== 'whole';
  const sizeBytes = isPartWanted ? await lengths.find(archive, signal) : null;
  if (sizeBytes === null) return { kind: 'stream', status: 200, headers: whole, open };
  return rangeAnswer(
    whole,
    { range, ifRange, etag, sizeBytes },
    {
      whole: open,
      part: (signal, part) => partOf(archive.open(signal), part),
    },
  );
}

function fileAnswer(
  { etag, sizeBytes, verifiedAtMs, open }: Extract<Content, { kind: 'file' }>,
  path: string,
  { range, 'if-range': ifRange }: ContentsRequest['headers'],
): Answer {
  const headers = headersOf(mediaTypeOf(path), etag, verifiedAtMs);
  return rangeAnswer(
    headers,
    { range, ifRange, etag, sizeBytes },
    {
      whole: (signal) => open(signal),
      part: open,
      lengthBytes: sizeBytes,
    },
  );
}

function headersOf(
  contentType: string,
  etag: string,
  verifiedAtMs: number | undefined,
): Readonly<Record<string, string>> {
  return {
    'content-type': contentType,
    'accept-ranges': 'bytes',
    etag,
    ...verifiedHeader(verifiedAtMs),
  };
}

/** Answers with the whole or the part that is asked for (RFC 9110, sections 14.2, 15.3.7 and 15.5.17). */
function rangeAnswer(
  headers: Readonly<Record<string, string>>,
  asked: {
    readonly range: string | undefined;
    readonly ifRange: string | undefined;
    readonly etag: string;
    readonly sizeBytes: number;
  },
  open: {
    readonly whole: (signal: AbortSignal) => Bytes;
    readonly part: (signal: AbortSignal, range: ByteRange) => Bytes;
    /** Length of the whole where it is told. */
    readonly lengthBytes?: number;
  },
): Answer {
  const { sizeBytes } = asked;
  const choice = chooseRange(asked.range, asked.ifRange, asked.etag, sizeBytes);
  if (choice.kind === 'whole') {
    const length = open.lengthBytes === undefined ? {} : { lengthBytes: open.lengthBytes };
    return { kind: 'stream', status: 200, headers, ...length, open: open.whole };
  }
  if (choice.kind === 'unsatisfiable') {
    const { 'content-type': _type, ...others } = headers;
    return errorAnswer(416, 'range_not_satisfiable', `there are ${sizeBytes} bytes`, {
      ...others,
      'content-range': `bytes */${sizeBytes}`,
    });
  }
  const { range } = choice;
  return {
    kind: 'stream',
    status: 206,
    headers: { ...headers, 'content-range': `bytes ${range.first}-${range.last}/${sizeBytes}` },
    lengthBytes: range.last - range.first + 1,
    open: (signal) => open.part(signal, range),
  };
}
