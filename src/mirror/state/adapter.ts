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

/** Where the entries of the namespaces are kept. */
export interface Backend {
  /** The entries of a namespace, as keyv takes them. */
  readonly store: (namespace: string) => NamespaceStore;
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
