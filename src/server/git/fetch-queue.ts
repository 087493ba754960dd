import { LONGEST_TIMER_MS } from '../../lib/time/longest-timer.ts';
import { Places } from '../../lib/concurrency/places.ts';
import { waitAtMost } from '../../lib/concurrency/shared-work.ts';
import { backOffDelayMs, type BackOffPolicy } from '../../lib/time/back-off.ts';
import type { RegisteredRepository } from './registry-index.ts';

/** The work that is done on repositories, by their ids. */
export interface FetchWork {
  /** A first clone may take hours: it has places of its own, so that it keeps no fetch waiting. */
  readonly isLong: (id: string) => boolean;
  /** The server that it has to do with. */
  readonly hostOf: (id: string) => string;
  readonly run: (id: string) => Promise<void>;
  /** Called for every failure. */
  readonly onFailing: (id: string, failure: FetchFailure) => void;
  /** The first success after failures. */
  readonly onRecovered: (id: string) => void;
}

/** How a piece of work failed. */
export interface FetchFailure {
  readonly error: unknown;
  /** How long it is until the next attempt, in milliseconds. */
  readonly nextAttemptMs: number;
  /** Whether a person should hear of it: of the first failure in a row, and then of one a day. */
  readonly isNews: boolean;
}

/** How many comparisons and fetches run at once, and how many first clones beside them. */
const FETCHES_AT_ONCE = 4;
const CLONES_AT_ONCE = 2;

/** Servers that are slow keep these places no longer than this, in milliseconds; the work goes on beside them. */
const PATIENCE_MS = 300_000;

/** How much of a kind may have to do with one server, in places and beside them. */
const AT_ONCE_PER_HOST = 4;

/** The time between two reports of work that fails again and again, in milliseconds. */
const NEWS_INTERVAL_MS = 86_400_000;

/** Waits after failures, in milliseconds. */
const FETCH_BACK_OFF: BackOffPolicy = { firstDelayMs: 10_000, maxDelayMs: 3_600_000 };

interface Entry {
  state: 'idle' | 'waiting' | 'running';
  /** How often somebody asked. */
  asks: number;
  failures: number;
  /** When failures that have not ended were last reported, by performance.now(). */
  toldMs: number | null;
  retry: NodeJS.Timeout | null;
  done: Promise<void>;
}

/** Gives work a place at its server first, so that what waits for one server takes no place from others. */
function createPlaces(count: number) {
  const all = new Places(count);
  const hosts = new Map<string, Places>();
  return (host: string, work: () => Promise<void>): Promise<void> => {
    const atHost = hosts.get(host) ?? new Places(AT_ONCE_PER_HOST);
    hosts.set(host, atHost);
    return atHost.run(() => runYielding(all, PATIENCE_MS, work));
  };
}

/** Does work in a place, which the next one gets when it takes longer than this; it goes on outside the count then. */
export async function runYielding<T>(places: Places, patienceMs: number, work: () => Promise<T>): Promise<T> {
  const running = await places.run(async () => {
    const result = work();
    await waitAtMost(
      result.catch(() => undefined),
      patienceMs,
    );
    // Wrapped: a promise that is given back is waited for.
    return { result };
  });
  return running.result;
}

/** Decides when which repository is fetched. */
export class FetchQueue {
  private readonly entries = new Map<string, Entry>();
  private readonly inShortPlace = createPlaces(FETCHES_AT_ONCE);
  private readonly inLongPlace = createPlaces(CLONES_AT_ONCE);
  private readonly delayAfterMs: (failures: number) => number;
  private readonly work: FetchWork;
  private isClosed = false;

  constructor(work: FetchWork, backOff = FETCH_BACK_OFF, random = Math.random) {
    this.work = work;
    this.delayAfterMs = (failures) => backOffDelayMs(backOff, failures, random());
  }

  /**
   * Asks for a fetch at once. Requests that come while one waits share it; those that come while one runs share one more after
   * it.
   */
  ask(id: string): void {
    const entry = this.entryOf(id);
    entry.asks += 1;
    if (entry.state === 'idle') this.start(id, entry);
  }

  /** Asks for a fetch where none is under way and none is put off because of a failure. */
  remind(id: string): void {
    const entry = this.entryOf(id);
    if (entry.state === 'idle' && entry.retry === null) this.start(id, entry);
  }

  /** Starts nothing any more, and waits for what runs. */
  async close(): Promise<void> {
    this.isClosed = true;
    const entries = [...this.entries.values()];
    for (const { retry } of entries) if (retry !== null) clearTimeout(retry);
    await Promise.all(entries.map(({ done }) => done));
  }

  private entryOf(id: string): Entry {
    const idle = { state: 'idle', asks: 0, failures: 0, toldMs: null, retry: null } as const;
    const entry: Entry = this.entries.get(id) ?? { ...idle, done: Promise.resolve() };
    this.entries.set(id, entry);
    return entry;
  }

  private start(id: string, entry: Entry): void {
    if (this.isClosed) return;
    if (entry.retry !== null) clearTimeout(entry.retry);
    entry.retry = null;
    entry.state = 'waiting';
    const inPlace = this.work.isLong(id) ? this.inLongPlace : this.inShortPlace;
    entry.done = inPlace(this.work.hostOf(id), () => this.run(id, entry));
  }

  private async run(id: string, entry: Entry): Promise<void> {
    if (this.isClosed) return;
    entry.state = 'running';
    const { asks } = entry;
    try {
      await this.work.run(id);
      if (entry.failures > 0) this.work.onRecovered(id);
      entry.failures = 0;
      entry.toldMs = null;
    } catch (error) {
      this.fail(id, entry, error);
    }
    entry.state = 'idle';
    if (entry.asks > asks) this.start(id, entry);
  }

  private fail(id: string, entry: Entry, error: unknown): void {
    // What is ended because everything ends has not failed.
    if (this.isClosed) return;
    entry.failures += 1;
    const nextAttemptMs = this.delayAfterMs(entry.failures);
    entry.retry = setTimeout(() => this.start(id, entry), Math.min(nextAttemptMs, LONGEST_TIMER_MS));
    const nowMs = performance.now();
    const isNews = entry.toldMs === null || nowMs - entry.toldMs >= NEWS_INTERVAL_MS;
    if (isNews) entry.toldMs = nowMs;
    this.work.onFailing(id, { error, nextAttemptMs, isNews });
  }
}

/** Node's timers take no longer wait (2^31 - 1 ms), and this is soon enough to find out about new repositories. */
const LONGEST_WAIT_MS = 60_000;

/**
 * Decides which repository is next, and when the one after it: each has its turn once in an interval, and no two at once.
 * @param ids the external repositories in the order they were created
 * @param previous the one whose turn was last; null at the beginning
 */
export function nextTurn(
  ids: readonly string[],
  previous: string | null,
  intervalMs: number,
): { readonly id: string | null; readonly waitMs: number } {
  const at = previous === null ? 0 : ids.indexOf(previous) + 1;
  return { id: ids[at] ?? ids[0] ?? null, waitMs: intervalMs / Math.max(1, ids.length) };
}

/**
 * Starts to compare all external repositories with where they come from: at once first, for what happened while nobody looked;
 * then they take turns.
 * @param intervalMs how often each is compared, in milliseconds
 */
export function createFetching(
  {
    list,
    fetches,
  }: {
    readonly list: () => readonly RegisteredRepository[];
    readonly fetches: { readonly whenDue: (id: string) => void };
  },
  { intervalMs }: { readonly intervalMs: number },
): { readonly close: () => void } {
  const external = (): string[] => list().flatMap(({ id, source }) => (source === null ? [] : [id]));
  let previous: string | null = null;
  let lastTurnMs = performance.now();
  let timer: NodeJS.Timeout;

  function look(): void {
    const { id, waitMs } = nextTurn(external(), previous, intervalMs);
    const leftMs = lastTurnMs + waitMs - performance.now();
    if (leftMs <= 0) {
      lastTurnMs = performance.now();
      previous = id;
      if (id !== null) fetches.whenDue(id);
    }
    timer = setTimeout(look, Math.min(LONGEST_WAIT_MS, leftMs <= 0 ? waitMs : leftMs));
  }

  for (const id of external()) fetches.whenDue(id);
  look();
  return { close: () => clearTimeout(timer) };
}
