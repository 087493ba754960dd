import { Places } from '../../lib/concurrency/concurrency.ts';
import { shareWork, type SharedWork } from '../../lib/concurrency/shared-work.ts';
import { roughDuration } from '../../lib/text/humanize.ts';
import { backOffDelayMs, LONGEST_TIMER_MS } from '../../lib/time/back-off.ts';
import type { RegisteredRepository } from '../git/repository-index.ts';
import { adviceOf, type Tell } from '../git/tell.ts';
import { RemoteError } from './errors.ts';

/**
 * Updates a repository from its source, or clones it, and returns whether anything was different.
 * @param onChange called when there is something to fetch
 */
type Pull = (repository: RegisteredRepository, onChange: () => void) => Promise<boolean>;

/** How many comparisons and fetches run at once, and as many clones beside them: a slow host may take hours for one. */
const AT_ONCE = 4;
const DAY_MS = 86_400_000;
/** Waits after failures; a repository that is too large is downloaded at most once a day. */
const BACK_OFF = { firstDelayMs: 10_000, maxDelayMs: 3_600_000 };

/** The fetches of a repository. */
interface FetchState {
  /** Fetches; requests during a fetch share the next one. They take turns, as git locks the branches. */
  readonly fetch: SharedWork<void>;
  /** Whether changes are coming. */
  isFetching: boolean;
  /** Why the last fetch failed; null if it succeeded. */
  error: unknown;
  /** Number of failures in a row. */
  failures: number;
  /** Starts the next fetch after a failure. */
  timer?: NodeJS.Timeout;
}

/** Fetches the external repositories of a list, and immediately those that were never fetched. */
export class Fetches {
  /** Called with the id of a repository that a fetch changed; must not throw. */
  onFetched: (id: string) => void = () => {};
  private readonly list: () => readonly RegisteredRepository[];
  private readonly tell: Tell;
  private readonly pull: Pull;
  private readonly states = new Map<string, FetchState>();
  private readonly places = new Places(AT_ONCE);
  private readonly clones = new Places(AT_ONCE);
  private comparisons: NodeJS.Timeout | undefined;
  private isClosed = false;

  /** @param tell receives the outcomes, but only the first of several failures in a row */
  constructor(list: () => readonly RegisteredRepository[], tell: Tell, pull: Pull) {
    this.list = list;
    this.tell = tell;
    this.pull = pull;
    for (const { id, cloned } of list()) if (!cloned) this.soon(id);
  }

  /** Whether changes of a repository are coming. */
  isFetching(id: string): boolean {
    return this.states.get(id)?.isFetching === true;
  }

  /** Why the last fetch failed; null if it succeeded. */
  errorOf(id: string): unknown {
    return this.states.get(id)?.error ?? null;
  }

  /**
   * Fetches what changed, and waits for it; requests during a fetch, also while it waits for its place, share the next one. Does
   * nothing for a repository that is not external. After a failure it is repeated.
   * @throws RemoteError when it cannot be fetched
   */
  fetch(id: string): Promise<void> {
    const known = this.states.get(id);
    if (known !== undefined) return known.fetch();
    const state: FetchState = {
      fetch: shareWork(() => {
        const places = this.find(id)?.cloned === false ? this.clones : this.places;
        return places.run(() => this.fetchInTurn(id, state));
      }),
      isFetching: false,
      error: null,
      failures: 0,
    };
    this.states.set(id, state);
    return state.fetch();
  }

  /** As `fetch`, without waiting. Returns false for a repository that is not external. */
  soon(id: string): boolean {
    if ((this.find(id)?.source ?? null) === null) return false;
    // A failure has been reported by then.
    this.fetch(id).catch(() => undefined);
    return true;
  }

  /** Compares the cloned external repositories with their sources, immediately and then regularly, except those that failed. */
  startComparing(intervalMs: number): void {
    const compare = (): void => {
      // A fetch that is requested during a first clone would start right after its failure.
      for (const { id, cloned } of this.list()) if (cloned && this.errorOf(id) === null) this.soon(id);
    };
    compare();
    this.comparisons = setInterval(compare, Math.min(intervalMs, LONGEST_TIMER_MS));
  }

  /** Starts nothing more, and waits for running fetches. */
  async close(): Promise<void> {
    this.isClosed = true;
    clearInterval(this.comparisons);
    for (const { timer } of this.states.values()) clearTimeout(timer);
    // The next fetch of each does nothing, and begins when the running one has ended.
    await Promise.all([...this.states.values()].map((state) => state.fetch()));
  }

  private find(id: string): RegisteredRepository | undefined {
    return this.list().find((row) => row.id === id);
  }

  private async fetchInTurn(id: string, state: FetchState): Promise<void> {
    clearTimeout(state.timer);
    const repository = this.find(id);
    if (this.isClosed || repository === undefined || repository.source === null) return;
    const { full_name: name, cloned } = repository;
    try {
      const isChanged = await this.pull(repository, () => {
        state.isFetching = true;
      });
      if (isChanged) {
        this.tell(`${name}: ${cloned ? 'fetched what changed' : 'cloned'}`);
        this.onFetched(id);
      }
      if (state.error !== null) this.tell(`${name}: can be fetched again`);
      Object.assign(state, { error: null, failures: 0 });
    } catch (error) {
      this.putOff(repository, state, error);
      throw error;
    } finally {
      state.isFetching = false;
    }
  }

  private putOff({ id, full_name, cloned }: RegisteredRepository, state: FetchState, error: unknown): void {
    // A program that is ended because the service ends has not failed.
    if (this.isClosed) return;
    state.error = error;
    state.failures += 1;
    const isTooLarge = error instanceof RemoteError && error.trouble === 'too_large';
    const delayMs = isTooLarge ? DAY_MS : backOffDelayMs(BACK_OFF, state.failures, Math.random());
    state.timer = setTimeout(() => this.soon(id), delayMs);
    if (state.failures > 1) return;
    const what = cloned
      ? 'cannot be fetched; the data from the last fetch stays'
      : 'cannot be cloned, and has no contents until then';
    const next = `It is tried again in ${roughDuration(delayMs)}, then later each time`;
    this.tell(`${full_name}: ${what}. ${next}: ${adviceOf(error)}`, 'warn');
  }
}
