import { Hookified } from 'hookified';
import {
  type KeyvStorageAdapter,
  type KeyvStorageCapability,
  keyvStorageCapability,
  type KeyvStorageEntry,
  type KeyvStorageGetResult,
} from 'keyv';

/** A key and its value, as a database keeps them: texts that every database can hold. */
export type Entry = readonly [key: string, value: string];

/** What a database does for keyv: entries of namespaces, each with a short name. Every call rejects when the database fails. */
export interface Entries {
  /** @returns those of the keys that there are, with their values */
  readonly read: (namespace: string, keys: readonly string[]) => Promise<ReadonlyMap<string, string>>;
  /** Writes all entries or none of them. No key is there twice. */
  readonly write: (namespace: string, entries: readonly Entry[]) => Promise<void>;
  /** @returns those of the keys that there were. No key is given twice. */
  readonly remove: (namespace: string, keys: readonly string[]) => Promise<ReadonlySet<string>>;
  readonly clear: (namespace: string) => Promise<void>;
  /** All entries, some at a time; those that are written or removed meanwhile may be there or not. */
  readonly pages: (namespace: string) => AsyncIterable<readonly Entry[]>;
}

/** Where the entries of the namespaces are kept. */
export interface Backend {
  readonly adapter: (namespace: string) => KeyvStorageAdapter;
  readonly close: () => Promise<void>;
}

/** So many entries are read or written by one call of the database at most, */
export const PAGE_ENTRIES = 1000;

/** and so many characters of values, unless a single one has more. */
const PAGE_LENGTH = 4 * 1024 * 1024;

/**
 * A keyv store over a database. Values are texts, as keyv makes them; times of expiry are in them, and keyv itself looks at those
 * (its option `checkExpired`). Errors are thrown, and no event is ever sent: a listener of keyv's own would turn failed calls into
 * missing values.
 */
export class DatabaseAdapter extends Hookified implements KeyvStorageAdapter {
  namespace: string | undefined;
  private readonly entries: Entries;

  constructor(entries: Entries, namespace: string) {
    super();
    this.entries = entries;
    this.namespace = namespace;
  }

  /** Says that this adapter is one of keyv 6, which is told absolute times of expiry. */
  get capabilities(): KeyvStorageCapability {
    return keyvStorageCapability(this);
  }

  async get<Value>(key: string): Promise<KeyvStorageGetResult<Value>> {
    const [value] = await this.getMany<Value>([key]);
    return value as KeyvStorageGetResult<Value>;
  }

  async getMany<Value>(keys: string[]): Promise<KeyvStorageGetResult<Value | undefined>[]> {
    const found = new Map<string, string>();
    const wanted = keys.map(storedKey);
    for (const page of pagesOf([...new Set(wanted)], () => 0)) {
      for (const [key, value] of await this.entries.read(this.space, page)) found.set(key, value);
    }
    return wanted.map((key) => found.get(key) as KeyvStorageGetResult<Value | undefined>);
  }

  async has(key: string): Promise<boolean> {
    return (await this.hasMany([key]))[0] ?? false;
  }

  async hasMany(keys: string[]): Promise<boolean[]> {
    const values = await this.getMany(keys);
    return values.map((value) => value !== undefined);
  }

  async set(key: string, value: unknown): Promise<boolean> {
    await this.setMany([{ key, value }]);
    return true;
  }

  /** Sets many entries, each page of them whole or not at all. */
  async setMany<Value>(entries: KeyvStorageEntry<Value>[]): Promise<boolean[]> {
    const last = new Map(entries.map(({ key, value }) => [storedKey(key), textOf(value)]));
    for (const page of pagesOf<Entry>([...last], ([, value]) => value.length))
      await this.entries.write(this.space, page);
    return entries.map(() => true);
  }

  async delete(key: string): Promise<boolean> {
    return (await this.deleteMany([key]))[0] ?? false;
  }

  async deleteMany(keys: string[]): Promise<boolean[]> {
    const removed = new Set<string>();
    const unwanted = keys.map(storedKey);
    for (const page of pagesOf([...new Set(unwanted)], () => 0)) {
      for (const key of await this.entries.remove(this.space, page)) removed.add(key);
    }
    return unwanted.map((key) => removed.delete(key));
  }

  async clear(): Promise<void> {
    await this.entries.clear(this.space);
  }

  async *iterator<Value>(): AsyncGenerator<(string | Awaited<Value> | undefined)[], void> {
    for await (const page of this.entries.pages(this.space)) {
      for (const [stored, value] of page) {
        const key = keyOf(stored);
        if (key !== null) yield [key, value];
      }
    }
  }

  private get space(): string {
    return this.namespace ?? '';
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

/**
 * The text that stands for a key. Not every database can hold U+0000, and none halves of surrogate pairs (they are no Unicode text:
 * unicode.org/versions/latest, D80): keys with such are kept as JSON, which escapes both, and so are those that would read as JSON.
 */
export function storedKey(key: string): string {
  return key.startsWith('"') || key.includes('\0') || !key.isWellFormed() ? JSON.stringify(key) : key;
}

/** The reverse of {@link storedKey}; null for what it never gives. */
export function keyOf(stored: string): string | null {
  if (!stored.startsWith('"')) return stored;
  try {
    return String(JSON.parse(stored));
  } catch {
    return null;
  }
}

/** @throws TypeError for values that keyv did not turn into texts */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  throw new TypeError('a value is no text');
}
