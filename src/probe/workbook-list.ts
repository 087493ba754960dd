import { type WorkbookStatusFilter, WORKBOOKS_PATH } from '../lib/api/requests.ts';
import { pageSchema } from '../lib/api/schemas.ts';
import { nextPageUrl } from '../mirror/upstream/workbooks.ts';
import type { Ask, ShortRequest } from './asker.ts';
import type { ProbeAnswer } from './connection.ts';
import { LIST_BYTES } from './repositories.ts';
import { isObject, type JsonObject, jsonOf, partOf } from './words.ts';

/** A page as it came. */
export interface PageSeen {
  readonly count: number;
  readonly next: string | null;
  readonly previous: string | null;
  readonly rows: readonly JsonObject[];
  /** How many rows are no objects. */
  readonly odd: number;
}

/** The list of workbooks as it came. */
export interface WorkbookList {
  readonly first: ProbeAnswer;
  /** In their order, as far as they were followed; none where the first answer is no page. */
  readonly pages: readonly PageSeen[];
  /** Why not all pages could be followed; null when they could. */
  readonly cut: 'too many' | 'not to be followed' | 'answer of another kind' | null;
  /** The rows of all pages that are objects. */
  readonly rows: readonly JsonObject[];
  /** How many rows are no objects. */
  readonly odd: number;
  readonly listed: readonly ListedWorkbook[];
}

/** A workbook on a branch, as far as the other questions need it. */
export interface ListedWorkbook {
  readonly integration: string;
  readonly branch: string;
  /** Without the slash that its name begins with. */
  readonly path: string;
  readonly createdAt: string | null;
}

/** Pages that are followed at most. */
const MOST_PAGES = 25;

/** A request for the list of workbooks, or a page of it. @param query as it follows the path */
export function workbooksRequest(query = ''): ShortRequest {
  return { generation: 'v1', target: WORKBOOKS_PATH + query, maxBytes: LIST_BYTES };
}

/** Reads a page; null for anything else. */
export function pageOf(answer: ProbeAnswer): PageSeen | null {
  const parsed = answer.status === 200 ? pageSchema.safeParse(jsonOf(answer)) : null;
  if (parsed?.success !== true) return null;
  const { count, next, previous, results } = parsed.data;
  const rows = results.filter(isObject);
  return { count, next: next ?? null, previous: previous ?? null, rows, odd: results.length - rows.length };
}

/** Asks for the list of workbooks, and follows its pages. @param baseUrl the service's base address */
export async function askForWorkbooks(ask: Ask, baseUrl: string): Promise<WorkbookList> {
  const first = await ask(workbooksRequest());
  const page = pageOf(first);
  const { pages, cut } =
    page === null
      ? { pages: [], cut: null }
      : await followPages(ask, page, new URL(baseUrl + WORKBOOKS_PATH));
  const rows = pages.flatMap((each) => each.rows);
  const odd = pages.reduce((sum, each) => sum + each.odd, 0);
  return { first, pages, cut, rows, odd, listed: listedWorkbooks(rows) };
}

async function followPages(
  ask: Ask,
  first: PageSeen,
  list: URL,
): Promise<Pick<WorkbookList, 'pages' | 'cut'>> {
  const pages = [first];
  const visited = [list];
  for (let { next } = first; next !== null && next !== '';) {
    if (pages.length === MOST_PAGES) return { pages, cut: 'too many' };
    const target = pageAfter(next, visited);
    if (target === null) return { pages, cut: 'not to be followed' };
    visited.push(target);
    const page = pageOf(await ask({ ...workbooksRequest(), target }));
    if (page === null) return { pages, cut: 'answer of another kind' };
    pages.push(page);
    next = page.next;
  }
  return { pages, cut: null };
}

/** Where the mirror finds the next page; null where it finds none, or one that it read before. */
function pageAfter(next: string, visited: readonly URL[]): URL | null {
  const current = visited.at(-1);
  try {
    const address = current === undefined ? null : nextPageUrl(next, current);
    return visited.some(({ href }) => href === address?.href) ? null : address;
  } catch {
    return null;
  }
}

/** The rows that say where they belong. */
function listedWorkbooks(rows: readonly JsonObject[]): ListedWorkbook[] {
  return rows.flatMap(({ integration, name, version }) => {
    if (typeof integration !== 'string' || typeof name !== 'string' || !isObject(version)) return [];
    const { branch, created_at: createdAt } = version;
    if (typeof branch !== 'string') return [];
    const path = name.replace(/^\/+/, '');
    return [{ integration, branch, path, createdAt: typeof createdAt === 'string' ? createdAt : null }];
  });
}

/** How many rows have a counter (section 2.4) above 0. */
export function countAbove0(rows: readonly JsonObject[], counter: WorkbookStatusFilter): number {
  return rows.filter((row) => Number(partOf(row, 'status')[counter] ?? 0) > 0).length;
}
