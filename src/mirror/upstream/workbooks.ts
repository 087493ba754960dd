import { isDeepStrictEqual } from 'node:util';
import { type WorkbookStatusFilter, WORKBOOKS_PATH, workbooksPath } from '../../lib/api/requests.ts';
import { type ApiWorkbook, pageSchema, workbookSchema } from '../../lib/api/schemas.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type Answer, type Cached, olderOf } from './answers.ts';
import { wrongKind } from './failures.ts';
import {
  type ListTransport,
  malformedRow,
  type MalformedRow,
  malformedSentences,
  type Page,
  type PageRequest,
  readPage,
} from './lists.ts';
import type { WorkbookRow } from './listing.ts';

/** The list of workbooks: the rows of all its pages. */
export interface WorkbookList {
  /** The same value while nothing has changed, if the same memory is used. */
  readonly rows: readonly WorkbookRow[];
  /** Malformed rows. */
  readonly malformed: readonly MalformedRow[];
  /** False if absence from it proves nothing. */
  readonly isComplete: boolean;
  /** Why pages may have shifted while they were read; null if they agree with each other. */
  readonly doubt: string | null;
  /** The repositories of rows that are on two pages. */
  readonly repeated: ReadonlySet<string>;
  readonly problems: readonly string[];
  /** The oldest of its pages from a cache; null for none. */
  readonly cached: Cached | null;
}

/** The last reading of the list. A list with the same bytes returns the same value. */
export interface WorkbookMemory {
  workbooks?: { readonly pages: readonly Page<WorkbookPage>[]; readonly list: WorkbookList };
}

/** The contents of a page of the list of workbooks. */
interface WorkbookPage {
  readonly count: number;
  readonly rows: readonly WorkbookRow[];
  /** Malformed rows. */
  readonly malformed: readonly MalformedRow[];
  /** Null at the last page. */
  readonly next: URL | null;
}

const MAX_READINGS = 4;

/**
 * Reads all pages of the list of workbooks. If pages disagree, it reads the list again until they agree, or until two
 * readings in a row give the same: then nothing shifted, but absence from it still proves nothing.
 * @param memory the last reading of this list; written to
 * @returns null if the service has no v1: no token is configured, or it answers 404
 * @throws MirrorError `listing.inconsistent`, `listing.malformed`, `service.*`, `credentials.refused`
 */
export async function readWorkbooks(
  transport: ListTransport,
  signal: AbortSignal,
  status?: WorkbookStatusFilter,
  memory: WorkbookMemory = {},
): Promise<WorkbookList | null> {
  if (!transport.keyring.hasKey('v1')) return null;
  for (let readings = 1; ; readings += 1) {
    const last = memory.workbooks;
    const pages = await readAllPages(transport, signal, workbooksPath(status), last?.pages ?? []);
    if (pages === null) {
      if (readings === MAX_READINGS) throw inconsistent('a page was gone while it was read');
      continue;
    }
    if (pages.length === 0) return null;
    const rows = areSamePages(pages, last) ? last.list : joinPages(pages.map(({ contents }) => contents));
    const list = { ...rows, cached: pages.map(({ cached }) => cached).reduce(olderOf, null) };
    memory.workbooks = { pages, list };
    if (list.doubt === null || isSameList(list, last?.list)) return list;
    if (readings === MAX_READINGS) throw inconsistent(list.doubt);
  }
}

/** Whether a reading gave the same bytes as the last one. */
function areSamePages(
  pages: readonly Page<WorkbookPage>[],
  last: WorkbookMemory['workbooks'],
): last is NonNullable<WorkbookMemory['workbooks']> {
  return (
    last?.pages.length === pages.length &&
    pages.every(({ contents }, at) => contents === last.pages[at]?.contents)
  );
}

/** Whether two readings gave the same rows: the bytes of a page may differ with each request, for example by a time. */
function isSameList(one: WorkbookList, other: WorkbookList | undefined): boolean {
  return other !== undefined && isDeepStrictEqual({ ...one, cached: null }, { ...other, cached: null });
}

/** Joins pages to a list, and decides whether it is complete. */
function joinPages(pages: readonly WorkbookPage[]): Omit<WorkbookList, 'cached'> {
  const rows = pages.flatMap((page) => page.rows);
  const malformed = pages.flatMap((page) => page.malformed);
  const { isTwice, repeated } = repetitionsIn(pages);
  const doubt = doubtAbout(pages, rows.length + malformed.length, isTwice);
  const problems = [
    ...malformedSentences('workbooks', malformed, ({ repository }) =>
      repository === null
        ? 'it does not tell its repository, so that the list verifies no target'
        : `the contents of ${JSON.stringify(repository)} are compared as a whole`,
    ),
    ...(doubt === null ? [] : [`in the list of workbooks ${doubt}`]),
  ];
  const isComplete = doubt === null && malformed.length === 0;
  return { rows, malformed, isComplete, doubt, repeated, problems };
}

/** Why pages may have shifted while they were read; null if their counts agree with each other and with the rows. */
function doubtAbout(pages: readonly WorkbookPage[], total: number, isTwice: boolean): string | null {
  const count = pages[0]?.count;
  if (pages.some((page) => page.count !== count)) return 'the count changed from page to page';
  if (count !== total) return `the count says ${count}, the pages hold ${total} rows`;
  return isTwice ? 'a row occurs twice' : null;
}

/** Whether a row occurs twice or a workbook is on two pages, and the repositories of such workbooks. */
function repetitionsIn(pages: readonly WorkbookPage[]) {
  const seen = new Map<string, { page: WorkbookPage; readonly versionIds: string[] }>();
  const repeated = new Set<string>();
  let isTwice = false;
  for (const page of pages) {
    for (const { id, branch, versionId, repository } of page.rows) {
      const key = `${id}\n${branch}`;
      const before = seen.get(key);
      if (before === undefined) {
        seen.set(key, { page, versionIds: [versionId] });
        continue;
      }
      // A row that moved to a later page with a new version pushed another one off all pages.
      const isOnTwo = before.page !== page;
      if (isOnTwo) repeated.add(repository);
      isTwice ||= isOnTwo || before.versionIds.includes(versionId);
      before.page = page;
      before.versionIds.push(versionId);
    }
  }
  return { isTwice, repeated };
}

function inconsistent(doubt: string): MirrorError {
  const message = `The list of workbooks changes faster than it can be read: ${doubt}.`;
  return new MirrorError('listing.inconsistent', message, { hint: 'Nothing was deleted.' });
}

/** Additional pages beyond those needed for the rows or the announced count: some services give a few empty ones. */
const SPARE_PAGES = 1000;

/** More workbooks than fit into memory; stops an endless generated list. */
const MAX_ROWS = 2_000_000;

/**
 * Reads all pages once, in sequence.
 * @returns none if there is no such list; null if a page was gone, as the list became shorter
 */
async function readAllPages(
  transport: ListTransport,
  signal: AbortSignal,
  path: string,
  last: readonly Page<WorkbookPage>[],
): Promise<readonly Page<WorkbookPage>[] | null> {
  const known = new Map(last.map((page) => [page.asked, page]));
  const visited = new Set<string>();
  const pages: Page<WorkbookPage>[] = [];
  let rowCount = 0;
  for (let target: string | URL | null = path; target !== null;) {
    const request: PageRequest = { generation: 'v1', target, signal };
    const page: Page<WorkbookPage> | null = await readPage(
      transport,
      request,
      known.get(String(target)),
      readWorkbookPage,
    );
    if (page === null) return pages.length === 0 ? [] : null;
    if (visited.has(page.url.href)) throw malformedPages('lead in a circle');
    visited.add(page.url.href);
    pages.push(page);
    // Only well-formed rows allow further pages: a list of malformed ones would otherwise never end.
    rowCount += page.contents.rows.length;
    if (rowCount > MAX_ROWS || pages.length > Math.min(page.contents.count, rowCount) + SPARE_PAGES)
      throw malformedPages('do not end');
    target = page.contents.next;
  }
  return pages;
}

const VENDOR_HINT = 'Nothing was deleted. If this persists, report it to the vendor of the service.';

function malformedPages(fault: string): MirrorError {
  return new MirrorError('listing.malformed', `The pages of the list of workbooks ${fault}.`, {
    hint: VENDOR_HINT,
  });
}

/** Reads a page of the list of workbooks, row by row, so that a bad row hides no other. */
function readWorkbookPage(answer: Answer, json: unknown): WorkbookPage {
  const page = pageSchema.safeParse(json);
  if (!page.success) throw wrongKind(answer, 'JSON that is not a page of workbooks', page.error);
  const { count, next: reference, results } = page.data;
  const rows: WorkbookRow[] = [];
  const malformed: MalformedRow[] = [];
  for (const [at, result] of results.entries()) {
    const parsed = workbookSchema.safeParse(result);
    if (parsed.success) rows.push(workbookRow(parsed.data));
    else malformed.push(malformedRow(result, parsed.error, at));
  }
  const isLast = reference === undefined || reference === null || reference === '';
  return { count, rows, malformed, next: isLast ? null : nextPageUrl(reference, answer.url) };
}

/** The most characters kept of an author or a message: every manifest repeats them, and must stay small enough to be read. */
const MAX_TEXT_LENGTH = 1000;

function workbookRow({ version, status, ...workbook }: ApiWorkbook): WorkbookRow {
  const { id } = workbook;
  const path = workbook.name.replace(/^\/+/, '');
  return {
    id,
    // A slice of the id shares its memory.
    path: id.endsWith(`/${path}`) ? id.slice(-path.length) : path,
    repository: workbook.integration,
    branch: version.branch,
    versionId: version.id,
    author: version.author?.slice(0, MAX_TEXT_LENGTH) ?? null,
    message: version.message?.slice(0, MAX_TEXT_LENGTH) ?? null,
    createdAt: version.created_at ?? null,
    action: version.action ?? null,
    parentId: version.parent?.id ?? null,
    versionStatus: version.status ?? null,
    processing: status?.processing ?? 0,
    failure: status?.failure ?? 0,
    ...fileFacts(workbook.file),
  };
}

function fileFacts(file: ApiWorkbook['file']): Pick<WorkbookRow, 'sizeBytes' | 'sha256'> {
  return {
    ...(typeof file?.size === 'number' ? { sizeBytes: file.size } : {}),
    ...(typeof file?.digest === 'string' ? { sha256: file.digest.toLowerCase() } : {}),
  };
}

/** The longest address that every server must accept (RFC 9110, section 4.1). */
const MAX_REFERENCE_LENGTH = 8000;

/**
 * Finds the next page. `next` may be absolute, a path or a query, and behind a proxy it may name the service's inner
 * host or lack the prefix of the base address. The token goes to this list only, so if `next` leads elsewhere,
 * only its query counts (service specification, section 2.5: "Reference to the next page").
 * @param next the reference in the page
 * @param current the address that the page came from
 * @throws MirrorError `listing.malformed` if it is no reference to another page of this list
 */
export function nextPageUrl(next: string, current: URL): URL {
  const resolved = next.length > MAX_REFERENCE_LENGTH ? null : URL.parse(next, current.href);
  const at = current.pathname.indexOf(WORKBOOKS_PATH);
  const list = at === -1 ? current.pathname : current.pathname.slice(0, at + WORKBOOKS_PATH.length);
  const isBelow = resolved?.origin === current.origin && resolved.pathname.startsWith(`${list}/`);
  if (resolved === null || (!isBelow && resolved.search === ''))
    throw malformedPages(`name a next one that cannot be followed: ${JSON.stringify(next.slice(0, 200))}`);
  const target = new URL(current);
  if (isBelow) target.pathname = resolved.pathname;
  else if (current.pathname !== `${list}/`) target.pathname = list;
  target.search = resolved.search;
  target.hash = '';
  const status = current.searchParams.get('status');
  if (status !== null && !target.searchParams.has('status')) target.searchParams.set('status', status);
  return target;
}
