import { pageSchema, type ApiWorkbook, workbookSchema } from '../../lib/api/schemas.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import {
  digestOfBytes,
  parseJson,
  readWhole,
  wrongKind,
  type MalformedRow,
  malformedRow,
} from './answers.ts';
import { type Cached, strongTag } from './headers.ts';
import { credentialRefused, statusError } from './failures.ts';
import type { Answer, AnswerLimits, Transport } from './transport.ts';
import { WORKBOOKS_PATH } from '../../lib/api/requests.ts';
import type { WorkbookRow } from './listing.ts';

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

/**
 * Where the next page is. `next` may be absolute, a path or a query, and behind a proxy it may name the service's inner
 * host or lack the prefix of the base address: the token goes to this list only, so that of a `next` that leads elsewhere
 * only the query counts (service specification, section 2.5: "Reference to the next page").
 * @param next the reference as the page gives it
 * @param current the address that the page came from
 * @throws MirrorError `listing.malformed` when it is no reference to another page of this list
 */
export function nextPageUrl(next: string, current: URL): URL {
  if (next.length > MAX_REFERENCE_LENGTH) throw malformed(next);
  const resolved = URL.parse(next, current.href);
  if (resolved === null) throw malformed(next);
  const list = listPath(current);
  const isBelow = resolved.origin === current.origin && resolved.pathname.startsWith(`${list}/`);
  const target = new URL(isBelow ? resolved : current);
  if (!isBelow) {
    if (resolved.search === '') throw malformed(next);
    if (current.pathname !== `${list}/`) target.pathname = list;
    target.search = resolved.search;
  }
  target.username = '';
  target.password = '';
  const status = current.searchParams.get('status');
  if (status !== null && !target.searchParams.has('status')) target.searchParams.set('status', status);
  target.hash = '';
  return target;
}

/** Servers need take no longer addresses (RFC 9110, section 4.1). */
const MAX_REFERENCE_LENGTH = 8000;

/** The path of the list itself, of which a page may be a part. */
function listPath(current: URL): string {
  const at = current.pathname.indexOf(WORKBOOKS_PATH);
  return at === -1 ? current.pathname : current.pathname.slice(0, at + WORKBOOKS_PATH.length);
}

function malformed(next: string): MirrorError {
  return new MirrorError(
    'listing.malformed',
    `The list of workbooks names a next page that cannot be followed: ${JSON.stringify(next.slice(0, 200))}.`,
    {
      hint: 'Nothing was deleted. If it stays, report it to the vendor of the service.',
    },
  );
}

/** The rows of a page of the list of workbooks. */
interface WorkbookRows {
  readonly rows: readonly WorkbookRow[];
  /** Rows that could not be understood. */
  readonly malformed: readonly MalformedRow[];
}

/**
 * Reads the rows of a page one by one, so that one bad row hides no other. Rows are kept for long: texts that several of
 * them have, such as a repository's name or a commit's message, are kept once.
 */
function readWorkbookRows(results: readonly unknown[]): WorkbookRows {
  const shared = shareTexts();
  const rows: WorkbookRow[] = [];
  const malformed: MalformedRow[] = [];
  for (const [at, result] of results.entries()) {
    const parsed = workbookSchema.safeParse(result);
    if (parsed.success) rows.push(toRow(parsed.data, shared));
    else malformed.push(malformedRow(result, parsed.error.issues, at));
  }
  return { rows, malformed };
}

/** Gives for a text the first one that was equal to it. */
type SharedTexts = <Text extends string | null>(text: Text) => Text | string;

function shareTexts(): SharedTexts {
  const known = new Map<string, string>();
  return (text) => {
    if (text === null) return text;
    const before = known.get(text);
    if (before === undefined) known.set(text, text);
    return before ?? text;
  };
}

function toRow(workbook: ApiWorkbook, shared: SharedTexts): WorkbookRow {
  const { version, status, id } = workbook;
  const repository = shared(workbook.integration);
  return {
    id,
    path: pathIn(id, repository, workbook.name.replace(/^\/+/, '')),
    repository,
    branch: shared(version.branch),
    versionId: shared(version.id),
    author: shared(version.author ?? null),
    message: shared(version.message ?? null),
    createdAt: shared(version.created_at ?? null),
    action: shared(version.action ?? null),
    parentId: shared(version.parent?.id ?? null),
    versionStatus: shared(version.status ?? null),
    processing: status?.processing ?? 0,
    failure: status?.failure ?? 0,
    ...fileFacts(workbook.file),
  };
}

/** The path, as a part of the id where it is one: the engine keeps a part of a text without copying it. */
function pathIn(id: string, repository: string, path: string): string {
  const at = repository.length + 1;
  const isPart =
    id.length === at + path.length && id[at - 1] === '/' && id.startsWith(repository) && id.endsWith(path);
  return isPart ? id.slice(at) : path;
}

function fileFacts(file: ApiWorkbook['file']): Pick<WorkbookRow, 'sizeBytes' | 'sha256'> {
  return {
    ...(typeof file?.size === 'number' ? { sizeBytes: file.size } : {}),
    ...(typeof file?.digest === 'string' ? { sha256: file.digest.toLowerCase() } : {}),
  };
}
