import { type WorkbookStatusFilter, workbooksPath } from '../../lib/api/requests.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { WorkbookRow } from './listing.ts';
import { type KnownPage, PageCache, type ListReading, type Page } from './page-cache.ts';
import { PageSource } from './page-source.ts';
import { checkCompleteness, sameRows } from './pages.ts';
import type { Transport } from './transport.ts';

/** The list of workbooks, all pages of it. */
export interface WorkbookList {
  /** The same value as long as nothing has changed, where the same memory is used. */
  readonly rows: readonly WorkbookRow[];
  /** The rows page by page; each the same value as long as its page has not changed. */
  readonly pages: readonly (readonly WorkbookRow[])[];
  /** False when absence from it proves nothing. */
  readonly isComplete: boolean;
  readonly problems: readonly string[];
}

const MAX_READINGS = 4;

/** Pages without a row that was not seen before: some services give a few empty ones. */
const SPARE_PAGES = 1000;

/** More workbooks than any service has, and than fit into memory; stops pages that are made up as they are asked for. */
const MAX_ROWS = 2_000_000;

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
  memory = new PageCache(),
): Promise<WorkbookList | null> {
  if (!transport.hasCredential('v1')) return null;
  let previous: ListReading | null = null;
  let why = '';
  for (let readings = 0; readings < MAX_READINGS; readings += 1) {
    const reading = await readAllPages(transport, signal, workbooksPath(status), memory);
    if (reading === null) return null;
    const judgement = checkCompleteness(reading);
    const problems =
      reading.malformed === 0 ? [] : [`${reading.malformed} rows of the list of workbooks are malformed`];
    const { rows } = reading;
    const pages = reading.pages.map((page) => page.rows);
    if (judgement.kind === 'complete') {
      return { rows, pages, isComplete: reading.malformed === 0, problems };
    }
    why = judgement.why;
    if (previous !== null && !reading.isCut && sameRows(previous, reading, keyOf)) {
      return { rows, pages, isComplete: false, problems: [...problems, `in the list of workbooks ${why}`] };
    }
    previous = reading;
  }
  throw new MirrorError(
    'listing.inconsistent',
    `The list of workbooks changes faster than it can be read: ${why}.`,
    {
      hint: 'Nothing was deleted. It is tried again by itself.',
    },
  );
}

function keyOf({ id, branch, versionId }: WorkbookRow): string {
  return JSON.stringify([id, branch, versionId]);
}

async function readAllPages(
  transport: Transport,
  signal: AbortSignal,
  path: string,
  memory: PageCache,
): Promise<ListReading | null> {
  const source = new PageSource(transport, memory, signal);
  const asked = new Map<string, KnownPage>();
  const pages: Page[] = [];
  const reader = new ListingReader(memory);
  let isCut = false;
  let target: string | URL | null = path;
  try {
    while (target !== null) {
      const known: KnownPage | null = await source.take(target);
      if (known === null) {
        if (pages.length === 0) return null;
        isCut = true;
        break;
      }
      const { page } = known;
      asked.set(target.toString(), known);
      pages.push(page);
      reader.follow(pages);
      target = page.next;
    }
  } finally {
    source.close();
  }
  const reading = reader.end(pages, isCut);
  memory.keep(reading, asked);
  return reading;
}

/** Watches the pages of a reading come. As long as they are those of the last one, what they come to is known. */
class ListingReader {
  private readonly memory: PageCache;
  private readonly seen = new SeenRows();
  private watched = 0;
  private rows = 0;
  private idlePages = 0;
  private greatestCount = 0;

  constructor(memory: PageCache) {
    this.memory = memory;
  }

  /** Looks at the page that came last. @throws MirrorError `listing.malformed` when the pages do not end */
  follow(pages: readonly Page[]): void {
    const at = pages.length - 1;
    if (this.watched > 0 || this.memory.last?.pages[at] !== pages[at]) this.watch(pages);
  }

  /** What the whole reading comes to. */
  end(pages: readonly Page[], isCut: boolean): ListReading {
    const { last } = this.memory;
    // The same pages name the same next ones, down to the last.
    if (last !== null && !isCut && this.watched === 0) return last;
    this.watch(pages);
    return {
      pages,
      rows: pages.flatMap((page) => page.rows),
      counts: pages.map((page) => page.count),
      malformed: pages.reduce((sum, page) => sum + page.malformed, 0),
      repeats: this.seen.repeats,
      isCut,
    };
  }

  private watch(pages: readonly Page[]): void {
    for (const page of pages.slice(this.watched)) {
      this.watched += 1;
      this.rows += page.rows.length + page.malformed;
      this.greatestCount = Math.max(this.greatestCount, page.count);
      if (!this.seen.add(page.rows)) this.idlePages += 1;
      const isIdle = this.idlePages > SPARE_PAGES || this.watched > this.greatestCount + SPARE_PAGES;
      if (isIdle || this.rows > MAX_ROWS) throw endless();
    }
  }
}

/** Tells rows that were seen before: the same version of the same workbook on the same branch. */
class SeenRows {
  /** Whether a row came twice. */
  repeats = false;
  private readonly firsts = new Map<string, WorkbookRow>();
  /** Keys of the further rows of workbooks, which most workbooks have not. */
  private readonly further = new Set<string>();

  /** Notes the rows of a page; gives whether there is one among them that was not seen before. */
  add(rows: readonly WorkbookRow[]): boolean {
    let isNew = false;
    for (const row of rows) {
      if (this.isNew(row)) isNew = true;
      else this.repeats = true;
    }
    return isNew;
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
    hint: 'Nothing was deleted. It is tried again by itself; if it stays, report it to the maker of the service.',
  });
}
