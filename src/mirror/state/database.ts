import { waitAtMost } from '../../lib/concurrency/shared-work.ts';
import { MirrorError } from '../../lib/errors/errors.ts';

/** A key and its value, as a database keeps them. Keys are of ASCII characters: digests, identifiers and names of documents. */
export type Entry = readonly [key: string, value: string];

/** What a database does: entries of namespaces, each with a short name. Every call rejects when the database fails. */
export interface Entries {
  readonly read: (namespace: string, key: string) => Promise<string | undefined>;
  /** Writes all entries or none of them. No key is there twice. */
  readonly write: (namespace: string, entries: readonly Entry[]) => Promise<void>;
  readonly remove: (namespace: string, keys: readonly string[]) => Promise<void>;
  readonly clear: (namespace: string) => Promise<void>;
  /** All entries, some at a time; those that are written or removed in between may be there or not. */
  readonly pages: (namespace: string) => AsyncIterable<readonly Entry[]>;
}

/** An open database. */
export interface Backend {
  readonly entries: Entries;
  readonly close: () => Promise<void>;
}

/** So many entries are read or written by one call of the database at most, */
export const PAGE_ENTRIES = 1000;

/** and so many characters of values, unless a single one has more. */
const PAGE_LENGTH = 4 * 1024 * 1024;

/**
 * The entries of one namespace of a database, for keyv. Values are texts, as keyv makes them. Errors are thrown, and no event is ever
 * sent: a listener of keyv's own would turn failed calls into missing values.
 */
export class NamespaceStore {
  readonly #entries: Entries;
  readonly #name: string;

  constructor(entries: Entries, name: string) {
    this.#entries = entries;
    this.#name = name;
  }

  async get(key: string): Promise<string | undefined> {
    return this.#entries.read(this.#name, key);
  }

  async set(key: string, value: string): Promise<void> {
    await this.#entries.write(this.#name, [[key, value]]);
  }

  /** Sets many entries, each page of them whole or not at all. */
  async setMany(entries: readonly { readonly key: string; readonly value: string }[]): Promise<void> {
    const last = new Map(entries.map(({ key, value }) => [key, value]));
    for (const page of pagesOf<Entry>([...last], ([, value]) => value.length))
      await this.#entries.write(this.#name, page);
  }

  async delete(key: string): Promise<boolean> {
    return this.deleteMany([key]);
  }

  /** @returns true, also for keys that were not there */
  async deleteMany(keys: readonly string[]): Promise<boolean> {
    for (const page of pagesOf(keys, () => 0)) await this.#entries.remove(this.#name, page);
    return true;
  }

  async clear(): Promise<void> {
    await this.#entries.clear(this.#name);
  }

  async *iterator(): AsyncGenerator<Entry, void> {
    for await (const page of this.#entries.pages(this.#name)) yield* page;
  }
}

/** Splits what one call of a database must not take at once. */
export function* pagesOf<T>(all: readonly T[], lengthOf: (each: T) => number): Generator<readonly T[]> {
  let page: T[] = [];
  let length = 0;
  for (const each of all) {
    if (page.length === PAGE_ENTRIES || (page.length > 0 && length + lengthOf(each) > PAGE_LENGTH)) {
      yield page;
      [page, length] = [[], 0];
    }
    page.push(each);
    length += lengthOf(each);
  }
  if (page.length > 0) yield page;
}

/** One call of a database that has no answer for so long, in milliseconds, has failed: a server that hangs must not hang a pass. */
export const CALL_TIMEOUT_MS = 5000;

/** All that is read or written at once, by as many calls as it takes, has so long, in milliseconds. */
const WORK_TIMEOUT_MS = 60_000;

/** A connection that nothing is done with for so long, in milliseconds, is closed: passes are minutes apart. */
export const IDLE_TIMEOUT_MS = 10_000;

/** A store that failed is left alone for so long, so that a pass does not wait for it again and again. */
const PAUSE_MS = 60_000;

/** Runs a call on the store. @throws MirrorError `state.unavailable` */
export type Attempt = <T>(call: () => Promise<T>) => Promise<T>;

/** Hears of the store's failures: once when they begin, and once when a call succeeds again. */
export interface StoreListener {
  readonly onFailed: (error: MirrorError) => void;
  readonly onRecovered: () => void;
}

/** Makes the way to a store that may be gone: every call has its time, and after a failure the next ones fail at once. */
export function createAttempt({ onFailed, onRecovered }: StoreListener): Attempt {
  let failedAtMs = Number.NEGATIVE_INFINITY;
  let failure: MirrorError | null = null;
  return async (call) => {
    if (failure !== null && performance.now() - failedAtMs < PAUSE_MS) throw failure;
    try {
      const result = await inTime(call, WORK_TIMEOUT_MS);
      if (failure !== null) onRecovered();
      failure = null;
      return result;
    } catch (error) {
      if (error instanceof MirrorError) throw error;
      failedAtMs = performance.now();
      const isFirst = failure === null;
      failure = unavailable(error);
      if (isFirst) onFailed(failure);
      throw failure;
    }
  };
}

/** Runs a call that must come to its end in time. @throws what it throws, and an Error when it does not answer */
export async function inTime<T>(call: () => Promise<T>, timeoutMs = CALL_TIMEOUT_MS): Promise<T> {
  const ended = await waitAtMost(
    call().then((result) => ({ result })),
    timeoutMs,
  );
  if (ended === null) throw new Error('it does not answer');
  return ended.result;
}

function unavailable(cause: unknown): MirrorError {
  // Where a name has several addresses and none is reached, only the errors of each say why.
  const error: unknown = cause instanceof AggregateError ? cause.errors[0] : cause;
  const message = error instanceof Error ? error.message : String(error);
  return new MirrorError('state.unavailable', `The state store fails: ${message.replace(/\.$/, '')}.`, {
    cause,
    hint: 'Check the setting state. Nothing is lost meanwhile: what it would remember is found out again.',
  });
}
