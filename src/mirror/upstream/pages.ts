import { pageSchema } from '../../lib/api/schemas.ts';
import { joinSignals } from '../../lib/concurrency/concurrency.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { Cached } from './cached.ts';
import { credentialRefused, statusError } from './failures.ts';
import { digestOfBytes, parseJson, readWhole, wrongKind } from './json.ts';
import type { WorkbookRow } from './listing.ts';
import type { MalformedRow } from './malformed-rows.ts';
import { learnSteps, nextPageUrl, stepAhead } from './page-addresses.ts';
import { strongTag } from './resume.ts';
import type { Answer, Transport } from './transport.ts';
import { type DroppedRows, readWorkbookRows } from './workbook-rows.ts';

/** A page of the list of workbooks, as it was understood. */
export interface Page {
  /** The address that it came from. */
  readonly url: URL;
  readonly count: number;
  readonly next: URL | null;
  readonly rows: readonly WorkbookRow[];
  readonly malformed: readonly MalformedRow[];
  readonly dropped: DroppedRows;
}

/** A page, and what tells whether it has changed. */
export interface KnownPage {
  readonly page: Page;
  /** Of the bytes that it was understood from. */
  readonly digest: string;
  /** Strong entity tag, for conditional requests (RFC 9110, section 13.1.2); null where the service gives none. */
  readonly etag: string | null;
  /** Null where no cache gave it. */
  readonly cached: Cached | null;
}

/** All pages of a list, read once. */
export interface Reading {
  readonly pages: readonly Page[];
  readonly rows: readonly WorkbookRow[];
  /** Rows that could not be understood; their positions are those in the whole list. */
  readonly malformed: readonly MalformedRow[];
  /** Rows that nobody wants. */
  readonly dropped: number;
  /** Whether a row occurs twice. */
  readonly repeats: boolean;
  /** Whether a page that another one named was gone when it was asked for. */
  readonly isCut: boolean;
}

/**
 * The memory of the last reading of a list: a page of the same bytes is not parsed a second time, and a list of the same pages
 * is not judged again. Only the last reading of a list is kept, so that the memory grows with the list and no further.
 */
export class PageCache {
  private pages = new Map<string, KnownPage>();
  private reading: Reading | null = null;
  /** Whether pages may be asked for before the page before them has named them: until the service refuses one. */
  mayAskAhead = true;

  /** The page that an address gave last time. */
  page(target: string): KnownPage | null {
    return this.pages.get(target) ?? null;
  }

  /** The last reading, if it came to its end. */
  get last(): Reading | null {
    return this.reading;
  }

  /** Notes that a page has changed: the old one is forgotten at once, so that there are never two of all. */
  forget(target: string): void {
    if (this.pages.delete(target)) this.reading = null;
  }

  /** Keeps a reading that came to its end, and the pages that it was made from instead of all others. */
  keep(reading: Reading, pages: Map<string, KnownPage>): void {
    this.reading = reading.isCut ? null : reading;
    this.pages = pages;
  }
}

/** Whether the rows of a repository are wanted, by the name that the service gives it in the list of workbooks. */
export type WantsRepository = (repository: string) => boolean;

/** How many pages may be on their way before the page before them has named them. */
const MAX_AHEAD = 3;

/**
 * A list that is read once, page by page. Where the addresses of its pages go on by a number, some pages are asked for ahead, no
 * more than the list says that it has. Such an answer counts only once the page before it has named its address; one that
 * failed never counts, and ends asking ahead: for good where the service refused it.
 */
export class PageSource {
  private readonly transport: Transport;
  private readonly memory: PageCache;
  private readonly signal: AbortSignal;
  private readonly wants: WantsRepository;
  private readonly whileWanted: ReturnType<typeof joinSignals>;
  private readonly abandon = new AbortController();
  private readonly onTheWay = new Map<string, Promise<KnownPage | null>>();
  /** Addresses of the pages that were taken. */
  private readonly visited = new Set<string>();
  private mayAskAhead: boolean;
  private rowsTaken = 0;
  private latest: Page | null = null;
  private former: URL | null = null;

  constructor(transport: Transport, memory: PageCache, signal: AbortSignal, wants: WantsRepository) {
    this.wants = wants;
    this.transport = transport;
    this.memory = memory;
    this.signal = signal;
    this.whileWanted = joinSignals(signal, this.abandon.signal);
    this.mayAskAhead = memory.mayAskAhead;
  }

  /**
   * The page at an address; null where the service has none there.
   * @throws MirrorError `service.*`, `listing.malformed`, `credentials.refused`
   */
  async take(target: string | URL): Promise<KnownPage | null> {
    const foreseen = target instanceof URL ? this.takeForeseen(target) : undefined;
    const plain = foreseen === undefined ? this.ask(target, this.signal, false) : null;
    if (target instanceof URL) this.goAhead(target);
    let known = (await foreseen) ?? null;
    // A page that was asked for ahead and failed is asked for again: only an answer that is needed reports a problem.
    if (known === null || this.visited.has(known.page.url.href)) {
      known = (await (plain ?? this.ask(target, this.signal, false))).known;
    }
    if (known !== null) this.visited.add(known.page.url.href);
    this.latest = known?.page ?? null;
    this.rowsTaken += known === null ? 0 : rowsOf(known.page);
    return known;
  }

  /** Gives up requests that turned out not to be needed. To be called when the reading is over, however it ended. */
  close(): void {
    this.mayAskAhead = false;
    this.abandon.abort();
    this.whileWanted.leave();
    this.onTheWay.clear();
  }

  private takeForeseen(target: URL): Promise<KnownPage | null> | undefined {
    const foreseen = this.onTheWay.get(target.href);
    if (foreseen === undefined && this.onTheWay.size > 0) this.close();
    this.onTheWay.delete(target.href);
    return foreseen;
  }

  private goAhead(target: URL): void {
    const steps = this.former === null ? null : learnSteps(this.former, target);
    this.former = target;
    const { latest } = this;
    if (!this.mayAskAhead || steps === null || latest === null) return;
    for (let pages = 1; pages <= MAX_AHEAD && rowsOf(latest) > 0; pages += 1) {
      if (this.rowsTaken + pages * rowsOf(latest) >= latest.count) return;
      const further = stepAhead(steps, pages);
      if (!this.onTheWay.has(further.href)) this.onTheWay.set(further.href, this.askAhead(further));
    }
  }

  private async askAhead(target: URL): Promise<KnownPage | null> {
    try {
      const { known, status } = await this.ask(target, this.whileWanted.signal, true);
      if (known !== null) return known;
      if (status >= 400) this.memory.mayAskAhead = false;
    } catch (error) {
      if (error instanceof MirrorError && error.code === 'credentials.refused')
        this.memory.mayAskAhead = false;
    }
    this.close();
    return null;
  }

  /** The page that an address gave last time, unless rows are wanted now that were dropped then. */
  private knownPage(key: string): KnownPage | null {
    const known = this.memory.page(key);
    if (known === null || ![...known.page.dropped.repositories].some(this.wants)) return known;
    this.memory.forget(key);
    return null;
  }

  /** @param isTentative whether the answer may turn out not to be needed: then a refusal is no failure */
  private async ask(
    target: string | URL,
    signal: AbortSignal,
    isTentative: boolean,
  ): Promise<{ readonly known: KnownPage | null; readonly status: number }> {
    const key = target.toString();
    for (let before = this.knownPage(key); ; before = null) {
      const headers: Record<string, string> = {};
      if (typeof before?.etag === 'string') headers['if-none-match'] = before.etag;
      const request = { generation: 'v1', judgesKey: true, target, signal, headers, isTentative } as const;
      const { status, known } = await this.transport.send(request, async (answer) => {
        if (this.visited.has(answer.url.href)) throw circular(answer.url);
        if (answer.status === 404 || (isTentative && answer.status >= 400))
          return { status: answer.status, known: null };
        return { status: answer.status, known: await readPage(answer, this.transport, before, this.wants) };
      });
      if (known === null && status !== 404) return { status, known };
      if (before !== null && (known === 'of-another-place' || known?.page !== before.page))
        this.memory.forget(key);
      if (known !== 'of-another-place') return { status, known };
    }
  }
}

/** How many rows a page has, the dropped ones among them. */
export function rowsOf({ rows, malformed, dropped }: Page): number {
  return rows.length + malformed.length + dropped.digests.length;
}

function circular({ search }: URL): MirrorError {
  return new MirrorError(
    'listing.malformed',
    `The pages of the list of workbooks lead in a circle: ${search}.`,
  );
}

/** Reads a page, unless it is the one that is known; `of-another-place` when what the service knows of it is not. */
async function readPage(
  answer: Answer,
  { limits }: Transport,
  before: KnownPage | null,
  wants: WantsRepository,
): Promise<KnownPage | 'of-another-place'> {
  const { status, url } = answer;
  // What `next` refers to depends on where the page comes from, and a redirect may lead elsewhere.
  const isSamePlace = before?.page.url.href === url.href;
  if (status === 304 && before !== null && before.etag !== null)
    return isSamePlace ? { ...before, cached: answer.cached } : 'of-another-place';
  if (status === 403) throw credentialRefused('v1', 403, url, answer.keys);
  if (status !== 200) throw statusError(status, url, undefined);
  const etag = strongTag(answer.headers['etag']);
  return readWhole(answer, limits, (pieces) => {
    const digest = digestOfBytes(pieces);
    const isKnown = before?.digest === digest && isSamePlace;
    const page = isKnown ? before.page : understand(answer, pieces, wants);
    return { page, digest, etag, cached: answer.cached };
  });
}

function understand(answer: Answer, pieces: readonly Uint8Array[], wants: WantsRepository): Page {
  const parsed = pageSchema.safeParse(parseJson(answer, pieces));
  if (!parsed.success) throw wrongKind(answer, 'JSON that is not a page of workbooks', parsed.error);
  const { count, next, results } = parsed.data;
  return {
    url: answer.url,
    count,
    next: next === null || next === undefined || next === '' ? null : nextPageUrl(next, answer.url),
    ...readWorkbookRows(results, wants),
  };
}
