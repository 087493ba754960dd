import { pageSchema } from '../../lib/api/schemas.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { digestOfBytes, parseJson, readWhole, wrongKind } from './answers.ts';
import { type Cached, strongTag } from './headers.ts';
import { credentialRefused, statusError } from './failures.ts';
import { nextPageUrl } from './page-addresses.ts';
import type { Answer, AnswerLimits, Transport } from './transport.ts';
import { readWorkbookRows, type WorkbookRows } from './workbook-rows.ts';

/** A page of the list of workbooks. */
export interface Page extends WorkbookRows {
  /** The address that it came from. */
  readonly url: URL;
  readonly count: number;
  readonly next: URL | null;
  /** SHA-256 of its bytes. */
  readonly digest: string;
  /** Strong entity tag, for conditional requests (RFC 9110, section 13.1.2); null where the service gives none. */
  readonly etag: string | null;
  /** Null where no cache gave it. */
  readonly cached: Cached | null;
}

/** A page to be asked for. */
export interface PageRequest {
  /** Its address, or its path below the base address. */
  readonly target: string | URL;
  /** The page that this address gave the last time; undefined where that is not known. */
  readonly known: Page | undefined;
  /** Addresses of the pages before it. */
  readonly visited: ReadonlySet<string>;
}

/**
 * Reads a page of the list of workbooks. One with the same bytes as the last time is not parsed again: it has the very rows of that
 * time.
 * @returns null where the service has no page there
 * @throws MirrorError `service.*`, `listing.malformed`, `credentials.refused`
 */
export async function readPage(
  transport: Transport,
  signal: AbortSignal,
  asked: PageRequest,
): Promise<Page | null> {
  const { target, known } = asked;
  const tag = known?.etag ?? null;
  const headers = tag === null ? {} : { 'if-none-match': tag };
  const request = { generation: 'v1', target, signal, headers } as const;
  const page = await transport.send(request, (answer) => takePage(answer, transport.limits, asked));
  return page === 'of-another-place' ? readPage(transport, signal, { ...asked, known: undefined }) : page;
}

/**
 * Takes the answer. What `next` refers to depends on where a page comes from, and a redirect may lead elsewhere than it did the last
 * time: then what is known of the page does not count, and a 304 says nothing (`of-another-place`).
 */
async function takePage(
  answer: Answer,
  limits: AnswerLimits,
  { known, visited }: PageRequest,
): Promise<Page | null | 'of-another-place'> {
  const { status, url, cached } = answer;
  if (visited.has(url.href)) throw circular(url);
  const before = known?.url.href === url.href ? known : undefined;
  if (status === 404) return null;
  if (status === 304 && typeof known?.etag === 'string')
    return before === undefined ? 'of-another-place' : { ...before, cached };
  if (status === 403) throw credentialRefused('v1', 403, url, answer.keyPair);
  if (status !== 200) throw statusError(status, url, undefined);
  const etag = strongTag(answer.headers['etag']);
  return readWhole(answer, limits, (pieces) => {
    const digest = digestOfBytes(pieces);
    const contents = before?.digest === digest ? before : understand(answer, pieces);
    return { ...contents, url, digest, etag, cached };
  });
}

function circular({ search }: URL): MirrorError {
  return new MirrorError(
    'listing.malformed',
    `The pages of the list of workbooks lead in a circle: ${search}.`,
  );
}

function understand(
  answer: Answer,
  pieces: readonly Uint8Array[],
): Pick<Page, 'count' | 'next' | 'rows' | 'malformed'> {
  const parsed = pageSchema.safeParse(parseJson(answer, pieces));
  if (!parsed.success) throw wrongKind(answer, 'JSON that is not a page of workbooks', parsed.error);
  const { count, next, results } = parsed.data;
  return {
    count,
    next: next === null || next === undefined || next === '' ? null : nextPageUrl(next, answer.url),
    ...readWorkbookRows(results),
  };
}
