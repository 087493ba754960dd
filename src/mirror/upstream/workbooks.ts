import { type WorkbookStatusFilter, workbooksPath } from '../../lib/api/requests.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type Cached, olderOf } from './headers.ts';
import type { WorkbookRow } from './listing.ts';
import { type MalformedRow, malformedSentences } from './answers.ts';
import { type Page, readPage } from './pages.ts';
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

const MAX_READINGS = 4;

/**
 * Reads all pages of the list of workbooks. A list whose pages disagree is read again until it agrees with itself, or
 * until two readings in a row give the same rows: then nothing shifted, but absence from it still proves nothing.
 * @param memory what is known of this list from the last time; written to
 * @returns null where the service has no v1: no token is configured, or it answers 404
 * @throws MirrorError `listing.inconsistent`, `listing.malformed`, `service.*`, `credentials.refused`
 */
export async function readWorkbooks(
  transport: Transport,
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

/** Reads all pages once. @returns null where there is no such list; the last reading's values where all bytes are as they were */
async function readAllPages(
  transport: Transport,
  signal: AbortSignal,
  path: string,
  last: Reading | null,
): Promise<Reading | null> {
  const pages: Page[] = [];
  const visited = new Set<string>();
  const watch = new PageWatch();
  let isAsBefore = true;
  let target: string | URL | null = path;
  while (target !== null) {
    const known = last === null ? undefined : knownAfter(pages, last.pages);
    const page = await readPage(transport, signal, { target, known, visited });
    if (page === null) break;
    pages.push(page);
    visited.add(page.url.href);
    isAsBefore &&= page.rows === known?.rows;
    // Pages that are as they were came to an end, and their rows were compared, the last time.
    if (!isAsBefore) watch.follow(pages);
    target = page.next;
  }
  if (pages.length === 0) return null;
  const isCut = target !== null;
  if (last !== null && isAsBefore && !isCut) return { ...last, pages };
  watch.follow(pages);
  const rows = pages.flatMap((page) => page.rows);
  return { pages, rows, malformed: malformedIn(pages), repeats: watch.repeats, isCut };
}

/** The page that comes next, as it was in the last reading; undefined where the pages before it lead to another address now. */
function knownAfter(pages: readonly Page[], last: readonly Page[]): Page | undefined {
  const next = pages.at(-1)?.next?.href;
  return last[pages.length - 1]?.next?.href === next ? last[pages.length] : undefined;
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

/** Pages without a row that was not seen before: some services give a few empty ones. */
const SPARE_PAGES = 1000;

/** More workbooks than fit into memory; stops pages that are made up as they are asked for. */
const MAX_ROWS = 2_000_000;

/** Watches the pages of a reading: whether they end, and whether a row comes twice. */
class PageWatch {
  /** Whether a row came twice: the same version of the same workbook on the same branch. */
  repeats = false;
  private readonly firsts = new Map<string, WorkbookRow>();
  /** Keys of the further rows of workbooks, which most workbooks have not. */
  private readonly further = new Set<string>();
  private pages = 0;
  private rows = 0;
  private idlePages = 0;
  private greatestCount = 0;

  /** Looks at the pages that it has not seen yet. @throws MirrorError `listing.malformed` when the pages do not end */
  follow(pages: readonly Page[]): void {
    for (const page of pages.slice(this.pages)) {
      this.pages += 1;
      this.rows += rowsOf(page);
      this.greatestCount = Math.max(this.greatestCount, page.count);
      const fresh = page.rows.filter((row) => this.isNew(row)).length;
      if (fresh === 0) this.idlePages += 1;
      if (fresh < page.rows.length) this.repeats = true;
      const isIdle = this.idlePages > SPARE_PAGES || this.pages > this.greatestCount + SPARE_PAGES;
      if (isIdle || this.rows > MAX_ROWS) throw endless();
    }
  }

  private isNew(row: WorkbookRow): boolean {
    const first = this.firsts.get(row.id);
    if (first === undefined) {
      this.firsts.set(row.id, row);
      return true;
    }
    if (first.branch === row.branch && first.versionId === row.versionId) return false;
    const before = this.further.size;
    this.further.add(keyOf(row));
    return this.further.size > before;
  }
}

function endless(): MirrorError {
  return new MirrorError('listing.malformed', 'The pages of the list of workbooks do not end.', {
    hint: 'Nothing was deleted. If it stays, report it to the vendor of the service.',
  });
}
