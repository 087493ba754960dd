import { MirrorError } from '../model/errors.ts';
import { createFetchQueue } from './fetch-queue.ts';
import { createLimit, type Limit } from './limit.ts';
import type { RegisteredRepository, RegistryIndex } from './registry-index.ts';

/** What became of the fetches of an external repository. */
export type FetchEvent = { readonly repository: RegisteredRepository } & (
  | { readonly kind: 'cloned' | 'fetched' | 'recovered' }
  /** Told once, until it succeeds again. */
  | { readonly kind: 'failing'; readonly error: unknown; readonly nextAttemptMs: number }
);

/** The fetches of the external repositories of an index. */
export interface Fetches {
  /**
   * What is done to a repository at the moment: `cloning` until it was fetched for the first time, also while that waits to be
   * tried again; `fetching` while changes come; else null.
   */
  readonly activityOf: (id: string) => 'cloning' | 'fetching' | null;
  /**
   * Fetches what changed, and waits for it; does nothing for a repository that is not external.
   * @throws MirrorError `target.unknown` for an unknown id, RemoteError when it cannot be fetched
   */
  readonly fetch: (id: string) => Promise<void>;
  /** Fetches soon, once for all who ask meanwhile. Gives false for a repository that is not external. */
  readonly soon: (id: string) => boolean;
  /** As `soon`, unless a fetch is under way, or put off because of a failure. */
  readonly whenDue: (id: string) => void;
  /** Starts nothing any more, and waits for what runs. */
  readonly close: () => Promise<void>;
}

/**
 * Fetches external repositories, and at once those that never were.
 * @param pullFrom brings a repository to what its source holds, says when it turns out that there is something to fetch, and gives
 *   whether anything was different
 */
export function createFetches(
  index: RegistryIndex,
  onEvent: (event: FetchEvent) => void,
  pullFrom: (repository: RegisteredRepository, onChange: () => void) => Promise<boolean>,
): Fetches {
  const turns = new Map<string, Limit>();
  const fetching = new Set<string>();

  async function fetchNow(id: string): Promise<void> {
    const repository = index.find(id);
    if (repository === undefined) throw new MirrorError('target.unknown', `no repository has the id ${id}`);
    if (repository.source === null) return;
    try {
      const isChanged = await pullFrom(repository, () => fetching.add(id));
      if (!repository.cloned) await index.markCloned(id);
      if (!repository.cloned) onEvent({ kind: 'cloned', repository });
      else if (isChanged) onEvent({ kind: 'fetched', repository });
    } finally {
      fetching.delete(id);
    }
  }

  /** Two fetches at once would get into each other's way at the locks of the branches, so they take turns. */
  function fetch(id: string): Promise<void> {
    const inTurn = turns.get(id) ?? createLimit(1);
    turns.set(id, inTurn);
    return inTurn(() => fetchNow(id));
  }

  const tell = (id: string, what: (repository: RegisteredRepository) => FetchEvent): void => {
    const repository = index.find(id);
    if (repository !== undefined) onEvent(what(repository));
  };
  const queue = createFetchQueue({
    isLong: (id) => index.find(id)?.cloned === false,
    run: fetch,
    onFailing: (id, error, nextAttemptMs) =>
      tell(id, (repository) => ({ kind: 'failing', repository, error, nextAttemptMs })),
    onRecovered: (id) => tell(id, (repository) => ({ kind: 'recovered', repository })),
  });
  for (const { id, cloned } of index.list()) if (!cloned) queue.ask(id);
  const isExternal = (id: string): boolean => (index.find(id)?.source ?? null) !== null;

  return {
    activityOf(id) {
      if (index.find(id)?.cloned === false) return 'cloning';
      return fetching.has(id) ? 'fetching' : null;
    },
    fetch,
    soon(id) {
      if (isExternal(id)) queue.ask(id);
      return isExternal(id);
    },
    whenDue(id) {
      if (isExternal(id)) queue.remind(id);
    },
    close: queue.close,
  };
}
