import { type WorkbookStatusFilter, workbooksPath } from '../../lib/api/requests.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type Cached, olderOf } from './cached.ts';
import type { WorkbookRow } from './listing.ts';
import { type MalformedRow, malformedSentences } from './malformed-rows.ts';
import {
  type KnownPage,
  type Page,
  PageCache,
  PageSource,
  type Reading,
  rowsOf,
  type WantsRepository,
} from './pages.ts';
import type { Transport } from './transport.ts';

/** The list of workbooks, all pages of it. */
export interface WorkbookList {
  /** The same value as long as nothing has changed, where the same memory is used. */
  readonly rows: readonly WorkbookRow[];
  /** The rows page by page; each the same value as long as its page has not changed. */
  readonly pages: readonly (readonly WorkbookRow[])[];
  /** Rows that could not be understood. */
  readonly malformed: readonly MalformedRow[];
  /** False when absence from it proves nothing. */
  readonly isComplete: boolean;
  readonly problems: readonly string[];
  /** The oldest of its pages that a cache gave; null where none did. */
  readonly cached: Cached | null;
}

const MAX_READINGS = 4;

/**
 * Reads all pages of the list of workbooks. A list whose pages disagree is read again until it agrees with itself, or
 * until two readings in a row give the same rows: then nothing shifted, but absence from it still proves nothing.
 * @param memory what is known of this list from the last time; written to
 * @param wants rows of other repositories are dropped as they are read, and counted
 * @returns null where the service has no v1: no token is configured, or it answers 404
 * @throws MirrorError `listing.inconsistent`, `listing.malformed`, `service.*`, `credentials.refused`
 */
export async function readWorkbooks(
  transport: Transport,
  signal: AbortSignal,
  status?: WorkbookStatusFilter,
  memory = new PageCache(),
  wants: WantsRepository = () => true,
): Promise<WorkbookList | null> {
  if (!transport.hasCredential('v1')) return null;
  let previous: Reading | null = null;
  let doubt: string | null = null;
  for (let readings = 0; readings < MAX_READINGS; readings += 1) {
    const answer = await readAllPages(transport, signal, workbooksPath(status), memory, wants);
    if (answer === null) return null;
    const { reading, cached } = answer;
    doubt = doubtAbout(reading);
    const isStable = previous !== null && !reading.isCut && sameRows(previous, reading);
    if (doubt === null || isStable) return { ...listOf(reading, doubt), cached };
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

function listOf({ rows, pages, malformed }: Reading, doubt: string | null): Omit<WorkbookList, 'cached'> {
  return {
    rows,
    pages: pages.map((page) => page.rows),
    malformed,
    isComplete: doubt === null && malformed.length === 0,
    problems: [
      ...malformedSentences('workbooks', malformed, consequenceOf),
      ...(doubt === null ? [] : [`in the list of workbooks ${doubt}`]),
    ],
  };
}

function consequenceOf({ repository }: MalformedRow): string {
  return repository === null
    ? 'it does not tell its repository, so that the list verifies no target'
    : `the contents of ${JSON.stringify(repository)} are compared as a whole`;
}

/** Why pages may have shifted while they were read; null where their counts agree with each other and with the rows. */
export function doubtAbout({ pages, rows, malformed, dropped, repeats, isCut }: Reading): string | null {
  const [first] = pages;
  const total = rows.length + malformed.length + dropped;
  if (isCut) return 'a page was gone while it was read';
  if (first === undefined) return 'there was no page';
  if (pages.some(({ count }) => count !== first.count)) return 'the count changed from page to page';
  if (first.count !== total) return `the count says ${first.count}, the pages hold ${total} rows`;
  return repeats ? 'a row occurs twice' : null;
}

/** Whether two readings hold the same rows. */
export function sameRows(one: Reading, other: Reading): boolean {
  if (one.rows.length !== other.rows.length || one.malformed.length !== other.malformed.length) return false;
  if (one.dropped !== other.dropped) return false;
  if (one.rows === other.rows) return true;
  const a = one.rows.map(keyOf).sort();
  const b = other.rows.map(keyOf).sort();
  return a.every((key, index) => key === b[index]);
}

function keyOf({ id, branch, versionId }: WorkbookRow): string {
  return JSON.stringify([id, branch, versionId]);
}

async function readAllPages(
  transport: Transport,
  signal: AbortSignal,
  path: string,
  memory: PageCache,
  wants: WantsRepository,
): Promise<{ readonly reading: Reading; readonly cached: Cached | null } | null> {
  const source = new PageSource(transport, memory, signal, wants);
  const taken = new Map<string, KnownPage>();
  const pages: Page[] = [];
  const watch = new PageWatch();
  let isAsBefore = true;
  let target: string | URL | null = path;
  try {
    while (target !== null) {
      const known = await source.take(target);
      if (known === null) break;
      taken.set(target.toString(), known);
      pages.push(known.page);
      // As long as the pages are those of the last reading, it is known what they come to.
      isAsBefore &&= memory.last?.pages[pages.length - 1] === known.page;
      if (!isAsBefore) watch.follow(pages);
      target = known.page.next;
    }
  } finally {
    source.close();
  }
  if (pages.length === 0) return null;
  const isCut = target !== null;
  const before = isAsBefore && !isCut ? memory.last : null;
  const reading = before ?? readingOf(pages, watch, isCut);
  memory.keep(reading, taken);
  return { reading, cached: [...taken.values()].map((known) => known.cached).reduce(olderOf, null) };
}

function readingOf(pages: readonly Page[], watch: PageWatch, isCut: boolean): Reading {
  watch.follow(pages);
  return {
    pages,
    rows: pages.flatMap((page) => page.rows),
    malformed: malformedIn(pages),
    dropped: pages.reduce((sum, page) => sum + page.dropped.digests.length, 0),
    repeats: watch.repeats,
    isCut,
  };
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

/** Pages without a row that was not seen before: some services give a few empty ones. */
const SPARE_PAGES = 1000;

/** More workbooks than fit into memory; stops pages that are made up as they are asked for. */
const MAX_ROWS = 2_000_000;

/** More workbooks than any service has: of a dropped row little is kept. */
const MAX_ROWS_IN_ALL = 200_000_000;

/** Watches the pages of a reading: whether they end, and whether a row comes twice. */
class PageWatch {
  /** Whether a row came twice: the same version of the same workbook on the same branch. */
  repeats = false;
  private readonly firsts = new Map<string, WorkbookRow>();
  /** Keys of the further rows of workbooks, which most workbooks have not. */
  private readonly further = new Set<string>();
  /** Digests of the rows of the page before that were dropped. */
  private droppedBefore: ReadonlySet<number> = new Set();
  private pages = 0;
  private rows = 0;
  private rowsInAll = 0;
  private idlePages = 0;
  private greatestCount = 0;

  /** Looks at the pages that it has not seen yet. @throws MirrorError `listing.malformed` when the pages do not end */
  follow(pages: readonly Page[]): void {
    for (const page of pages.slice(this.pages)) {
      this.pages += 1;
      this.rows += page.rows.length + page.malformed.length;
      this.rowsInAll += rowsOf(page);
      this.greatestCount = Math.max(this.greatestCount, page.count);
      const fresh = page.rows.filter((row) => this.isNew(row)).length + this.freshDropped(page);
      if (fresh === 0) this.idlePages += 1;
      if (fresh < rowsOf(page) - page.malformed.length) this.repeats = true;
      const isIdle = this.idlePages > SPARE_PAGES || this.pages > this.greatestCount + SPARE_PAGES;
      if (isIdle || this.rows > MAX_ROWS || this.rowsInAll > MAX_ROWS_IN_ALL) throw endless();
    }
  }

  /**
   * How many dropped rows of a page do not come twice, as far as this page and the one before tell: pages that shift while they are
   * read repeat their neighbour.
   */
  private freshDropped({ dropped: { digests } }: Page): number {
    const before = this.droppedBefore;
    const present = new Set(digests);
    this.droppedBefore = present;
    return before.size === 0 ? present.size : [...present].filter((digest) => !before.has(digest)).length;
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
