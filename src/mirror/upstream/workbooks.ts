import { type WorkbookStatusFilter, WORKBOOKS_PATH, workbooksPath } from '../../lib/api/requests.ts';
import { pageSchema, type ApiWorkbook, workbookSchema } from '../../lib/api/schemas.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type Answer, readList, strongTag, type Understood, wrongKind } from './answers.ts';
import {
  type Cached,
  malformedRow,
  type MalformedRow,
  malformedSentences,
  olderOf,
  type WorkbookRow,
} from './listing.ts';
import type { Transport } from './transport.ts';

/** The list of workbooks, all pages of it. */
export interface WorkbookList {
  /** The same value as long as nothing has changed, where the same memory is used. */
  readonly rows: readonly WorkbookRow[];
  /** Rows that could not be understood. */
  readonly malformed: readonly MalformedRow[];
  /** False when absence from it proves nothing. */
  readonly isComplete: boolean;
  readonly problems: readonly string[];
  /** The oldest of its pages that a cache gave; null where none did. */
  readonly cached: Cached | null;
}

/** All pages of the list, read once. */
interface Reading {
  readonly pages: readonly Page[];
  /** The same value as long as the bytes of all pages are the same. */
  readonly rows: readonly WorkbookRow[];
  /** Why pages may have shifted while they were read; null where they agree with each other. */
  readonly doubt: string | null;
}

/** The last reading of the list. A list with the same bytes is the same value again, and is not parsed. */
export interface ListMemory {
  last?: Reading;
}

/** The way to the service, as far as lists need it. */
export type ListTransport = Pick<Transport, 'hasCredential' | 'send' | 'limits'>;

const MAX_READINGS = 4;

/**
 * Reads all pages of the list of workbooks. A list whose pages disagree is read again until they agree, or until two
 * readings in a row give the same bytes: then nothing shifted, but absence from it still proves nothing.
 * @param memory what is known of this list from the last time; written to
 * @returns null where the service has no v1: no token is configured, or it answers 404
 * @throws MirrorError `listing.inconsistent`, `listing.malformed`, `service.*`, `credentials.refused`
 */
export async function readWorkbooks(
  transport: ListTransport,
  signal: AbortSignal,
  status?: WorkbookStatusFilter,
  memory: ListMemory = {},
): Promise<WorkbookList | null> {
  if (!transport.hasCredential('v1')) return null;
  for (let readings = 1; ; readings += 1) {
    const { last } = memory;
    const reading = await readAllPages(transport, signal, workbooksPath(status), last);
    if (reading === null) return null;
    memory.last = reading;
    if (reading.doubt === null || reading.rows === last?.rows) return listOf(reading);
    if (readings === MAX_READINGS) throw inconsistent(reading.doubt);
  }
}

function listOf({ rows, pages, doubt }: Reading): WorkbookList {
  const malformed = pages.flatMap((page) => page.malformed);
  return {
    rows,
    malformed,
    isComplete: doubt === null && malformed.length === 0,
    problems: [
      ...malformedSentences('workbooks', malformed, consequenceOf),
      ...(doubt === null ? [] : [`in the list of workbooks ${doubt}`]),
    ],
    cached: pages.map((page) => page.cached).reduce(olderOf, null),
  };
}

function consequenceOf({ repository }: MalformedRow): string {
  return repository === null
    ? 'it does not tell its repository, so that the list verifies no target'
    : `the contents of ${JSON.stringify(repository)} are compared as a whole`;
}

/** Pages beyond those that the rows need, or the count announces: some services give a few empty ones. */
const SPARE_PAGES = 1000;

/** More workbooks than fit into memory; stops pages that are made up as they are asked for. */
const MAX_ROWS = 2_000_000;

/** Reads all pages once, one after the other. @returns null where there is no such list */
async function readAllPages(
  transport: ListTransport,
  signal: AbortSignal,
  path: string,
  last: Reading | undefined,
): Promise<Reading | null> {
  const known = new Map(last?.pages.map((page) => [page.asked, page]));
  const visited = new Set<string>();
  const pages: Page[] = [];
  let rowCount = 0;
  let target: string | URL | null = path;
  while (target !== null) {
    const page = await readPage(transport, signal, target, known.get(String(target)), visited);
    if (page === null) break;
    visited.add(page.url.href);
    pages.push(page);
    // Rows that cannot be understood need no further page: pages of nothing else come to an end.
    rowCount += page.rows.length;
    if (rowCount > MAX_ROWS || pages.length > Math.min(page.count, rowCount) + SPARE_PAGES) throw endless();
    target = page.next;
  }
  if (pages.length === 0) return null;
  // Where a page was gone, the rows are never the same value: the list is not taken.
  const isCut = target !== null;
  const isSame =
    !isCut &&
    last?.pages.length === pages.length &&
    pages.every(({ rows }, at) => rows === last.pages[at]?.rows);
  if (last !== undefined && isSame) return { ...last, pages };
  const rows = pages.flatMap((page) => page.rows);
  const total = pages.reduce((sum, { malformed }) => sum + malformed.length, rows.length);
  return { pages, rows, doubt: isCut ? 'a page was gone while it was read' : doubtAbout(pages, rows, total) };
}

/** Why pages may have shifted while they were read; null where their counts agree with each other and with the rows. */
function doubtAbout(
  pages: readonly Pick<Page, 'count'>[],
  rows: readonly WorkbookRow[],
  total: number,
): string | null {
  const count = pages[0]?.count;
  if (pages.some((page) => page.count !== count)) return 'the count changed from page to page';
  if (count !== total) return `the count says ${count}, the pages hold ${total} rows`;
  const keys = new Set(rows.map(({ id, branch, versionId }) => `${id}\n${branch}\n${versionId}`));
  return keys.size < rows.length ? 'a row occurs twice' : null;
}

function inconsistent(doubt: string): MirrorError {
  const message = `The list of workbooks changes faster than it can be read: ${doubt}.`;
  return new MirrorError('listing.inconsistent', message, { hint: 'Nothing was deleted.' });
}

function circular({ search }: URL): MirrorError {
  const message = `The pages of the list of workbooks lead in a circle: ${search}.`;
  return new MirrorError('listing.malformed', message);
}

const VENDOR_HINT = 'Nothing was deleted. If it stays, report it to the vendor of the service.';

function endless(): MirrorError {
  const message = 'The pages of the list of workbooks do not end.';
  return new MirrorError('listing.malformed', message, { hint: VENDOR_HINT });
}

/** A page of the list of workbooks. */
interface Page extends PageContents {
  /** The address that was asked for. */
  readonly asked: string;
  /** The address that it came from. */
  readonly url: URL;
  readonly next: URL | null;
  readonly digest: string;
  /** Strong entity tag, for conditional requests (RFC 9110, section 13.1.2); null where the service gives none. */
  readonly etag: string | null;
  /** Null where no cache gave it. */
  readonly cached: Cached | null;
}

/** The contents of a page. */
interface PageContents {
  readonly count: number;
  /** The reference to the next page, as the page gives it; null where there is none. */
  readonly reference: string | null;
  readonly rows: readonly WorkbookRow[];
  /** Rows that could not be understood. */
  readonly malformed: readonly MalformedRow[];
}

/**
 * Reads a page of the list of workbooks. One with the same bytes as the last time has the very rows of that time.
 * @param known the page that this address gave the last time; undefined where that is not known
 * @param visited addresses of the pages before it
 * @returns null where the service has no page there
 */
async function readPage(
  transport: ListTransport,
  signal: AbortSignal,
  target: string | URL,
  known: Page | undefined,
  visited: ReadonlySet<string>,
): Promise<Page | null> {
  const tag = known?.etag ?? null;
  const headers = tag === null ? {} : { 'if-none-match': tag };
  const request = { generation: 'v1', target, signal, headers } as const;
  const page = await transport.send(request, async (answer) => {
    const { status, url, cached } = answer;
    if (visited.has(url.href)) throw circular(url);
    if (status === 404) return null;
    // A redirect may lead elsewhere than it did the last time, and the tag says nothing of that place.
    if (status === 304 && known !== undefined)
      return url.href === known.url.href ? { ...known, cached } : 'of-another-place';
    const understand = (json: unknown): PageContents => readContents(answer, json);
    const contents: Understood<PageContents> = await readList(
      'v1',
      answer,
      transport.limits,
      known,
      understand,
    );
    const next = contents.reference === null ? null : nextPageUrl(contents.reference, url);
    return { ...contents, asked: String(target), url, next, etag: strongTag(answer.headers['etag']), cached };
  });
  return page === 'of-another-place' ? readPage(transport, signal, target, undefined, visited) : page;
}

function readContents(answer: Answer, json: unknown): PageContents {
  const parsed = pageSchema.safeParse(json);
  if (!parsed.success) throw wrongKind(answer, 'JSON that is not a page of workbooks', parsed.error);
  const { count, next, results } = parsed.data;
  return { count, reference: next === undefined || next === '' ? null : next, ...readRows(results) };
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
  if (next.length > MAX_REFERENCE_LENGTH) throw noReference(next);
  const resolved = URL.parse(next, current.href);
  if (resolved === null) throw noReference(next);
  const list = listPath(current);
  const isBelow = resolved.origin === current.origin && resolved.pathname.startsWith(`${list}/`);
  const target = new URL(isBelow ? resolved : current);
  if (!isBelow) {
    if (resolved.search === '') throw noReference(next);
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

function noReference(next: string): MirrorError {
  const shown = JSON.stringify(next.slice(0, 200));
  const message = `The list of workbooks names a next page that cannot be followed: ${shown}.`;
  return new MirrorError('listing.malformed', message, { hint: VENDOR_HINT });
}

/**
 * Reads the rows of a page one by one, so that one bad row hides no other. Rows are kept for long: texts that several of
 * them have, such as a repository's name or a commit's message, are kept once.
 */
function readRows(results: readonly unknown[]): Pick<PageContents, 'rows' | 'malformed'> {
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
  return {
    id,
    path: pathIn(id, workbook.name.replace(/^\/+/, '')),
    repository: shared(workbook.integration),
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
function pathIn(id: string, path: string): string {
  return id.endsWith(`/${path}`) ? id.slice(-path.length) : path;
}

function fileFacts(file: ApiWorkbook['file']): Pick<WorkbookRow, 'sizeBytes' | 'sha256'> {
  return {
    ...(typeof file?.size === 'number' ? { sizeBytes: file.size } : {}),
    ...(typeof file?.digest === 'string' ? { sha256: file.digest.toLowerCase() } : {}),
  };
}
