import { Places } from '../../lib/concurrency/concurrency.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { backOffDelayMs, LONGEST_TIMER_MS } from '../../lib/time/back-off.ts';
import { roughDuration } from '../../lib/text/humanize.ts';
import type { RegisteredRepository, RepositoryIndex } from '../git/repository-index.ts';
import { adviceOf, type Tell } from '../git/tell.ts';
import { DamagedError, RemoteError } from './errors.ts';

/** Why a repository could not be fetched the last time. */
export interface FetchProblem {
  readonly error: unknown;
  readonly nextAttempt: Date;
}

/** Copies external repositories to the service. */
export interface FetchWays {
  /**
   * Updates a repository from its source, and returns whether anything was different.
   * @param onChange called when there is something to fetch
   * @throws DamagedError when the local copy cannot be read
   */
  readonly pull: (repository: RegisteredRepository, onChange: () => void) => Promise<boolean>;
  /** Replaces the repository by a new clone. */
  readonly clone: (repository: RegisteredRepository) => Promise<unknown>;
  /** Called with the id of a repository that a fetch changed; must not throw. */
  readonly onFetched: (id: string) => void;
}

/** How many clones, comparisons and fetches run at once. */
const AT_ONCE = 4;
const DAY_MS = 86_400_000;
/** Waits after failures; a repository that is too large is downloaded at most once a day. */
const BACK_OFF = { firstDelayMs: 10_000, maxDelayMs: 3_600_000 };

/** The fetches of a repository so far. */
class FetchState {
  /** Settles when all fetches so far have ended; never rejects. They take turns, as git locks the branches. */
  last: Promise<unknown> = Promise.resolve();
  /** Number of requested fetches that have not ended. */
  asked = 0;
  /** Whether one of them is still waiting. */
  isWaiting = false;
  isFetching = false;
  failures = 0;
  retry: NodeJS.Timeout | undefined;
  problem: FetchProblem | null = null;
}

/** Fetches the external repositories of an index, and immediately those that were never fetched. */
export class Fetches {
  private readonly index: RepositoryIndex;
  private readonly tell: Tell;
  private readonly ways: FetchWays;
  private readonly states = new Map<string, FetchState>();
  private readonly places = new Places(AT_ONCE);
  private isClosed = false;

  /** @param tell receives the outcomes, but only the first of several failures in a row */
  constructor(index: RepositoryIndex, tell: Tell, ways: FetchWays) {
    this.index = index;
    this.tell = tell;
    this.ways = ways;
    for (const { id, cloned } of index.list()) if (!cloned) this.soon(id);
  }

  /**
   * The current work on a repository: `cloning` until its first fetch has succeeded, also while that waits for its
   * next attempt, and while it is cloned again; `fetching` while changes come; else null.
   */
  activityOf(id: string): 'cloning' | 'fetching' | null {
    if (this.index.find(id)?.cloned === false) return 'cloning';
    return this.states.get(id)?.isFetching === true ? 'fetching' : null;
  }

  /** Why the last fetch failed; null if it succeeded. */
  problemOf(id: string): FetchProblem | null {
    return this.states.get(id)?.problem ?? null;
  }

  /**
   * Fetches what changed, and waits for it; does nothing for a repository that is not external.
   * @throws MirrorError `target.unknown` for an unknown id, RemoteError when it cannot be fetched
   */
  fetch(id: string): Promise<void> {
    const state = this.stateOf(id);
    const done = state.last.then(() => this.places.run(() => this.fetchInTurn(id, state)));
    state.last = done.catch(() => undefined);
    return done;
  }

  /** Fetches soon; requests before it begins share one fetch. Returns false for a repository that is not external. */
  soon(id: string): boolean {
    if ((this.index.find(id)?.source ?? null) === null) return false;
    const state = this.stateOf(id);
    if (this.isClosed || state.isWaiting) return true;
    clearTimeout(state.retry);
    state.retry = undefined;
    state.isWaiting = true;
    void this.fetchLater(id, state);
    return true;
  }

  /** As `soon`, unless a fetch is under way, or put off because of a failure. */
  whenDue(id: string): void {
    const { asked, retry } = this.stateOf(id);
    if (asked === 0 && retry === undefined) this.soon(id);
  }

  /** Starts nothing more, and waits for running fetches. */
  async close(): Promise<void> {
    this.isClosed = true;
    for (const { retry } of this.states.values()) clearTimeout(retry);
    await Promise.all([...this.states.values()].map(({ last }) => last));
  }

  private stateOf(id: string): FetchState {
    const state = this.states.get(id) ?? new FetchState();
    this.states.set(id, state);
    return state;
  }

  /** Fetches when a slot is free, and retries later on failure; never rejects. */
  private async fetchLater(id: string, state: FetchState): Promise<void> {
    state.asked += 1;
    try {
      await this.fetch(id);
      if (state.failures > 0) this.tell(`${this.nameOf(id)}: can be fetched again`);
      state.failures = 0;
    } catch (error) {
      // A program that is ended because the service ends has not failed.
      if (!this.isClosed) this.putOff(id, state, error);
    } finally {
      state.asked -= 1;
    }
  }

  private putOff(id: string, state: FetchState, error: unknown): void {
    state.failures += 1;
    const isTooLarge = error instanceof RemoteError && error.trouble === 'too-large';
    const nextAttemptMs = isTooLarge ? DAY_MS : backOffDelayMs(BACK_OFF, state.failures, Math.random());
    state.retry = setTimeout(() => this.soon(id), nextAttemptMs);
    state.problem = { error, nextAttempt: new Date(Date.now() + nextAttemptMs) };
    if (state.failures > 1) return;
    const what =
      this.index.find(id)?.cloned === true
        ? 'cannot be fetched; the data from the last fetch stays'
        : 'cannot be cloned, and has no contents until then';
    const next = `It is tried again in ${roughDuration(nextAttemptMs)}, then later each time`;
    this.tell(`${this.nameOf(id)}: ${what}. ${next}: ${adviceOf(error)}`, 'warn');
  }

  private nameOf(id: string): string {
    return this.index.find(id)?.full_name ?? id;
  }

  private tellFetched({ id, full_name }: RegisteredRepository, outcome: string): void {
    this.tell(`${full_name}: ${outcome}`);
    this.ways.onFetched(id);
  }

  private async fetchInTurn(id: string, state: FetchState): Promise<void> {
    state.isWaiting = false;
    const repository = this.index.find(id);
    if (repository === undefined) throw new MirrorError('target.unknown', `no repository has the id ${id}`);
    if (repository.source === null || this.isClosed) return;
    try {
      if (repository.cloned) await this.bringInStep(repository, state);
      else await this.clone(repository);
      state.problem = null;
    } finally {
      state.isFetching = false;
    }
  }

  private async bringInStep(repository: RegisteredRepository, state: FetchState): Promise<void> {
    const onChange = (): void => {
      state.isFetching = true;
    };
    try {
      if (await this.ways.pull(repository, onChange)) this.tellFetched(repository, 'fetched what changed');
    } catch (error) {
      if (!(error instanceof DamagedError)) throw error;
      await this.index.markDamaged(repository.id);
      const what = 'the local copy is damaged; it is cloned again';
      this.tell(`${repository.full_name}: ${what}: ${adviceOf(error)}`, 'warn');
      await this.clone({ ...repository, cloned: false });
    }
  }

  private async clone(repository: RegisteredRepository): Promise<void> {
    await this.ways.clone(repository);
    await this.index.markCloned(repository.id);
    this.tellFetched(repository, 'cloned');
  }
}

/**
 * Starts to compare all external repositories with their sources, immediately and then regularly.
 * @param intervalMs how often each is compared, in milliseconds
 */
export function createFetching(
  { list, fetches }: { readonly list: () => readonly { readonly id: string }[]; readonly fetches: Fetches },
  { intervalMs }: { readonly intervalMs: number },
): { readonly close: () => void } {
  const compare = (): void => {
    for (const { id } of list()) fetches.whenDue(id);
  };
  compare();
  const timer = setInterval(compare, Math.min(intervalMs, LONGEST_TIMER_MS));
  return { close: () => clearInterval(timer) };
}
