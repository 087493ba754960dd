import { pageSchema } from '../../lib/api/schemas.ts';
import { joinSignals } from '../../lib/concurrency/concurrency.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { learnSteps, stepAhead } from './read-ahead.ts';
import { credentialRefused, statusError } from './failures.ts';
import { parseJson, readWhole, wrongKind } from './json.ts';
import { digestOfBytes, type KnownPage, type PageCache, type Page } from './page-cache.ts';
import { nextPageUrl } from './pages.ts';
import { strongTag } from './resume.ts';
import type { Answer, Transport, TransportRequest } from './transport.ts';
import { readWorkbookRows } from './workbook-rows.ts';

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
  private readonly whileWanted: ReturnType<typeof joinSignals>;
  private readonly abandon = new AbortController();
  private readonly onTheWay = new Map<string, Promise<KnownPage | null>>();
  /** Addresses of the pages that were taken. */
  private readonly visited = new Set<string>();
  private mayAskAhead: boolean;
  private rowsTaken = 0;
  private latest: Page | null = null;
  private former: URL | null = null;

  constructor(transport: Transport, memory: PageCache, signal: AbortSignal) {
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
    const plain = foreseen === undefined ? this.ask(target, this.signal) : null;
    if (target instanceof URL) this.goAhead(target);
    let known = (await foreseen) ?? null;
    // What is wrong with a page is told by an answer that was needed.
    if (known === null || this.visited.has(known.page.url.href)) {
      known = await (plain ?? this.ask(target, this.signal));
    }
    if (known !== null) this.visited.add(known.page.url.href);
    this.latest = known?.page ?? null;
    this.rowsTaken += known === null ? 0 : rowsOf(known.page);
    return known;
  }

  /** Gives up what was asked for and turned out not to be needed. To be called when the reading is over, however it ended. */
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
      if (!this.onTheWay.has(further.href)) this.onTheWay.set(further.href, this.askTentatively(further));
    }
  }

  private async askTentatively(target: URL): Promise<KnownPage | null> {
    let status = 0;
    const onStatus = (latest: number): void => {
      status = latest;
    };
    const known = await this.ask(target, this.whileWanted.signal, { isTentative: true, onStatus }).catch(
      () => null,
    );
    if (known !== null) return known;
    if (status >= 400) this.memory.refuseAhead();
    this.close();
    return null;
  }

  private async ask(
    target: string | URL,
    signal: AbortSignal,
    tentative: Pick<TransportRequest, 'isTentative' | 'onStatus'> = {},
  ): Promise<KnownPage | null> {
    const key = target.toString();
    const before = this.memory.page(key);
    const etag = before?.etag ?? null;
    const headers = etag === null ? {} : { 'if-none-match': etag };
    const known = await this.transport.send(
      { generation: 'v1', judgesKey: true, target, signal, headers, ...tentative },
      (answer) => {
        if (this.visited.has(answer.url.href)) throw circular(answer.url);
        return readPage(answer, this.transport, before);
      },
    );
    if (known !== 'of-another-place') {
      if (before !== null && known?.page !== before.page) this.memory.forget(key);
      return known;
    }
    this.memory.forget(key);
    return this.ask(target, signal, tentative);
  }
}

function rowsOf({ rows, malformed }: Page): number {
  return rows.length + malformed;
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
): Promise<KnownPage | 'of-another-place' | null> {
  const { status, url } = answer;
  // What `next` refers to depends on where the page comes from, and a redirect may lead elsewhere.
  const isSamePlace = before?.page.url.href === url.href;
  if (status === 304 && before !== null && before.etag !== null)
    return isSamePlace ? before : 'of-another-place';
  if (status === 404) return null;
  if (status === 403) throw credentialRefused('v1', 403, url, [answer.keyPlace]);
  if (status !== 200) throw statusError(status, url, undefined);
  const pieces = await readWhole(answer, limits);
  const digest = digestOfBytes(pieces);
  const etag = strongTag(answer.headers['etag']);
  if (before?.digest === digest && isSamePlace) return { page: before.page, digest, etag };
  return { page: understand(answer, pieces), digest, etag };
}

function understand(answer: Answer, pieces: readonly Uint8Array[]): Page {
  const parsed = pageSchema.safeParse(parseJson(answer, pieces));
  if (!parsed.success) throw wrongKind(answer, 'JSON that is not a page of workbooks', parsed.error);
  const { count, next, results } = parsed.data;
  return {
    url: answer.url,
    count,
    next: next === null || next === undefined || next === '' ? null : nextPageUrl(next, answer.url),
    ...readWorkbookRows(results),
  };
}
