import { type WorkbookStatusFilter, WORKBOOKS_PATH, workbooksPath } from '../../lib/api/requests.ts';
import { pageSchema, type ApiWorkbook, workbookSchema } from '../../lib/api/schemas.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import {
  type Answer,
  type Cached,
  malformedRow,
  type MalformedRow,
  malformedSentences,
  olderOf,
  readList,
  strongTag,
  wrongKind,
} from './answers.ts';
import type { WorkbookRow } from './listing.ts';
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
export interface Reading {
  readonly pages: readonly Page[];
  readonly rows: readonly WorkbookRow[];
  /** Rows that could not be understood; their positions are those in the whole list. */
  readonly malformed: readonly MalformedRow[];
  /** Whether a row occurs twice. */
  readonly repeats: boolean;
  /** Whether a page that another one named was gone when it was asked for. */
  readonly isCut: boolean;
}

/** The last reading of the list. A list with the same bytes is the same value again, and is not parsed. */
export interface ListMemory {
  last?: Reading;
}

/** The way to the service, as far as lists need it. */
export type ListTransport = Pick<Transport, 'hasCredential' | 'send' | 'limits'>;

const MAX_READINGS = 4;

/**
 * Reads all pages of the list of workbooks. A list whose pages disagree is read again until it agrees with itself, or
 * until two readings in a row give the same rows: then nothing shifted, but absence from it still proves nothing.
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
  let previous: Reading | null = null;
  let doubt: string | null = null;
  for (let readings = 0; readings < MAX_READINGS; readings += 1) {
    const reading = await readAllPages(transport, signal, workbooksPath(status), memory.last ?? null);
    if (reading === null) return null;
    memory.last = reading;
    doubt = doubtAbout(reading);
    const isStable = previous !== null && !reading.isCut && sameRows(previous, reading);
    if (doubt === null || isStable) return listOf(reading, doubt);
    previous = reading;
  }
  throw new MirrorError(
    'listing.inconsistent',
    `The list of workbooks changes faster than it can be read: ${doubt}.`,
    {
      hint: 'Nothing was deleted.',
    },
  );
}

function listOf({ rows, pages, malformed }: Reading, doubt: string | null): WorkbookList {
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

/** Why pages may have shifted while they were read; null where their counts agree with each other and with the rows. */
export function doubtAbout({ pages, rows, malformed, repeats, isCut }: Reading): string | null {
  const [first] = pages;
  const total = rows.length + malformed.length;
  if (isCut) return 'a page was gone while it was read';
  if (first === undefined) return 'there was no page';
  if (pages.some(({ count }) => count !== first.count)) return 'the count changed from page to page';
  if (first.count !== total) return `the count says ${first.count}, the pages hold ${total} rows`;
  return repeats ? 'a row occurs twice' : null;
}

/** Whether two readings hold the same rows. */
export function sameRows(one: Reading, other: Reading): boolean {
  if (one.rows.length !== other.rows.length || one.malformed.length !== other.malformed.length) return false;
  if (one.rows === other.rows) return true;
  const a = one.rows.map(keyOf).sort();
  const b = other.rows.map(keyOf).sort();
  return a.every((key, index) => key === b[index]);
}

function keyOf({ id, branch, versionId }: WorkbookRow): string {
  return JSON.stringify([id, branch, versionId]);
}

/** Reads all pages once. @returns null where there is no such list; the last reading's rows where all bytes are as they were */
async function readAllPages(
  transport: ListTransport,
  signal: AbortSignal,
  path: string,
  last: Reading | null,
): Promise<Reading | null> {
  const known = new Map(last?.pages.map((page) => [page.asked, page]));
  const visited = new Set<string>();
  const pages: Page[] = [];
  let rowCount = 0;
  let target: string | URL | null = path;
  while (target !== null) {
    const page = await readPage(transport, signal, target, known.get(String(target)), visited);
    if (page === null) break;
    pages.push(page);
    visited.add(page.url.href);
    rowCount += page.rows.length;
    if (rowCount > MAX_ROWS || pages.length > Math.min(page.count, rowCount) + SPARE_PAGES) throw endless();
    target = page.next;
  }
  if (pages.length === 0) return null;
  const isCut = target !== null;
  const isAsBefore =
    last?.pages.length === pages.length && pages.every(({ rows }, at) => rows === last.pages[at]?.rows);
  if (last !== null && isAsBefore) return { ...last, pages, isCut };
  const rows = pages.flatMap((page) => page.rows);
  return { pages, rows, malformed: malformedIn(pages), repeats: hasRepeats(rows), isCut };
}

/** The rows of pages that could not be understood, with their positions in the whole list. */
function malformedIn(pages: readonly Page[]): MalformedRow[] {
  let before = 0;
  return pages.flatMap((page) => {
    const first = before;
    before += rowsOf(page);
    return page.malformed.map((row) => ({ ...row, position: first + row.position }));
  });
}

function rowsOf({ rows, malformed }: Page): number {
  return rows.length + malformed.length;
}

/** Pages beyond those that the rows need, or the count announces: some services give a few empty ones. */
const SPARE_PAGES = 1000;

/** More workbooks than fit into memory; stops pages that are made up as they are asked for. */
const MAX_ROWS = 2_000_000;

/** Whether a row occurs twice: the same version of the same workbook on the same branch. Most workbooks have one row. */
function hasRepeats(rows: readonly WorkbookRow[]): boolean {
  const firsts = new Map<string, WorkbookRow>();
  const further = new Set<string>();
  return rows.some((row) => {
    const first = firsts.get(row.id);
    if (first === undefined) firsts.set(row.id, row);
    if (first === undefined) return false;
    const key = keyOf(row);
    const isRepeat = key === keyOf(first) || further.has(key);
    further.add(key);
    return isRepeat;
  });
}

function endless(): MirrorError {
  return new MirrorError('listing.malformed', 'The pages of the list of workbooks do not end.', {
    hint: 'Nothing was deleted. If it stays, report it to the vendor of the service.',
  });
}

/** A page of the list of workbooks. */
interface Page extends PageContents {
  /** The address that was asked for. */
  readonly asked: string;
  /** The address that it came from. */
  readonly url: URL;
  readonly next: URL | null;
  /** SHA-256 of its bytes. */
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
 * Reads a page of the list of workbooks. One with the same bytes as the last time is not parsed again: it has the very rows of that
 * time.
 * @param known the page that this address gave the last time; undefined where that is not known
 * @param visited addresses of the pages before it
 * @returns null where the service has no page there
 * @throws MirrorError `service.*`, `listing.malformed`, `credentials.refused`
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
    const contents = await readList('v1', answer, transport.limits, known, understand);
    const next = contents.reference === null ? null : nextPageUrl(contents.reference, url);
    return { ...contents, asked: String(target), url, next, etag: strongTag(answer.headers['etag']), cached };
  });
  return page === 'of-another-place' ? readPage(transport, signal, target, undefined, visited) : page;
}

function circular({ search }: URL): MirrorError {
  return new MirrorError(
    'listing.malformed',
    `The pages of the list of workbooks lead in a circle: ${search}.`,
  );
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
