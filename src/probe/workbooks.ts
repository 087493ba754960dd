import { WORKBOOKS_PATH } from '../lib/api/requests.ts';
import { pageSchema } from '../lib/api/schemas.ts';
import type { Asker } from './asker.ts';
import { LIST_BYTES } from './repositories.ts';
import type { ProbeAnswer } from './connection.ts';
import { isObject, type JsonObject, jsonOf } from './words.ts';

/** A page as it came. */
export interface PageSeen {
  readonly count: number;
  readonly next: string | null;
  readonly previous: string | null;
  readonly rows: readonly JsonObject[];
  /** Rows that are no objects. */
  readonly odd: number;
}

/** What was answered to the questions about the list of workbooks. */
export interface WorkbooksSeen {
  readonly first: ProbeAnswer;
  /** In their order, as far as they were followed. */
  readonly pages: readonly PageSeen[];
  /** Why not all pages could be followed; null when they could. */
  readonly cut: 'too many' | 'not to be followed' | 'answer of another kind' | null;
  /** Answers by what was asked with. */
  readonly parameters: ReadonlyMap<PageParameter, ProbeAnswer>;
  /** A page far beyond the end, by the parameter that works; null where none does. */
  readonly beyond: ProbeAnswer | null;
  readonly filters: ReadonlyMap<'processing' | 'failure' | 'unknown' | 'q', ProbeAnswer>;
}

/** The parameters that are tried: the specification shows none. */
export const PAGE_PARAMETERS = ['page', 'page_size', 'per_page', 'limit', 'offset', 'limit_offset'] as const;
export type PageParameter = (typeof PAGE_PARAMETERS)[number];

const QUERIES: Readonly<Record<PageParameter, string>> = {
  page: 'page=2',
  page_size: 'page_size=1',
  per_page: 'per_page=1',
  limit: 'limit=1',
  offset: 'offset=1',
  limit_offset: 'limit=1&offset=1',
};

/** Pages that are followed at most. */
const MOST_PAGES = 25;

/** Reads a page; null for anything else. */
export function pageOf(answer: ProbeAnswer): PageSeen | null {
  const parsed = answer.status === 200 ? pageSchema.safeParse(jsonOf(answer)) : null;
  if (parsed?.success !== true) return null;
  const { count, next, previous, results } = parsed.data;
  const rows = results.filter(isObject);
  return { count, next: next ?? null, previous: previous ?? null, rows, odd: results.length - rows.length };
}

/**
 * Where a reference to a page leads, as the mirror takes it: only its query counts when it leads to another place.
 * @param list address of the list
 */
export function pageAddress(next: string, list: URL): URL | null {
  const resolved = URL.parse(next, list.href);
  if (resolved === null || resolved.search === '') return null;
  const address = new URL(list);
  address.search = resolved.search;
  return address;
}

/** Asks for the list of workbooks in several ways. @param baseUrl the service's base address */
export async function askForWorkbooks(asker: Asker, baseUrl: string): Promise<WorkbooksSeen> {
  const list = new URL(baseUrl + WORKBOOKS_PATH);
  const first = await asker.v1(WORKBOOKS_PATH, { maxBytes: LIST_BYTES });
  const none = {
    first,
    pages: [],
    cut: null,
    parameters: new Map<PageParameter, ProbeAnswer>(),
    beyond: null,
  };
  const page = pageOf(first);
  if (page === null) return { ...none, filters: new Map() };
  const { pages, cut } = await followPages(asker, page, list);
  const parameters = new Map<PageParameter, ProbeAnswer>();
  for (const name of PAGE_PARAMETERS) {
    parameters.set(name, await asker.v1(`${WORKBOOKS_PATH}?${QUERIES[name]}`, { maxBytes: LIST_BYTES }));
  }
  const filters = new Map<'processing' | 'failure' | 'unknown' | 'q', ProbeAnswer>();
  for (const filter of ['processing', 'failure'] as const) {
    filters.set(filter, await asker.v1(`${WORKBOOKS_PATH}?status=${filter}`, { maxBytes: LIST_BYTES }));
  }
  filters.set('unknown', await asker.v1(`${WORKBOOKS_PATH}?status=no-such-status`, { maxBytes: LIST_BYTES }));
  filters.set('q', await asker.v1(`${WORKBOOKS_PATH}?q=no-such-workbook-4b1c9e`, { maxBytes: LIST_BYTES }));
  const beyond = await asker.v1(`${WORKBOOKS_PATH}?page=1000000`);
  return { first, pages, cut, parameters, beyond, filters };
}

async function followPages(
  asker: Asker,
  first: PageSeen,
  list: URL,
): Promise<Pick<WorkbooksSeen, 'pages' | 'cut'>> {
  const pages = [first];
  const visited = new Set<string>([list.href]);
  for (let { next } = first; next !== null && next !== '';) {
    if (pages.length === MOST_PAGES) return { pages, cut: 'too many' };
    const address = pageAddress(next, list);
    if (address === null || visited.has(address.href)) return { pages, cut: 'not to be followed' };
    visited.add(address.href);
    const page = pageOf(await asker.v1(address, { maxBytes: LIST_BYTES }));
    if (page === null) return { pages, cut: 'answer of another kind' };
    pages.push(page);
    next = page.next;
  }
  return { pages, cut: null };
}

/** A workbook on a branch, as far as the other questions need it. */
export interface ListedWorkbook {
  readonly integration: string;
  readonly branch: string;
  /** Without the slash that its name begins with. */
  readonly path: string;
  readonly createdAt: string | null;
}

/** The rows of all pages that say where they belong. */
export function listedWorkbooks(pages: readonly PageSeen[]): ListedWorkbook[] {
  return pages
    .flatMap(({ rows }) => rows)
    .flatMap(({ integration, name, version }) => {
      if (typeof integration !== 'string' || typeof name !== 'string' || !isObject(version)) return [];
      const { branch, created_at: createdAt } = version;
      if (typeof branch !== 'string') return [];
      const path = name.replace(/^\/+/, '');
      return [{ integration, branch, path, createdAt: typeof createdAt === 'string' ? createdAt : null }];
    });
}
