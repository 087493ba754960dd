import { Places } from '../../lib/concurrency/places.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { DamagedError } from '../git/bare.ts';
import type { Oversize } from '../git/download.ts';
import { FetchQueue } from '../git/fetch-queue.ts';
import type { RegisteredRepository, RegistryIndex } from '../git/registry-index.ts';
import type { Pulled, PullOptions } from './remote.ts';

/** An outcome of fetching an external repository. */
export type FetchEvent = { readonly repository: RegisteredRepository } & (
  | { readonly kind: 'cloned' | 'fetched' | 'recovered' }
  /** Told of the first failure in a row, and then of one a day. */
  | { readonly kind: 'failing'; readonly error: unknown; readonly nextAttemptMs: number }
  /** Somebody wanted to connect it, and no connection could be made; it is not registered. */
  | { readonly kind: 'unconnected'; readonly error: unknown }
  /** The repository here cannot be read, and is cloned again. */
  | { readonly kind: 'damaged'; readonly error: unknown }
  /** References that no disk, or not this one, can hold; told when they are others than before. */
  | { readonly kind: 'left-out'; readonly names: readonly string[] }
);

/** Why a repository could not be fetched the last time. */
export interface FetchProblem {
  readonly error: unknown;
  readonly nextAttempt: Date;
}

/** How external repositories are brought here, and looked at. */
export interface FetchWays {
  /** Brings a repository to what its source holds. @throws DamagedError when what is here cannot be read */
  readonly pull: (repository: RegisteredRepository, options: PullOptions) => Promise<Pulled>;
  /** Makes the repository anew, whatever is there. */
  readonly clone: (repository: RegisteredRepository, options: PullOptions) => Promise<Pulled>;
  /** Reads all that is here. @throws DamagedError when it cannot be read */
  readonly examine: (repository: RegisteredRepository) => Promise<void>;
}

/** The fetches of a repository so far. */
class FetchMemory {
  /** Two fetches at once would get into each other's way at the locks of the branches, so they take turns. */
  readonly turn = new Places(1);
  readonly refused = new Map<string, string>();
  readonly oversize: Oversize = { last: null };
  isFetching = false;
  toldLeftOut = '';
  problem: FetchProblem | null = null;
}

/** Fetches the external repositories of an index, and at once those that never were. */
export class Fetches {
  private readonly index: RegistryIndex;
  private readonly onEvent: (event: FetchEvent) => void;
  private readonly ways: FetchWays;
  private readonly memories = new Map<string, FetchMemory>();
  private readonly doubts = createDoubts();
  private readonly queue: FetchQueue;

  constructor(index: RegistryIndex, onEvent: (event: FetchEvent) => void, ways: FetchWays) {
    this.index = index;
    this.onEvent = onEvent;
    this.ways = ways;
    this.queue = new FetchQueue({
      isLong: (id) => index.find(id)?.cloned === false,
      hostOf: (id) => index.find(id)?.full_name.split('/')[0] ?? '',
      run: (id) => this.fetch(id),
      onFailing: (id, { error, nextAttemptMs, isNews }) => {
        this.memoryOf(id).problem = { error, nextAttempt: new Date(Date.now() + nextAttemptMs) };
        const repository = index.find(id);
        if (isNews && repository !== undefined)
          onEvent({ kind: 'failing', repository, error, nextAttemptMs });
      },
      onRecovered: (id) => {
        const repository = index.find(id);
        if (repository !== undefined) onEvent({ kind: 'recovered', repository });
      },
    });
    for (const { id, cloned } of index.list()) if (!cloned) this.queue.ask(id);
  }

  /**
   * Says what is done to a repository at the moment: `cloning` until it was fetched for the first time, also while that waits to be
   * tried again, and while it is cloned again; `fetching` while changes come; else null.
   */
  activityOf(id: string): 'cloning' | 'fetching' | null {
    if (this.index.find(id)?.cloned === false) return 'cloning';
    return this.memories.get(id)?.isFetching === true ? 'fetching' : null;
  }

  /** Why the last fetch failed; null when it did not. */
  problemOf(id: string): FetchProblem | null {
    return this.memories.get(id)?.problem ?? null;
  }

  /**
   * Fetches what changed, and waits for it; does nothing for a repository that is not external.
   * @throws MirrorError `target.unknown` for an unknown id, RemoteError when it cannot be fetched
   */
  fetch(id: string): Promise<void> {
    const memory = this.memoryOf(id);
    return memory.turn.run(async () => {
      await this.fetchInTurn(id, memory);
      memory.problem = null;
    });
  }

  /** Fetches soon, once for all who ask meanwhile. Gives false for a repository that is not external. */
  soon(id: string): boolean {
    const isExternal = this.isExternal(id);
    if (isExternal) this.queue.ask(id);
    return isExternal;
  }

  /** As `soon`, unless a fetch is under way, or put off because of a failure. */
  whenDue(id: string): void {
    if (this.isExternal(id)) this.queue.remind(id);
  }

  /** Has an external repository that could not be read examined soon, at most once a day, and cloned again if it is damaged. */
  doubt(id: string): void {
    // What is cloned again anyway needs no look, and is not to be hurried.
    if (this.isExternal(id) && this.index.find(id)?.cloned === true && this.doubts.add(id))
      this.queue.ask(id);
  }

  /** Starts nothing any more, and waits for what runs. */
  close(): Promise<void> {
    return this.queue.close();
  }

  private isExternal(id: string): boolean {
    return (this.index.find(id)?.source ?? null) !== null;
  }

  private memoryOf(id: string): FetchMemory {
    const memory = this.memories.get(id) ?? new FetchMemory();
    this.memories.set(id, memory);
    return memory;
  }

  private async fetchInTurn(id: string, memory: FetchMemory): Promise<void> {
    const repository = this.index.find(id);
    if (repository === undefined) throw new MirrorError('target.unknown', `no repository has the id ${id}`);
    if (repository.source === null) return;
    try {
      if (repository.cloned) await this.bringInStep(repository, memory);
      else await this.cloneAnew(repository, memory);
    } catch (error) {
      if (!repository.cloned || !(error instanceof DamagedError)) throw error;
      await this.index.markDamaged(id);
      this.onEvent({ kind: 'damaged', repository, error });
      await this.cloneAnew({ ...repository, cloned: false }, memory);
    } finally {
      memory.isFetching = false;
    }
  }

  private async bringInStep(repository: RegisteredRepository, memory: FetchMemory): Promise<void> {
    if (this.doubts.take(repository.id)) await this.ways.examine(repository);
    const { isChanged, leftOut } = await this.ways.pull(repository, this.optionsOf(repository.id, memory));
    if (isChanged) this.onEvent({ kind: 'fetched', repository });
    this.tellLeftOut(repository, leftOut, memory);
  }

  private async cloneAnew(repository: RegisteredRepository, memory: FetchMemory): Promise<void> {
    const { leftOut } = await this.ways.clone(repository, this.optionsOf(repository.id, memory));
    await this.index.markCloned(repository.id);
    this.onEvent({ kind: 'cloned', repository });
    this.tellLeftOut(repository, leftOut, memory);
  }

  private optionsOf(id: string, memory: FetchMemory): PullOptions {
    const { refused, oversize } = memory;
    const onChange = (): void => {
      memory.isFetching = true;
    };
    return { onChange, onDoubt: () => this.doubts.add(id), refused, oversize };
  }

  private tellLeftOut(repository: RegisteredRepository, names: readonly string[], memory: FetchMemory): void {
    const text = names.join('\n');
    if (text === memory.toldLeftOut) return;
    memory.toldLeftOut = text;
    if (names.length > 0) this.onEvent({ kind: 'left-out', repository, names });
  }
}

/** To examine a large repository takes minutes: it is done at most so often for each, in milliseconds. */
const INTERVAL_MS = 86_400_000;

/**
 * Remembers which repositories are to be examined because something could not be read.
 * @param nowMs a clock that never goes back, in milliseconds
 */
export function createDoubts(nowMs: () => number = () => performance.now()) {
  const open = new Set<string>();
  const examinedMs = new Map<string, number>();
  return {
    /** Gives whether the repository is to be examined now; not where that was done a short while ago. */
    add(id: string): boolean {
      const before = examinedMs.get(id);
      if (before !== undefined && nowMs() - before < INTERVAL_MS) return false;
      open.add(id);
      return true;
    },
    /** Whether there is a doubt, which is at an end with that. */
    take(id: string): boolean {
      const isOpen = open.delete(id);
      if (isOpen) examinedMs.set(id, nowMs());
      return isOpen;
    },
  };
}
