import { Places } from '../../lib/concurrency/places.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { DamagedError } from './bare.ts';
import type { Oversize } from './download.ts';
import { createFetchQueue, type FetchFailure } from './fetch-queue.ts';
import type { RegisteredRepository, RegistryIndex } from './registry-index.ts';
import type { Pulled, PullOptions } from './remote.ts';

/** What became of the fetches of an external repository. */
export type FetchEvent = { readonly repository: RegisteredRepository } & (
  | { readonly kind: 'cloned' | 'fetched' | 'recovered' }
  /** Told of the first failure in a row, and then of one a day. */
  | { readonly kind: 'failing'; readonly error: unknown; readonly nextAttemptMs: number }
  /** Somebody wanted to connect it, and no connection could be made; it is not registered. */
  | { readonly kind: 'unconnected'; readonly error: unknown }
  /** What is here cannot be read, and is cloned again. */
  | { readonly kind: 'damaged'; readonly error: unknown }
  /** References that no disk, or not this one, can hold; told when they are others than before. */
  | { readonly kind: 'left-out'; readonly names: readonly string[] }
);

/** Why a repository could not be fetched the last time. */
export interface FetchProblem {
  readonly error: unknown;
  readonly nextAttempt: Date;
}

/** The fetches of the external repositories of an index. */
export interface Fetches {
  /**
   * What is done to a repository at the moment: `cloning` until it was fetched for the first time, also while that waits to be
   * tried again, and while it is cloned again; `fetching` while changes come; else null.
   */
  readonly activityOf: (id: string) => 'cloning' | 'fetching' | null;
  /** Why the last fetch failed; null when it did not. */
  readonly problemOf: (id: string) => FetchProblem | null;
  /**
   * Fetches what changed, and waits for it; does nothing for a repository that is not external.
   * @throws MirrorError `target.unknown` for an unknown id, RemoteError when it cannot be fetched
   */
  readonly fetch: (id: string) => Promise<void>;
  /** Fetches soon, once for all who ask meanwhile. Gives false for a repository that is not external. */
  readonly soon: (id: string) => boolean;
  /** As `soon`, unless a fetch is under way, or put off because of a failure. */
  readonly whenDue: (id: string) => void;
  /** Has an external repository that could not be read examined soon, at most once a day, and cloned again if it is damaged. */
  readonly doubt: (id: string) => void;
  /** Starts nothing any more, and waits for what runs. */
  readonly close: () => Promise<void>;
}

/** What is done to external repositories. */
export interface FetchWays {
  /** Brings a repository to what its source holds. @throws DamagedError when what is here cannot be read */
  readonly pull: (repository: RegisteredRepository, options: PullOptions) => Promise<Pulled>;
  /** Makes the repository anew, whatever is there. */
  readonly clone: (repository: RegisteredRepository, options: PullOptions) => Promise<Pulled>;
  /** Reads all that is here. @throws DamagedError when it cannot be read */
  readonly examine: (repository: RegisteredRepository) => Promise<void>;
}

/** Fetches external repositories, and at once those that never were. */
export function createFetches(
  index: RegistryIndex,
  onEvent: (event: FetchEvent) => void,
  ways: FetchWays,
): Fetches {
  const turns = new Map<string, Places>();
  const problems = new Map<string, FetchProblem>();
  const doubts = createDoubts();
  const fetchOnce = createFetchOnce(index, onEvent, ways, doubts);
  const tell = (id: string, what: (repository: RegisteredRepository) => FetchEvent): void => {
    const repository = index.find(id);
    if (repository !== undefined) onEvent(what(repository));
  };

  /** Two fetches at once would get into each other's way at the locks of the branches, so they take turns. */
  function fetch(id: string): Promise<void> {
    const turn = turns.get(id) ?? new Places(1);
    turns.set(id, turn);
    return turn.run(async () => {
      await fetchOnce.fetch(id);
      problems.delete(id);
    });
  }

  function onFailing(id: string, { error, nextAttemptMs, isNews }: FetchFailure): void {
    problems.set(id, { error, nextAttempt: new Date(Date.now() + nextAttemptMs) });
    if (isNews) tell(id, (repository) => ({ kind: 'failing', repository, error, nextAttemptMs }));
  }

  const queue = createFetchQueue({
    isLong: (id) => index.find(id)?.cloned === false,
    hostOf: (id) => index.find(id)?.full_name.split('/')[0] ?? '',
    run: fetch,
    onFailing,
    onRecovered: (id) => tell(id, (repository) => ({ kind: 'recovered', repository })),
  });
  for (const { id, cloned } of index.list()) if (!cloned) queue.ask(id);
  const isExternal = (id: string): boolean => (index.find(id)?.source ?? null) !== null;

  return {
    activityOf(id) {
      if (index.find(id)?.cloned === false) return 'cloning';
      return fetchOnce.isFetching(id) ? 'fetching' : null;
    },
    problemOf: (id) => problems.get(id) ?? null,
    fetch,
    soon(id) {
      if (isExternal(id)) queue.ask(id);
      return isExternal(id);
    },
    whenDue(id) {
      if (isExternal(id)) queue.remind(id);
    },
    doubt(id) {
      // What is cloned again anyway needs no look, and is not to be hurried.
      if (isExternal(id) && index.find(id)?.cloned === true && doubts.add(id)) queue.ask(id);
    },
    close: queue.close,
  };
}

function createFetchOnce(
  index: RegistryIndex,
  onEvent: (event: FetchEvent) => void,
  { pull, clone, examine }: FetchWays,
  doubts: ReturnType<typeof createDoubts>,
) {
  const fetching = new Set<string>();
  const refusals = new Map<string, Map<string, string>>();
  const oversizes = new Map<string, Oversize>();
  const toldLeftOut = new Map<string, string>();

  function optionsOf(id: string): PullOptions {
    const refused = refusals.get(id) ?? new Map<string, string>();
    refusals.set(id, refused);
    const oversize = oversizes.get(id) ?? { last: null };
    oversizes.set(id, oversize);
    return { onChange: () => fetching.add(id), onDoubt: () => doubts.add(id), refused, oversize };
  }

  function tellLeftOut(repository: RegisteredRepository, names: readonly string[]): void {
    const text = names.join('\n');
    if (text === (toldLeftOut.get(repository.id) ?? '')) return;
    toldLeftOut.set(repository.id, text);
    if (names.length > 0) onEvent({ kind: 'left-out', repository, names });
  }

  async function bringInStep(repository: RegisteredRepository): Promise<void> {
    const { id } = repository;
    if (doubts.take(id)) await examine(repository);
    const { isChanged, leftOut } = await pull(repository, optionsOf(id));
    if (isChanged) onEvent({ kind: 'fetched', repository });
    tellLeftOut(repository, leftOut);
  }

  async function cloneAnew(repository: RegisteredRepository): Promise<void> {
    const { leftOut } = await clone(repository, optionsOf(repository.id));
    await index.markCloned(repository.id);
    onEvent({ kind: 'cloned', repository });
    tellLeftOut(repository, leftOut);
  }

  async function fetch(id: string): Promise<void> {
    const repository = index.find(id);
    if (repository === undefined) throw new MirrorError('target.unknown', `no repository has the id ${id}`);
    if (repository.source === null) return;
    try {
      if (repository.cloned) await bringInStep(repository);
      else await cloneAnew(repository);
    } catch (error) {
      if (!repository.cloned || !(error instanceof DamagedError)) throw error;
      await index.markDamaged(id);
      onEvent({ kind: 'damaged', repository, error });
      await cloneAnew({ ...repository, cloned: false });
    } finally {
      fetching.delete(id);
    }
  }

  return { fetch, isFetching: (id: string) => fetching.has(id) };
}

/** Which repositories are to be examined because something could not be read. */
export interface Doubts {
  /** Gives whether the repository is to be examined now; not where that was done a short while ago. */
  readonly add: (id: string) => boolean;
  /** Whether there is a doubt, which is at an end with that. */
  readonly take: (id: string) => boolean;
}

/** To examine a large repository takes minutes: it is done at most so often for each, in milliseconds. */
const INTERVAL_MS = 86_400_000;

/** Begins without doubts. @param nowMs a clock that never goes back, in milliseconds */
export function createDoubts(nowMs: () => number = () => performance.now()): Doubts {
  const open = new Set<string>();
  const examinedMs = new Map<string, number>();
  return {
    add(id) {
      const before = examinedMs.get(id);
      if (before !== undefined && nowMs() - before < INTERVAL_MS) return false;
      open.add(id);
      return true;
    },
    take(id) {
      const isOpen = open.delete(id);
      if (isOpen) examinedMs.set(id, nowMs());
      return isOpen;
    },
  };
}
