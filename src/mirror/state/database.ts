import { statSync } from 'node:fs';
import { lstat, rename, rm } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';

import { statsNow } from '../../lib/disk/read.ts';

/** A key and its value in a database. Keys are of ASCII characters: digests, identifiers and names of documents. */
export type Entry = readonly [key: string, value: string];

/** An open database: entries of namespaces, each with a short name. Every call rejects if the database fails. */
export interface Database {
  readonly read: (namespace: string, key: string) => Promise<string | undefined>;
  /** Writes all entries or none of them. No key occurs twice. */
  readonly write: (namespace: string, entries: readonly Entry[]) => Promise<void>;
  readonly remove: (namespace: string, keys: readonly string[]) => Promise<void>;
  /** All entries; those that are written or removed during the reading may or may not be included. */
  readonly entries: (namespace: string) => AsyncGenerator<Entry, void>;
  readonly close: () => Promise<void>;
  /** Opens the file again if it is no longer the one that was opened. @returns whether it did, so that the entries may be others */
  readonly renew?: () => Promise<boolean>;
}

/** The most entries that one call of a database reads or writes. */
export const PAGE_ENTRIES = 500;

/** The entries of one namespace of a database, for keyv. Values are keyv's texts. */
export type NamespaceStore = ReturnType<typeof namespaceStore>;

/**
 * Makes a store for keyv. Errors are thrown and never emitted as events: keyv's own listener would turn failed calls into missing
 * values.
 */
export function namespaceStore(database: Database, namespace: string) {
  const deleteMany = async (keys: readonly string[]): Promise<boolean> => {
    for (const page of pagesOf(keys)) await database.remove(namespace, page);
    return true;
  };
  return {
    get: (key: string): Promise<string | undefined> => database.read(namespace, key),
    set: (key: string, value: string): Promise<void> => database.write(namespace, [[key, value]]),
    /** Sets many entries, each page of them whole or not at all. No key occurs twice. */
    setMany: async (entries: readonly { readonly key: string; readonly value: string }[]): Promise<void> => {
      for (const page of pagesOf(entries.map(({ key, value }): Entry => [key, value])))
        await database.write(namespace, page);
    },
    delete: (key: string): Promise<boolean> => deleteMany([key]),
    /** @returns true, also for missing keys */
    deleteMany,
    /** Keyv requires it; the program does not. */
    clear: async (): Promise<void> => {
      for await (const [key] of database.entries(namespace)) await deleteMany([key]);
    },
    iterator: () => database.entries(namespace),
  };
}

function* pagesOf<T>(all: readonly T[]): Generator<readonly T[]> {
  for (let start = 0; start < all.length; start += PAGE_ENTRIES) yield all.slice(start, start + PAGE_ENTRIES);
}

const BUSY_TIMEOUT_MS = 5000;

/**
 * A power cut may take the last commits, but leaves the database whole, and the facts are found out again. The page size
 * counts for a new file. A record takes more than a quarter of SQLite's own 4096, and the excess would take a page of its own
 * (sqlite.org/fileformat2.html, "Cell Payload Overflow Pages"): three times the file, and twice the reads.
 */
const PRAGMAS = 'PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL';

/** `expires` stays empty: keyv checks times of expiry itself. */
const CREATE = `CREATE TABLE IF NOT EXISTS kv(
  ns TEXT NOT NULL, key TEXT NOT NULL, value ANY, expires INTEGER, PRIMARY KEY(ns, key)
) WITHOUT ROWID, STRICT`;
const UPSERT = `INSERT INTO kv VALUES(?, ?, ?, NULL)
  ON CONFLICT DO UPDATE SET value = excluded.value, expires = NULL`;
const PAGE = `SELECT key, value FROM kv WHERE ns = ? AND key > ? ORDER BY key LIMIT ${PAGE_ENTRIES}`;

/** The suffixes of a database's files. SQLite opens each by its name and follows a link in its place (sqlite.org/tempfiles.html). */
const SUFFIXES = ['', '-wal', '-shm', '-journal'];

/** SQLite's result codes for a file that is no whole database (sqlite.org/rescode.html): CORRUPT 11, NOTADB 26, ERROR 1. */
const CORRUPT = 11;
const DAMAGE_CODES = new Set([1, CORRUPT, 26]);

/**
 * Opens the embedded store. A damaged file, or another program's, is set aside: the facts in it are found out
 * again from the disk and from the service.
 * @param onReset receives the reason why the store begins empty
 */
export async function openSqlite(file: string, onReset: (reason: string) => void): Promise<Database> {
  for (const name of SUFFIXES.map((suffix) => file + suffix)) {
    const found = await lstat(name).catch(() => null);
    if (found === null || found.isFile()) continue;
    await rm(name);
    onReset(`${name} was not a plain file; it was removed`);
  }
  try {
    return databaseOn(openForWriting(file));
  } catch (error) {
    if (!isDamage(error)) throw error;
    onReset(`${file} is damaged (${error.message}); it was put aside as ${file}.damaged`);
    await rename(file, `${file}.damaged`);
    for (const suffix of SUFFIXES) await rm(file + suffix, { force: true });
    return databaseOn(openForWriting(file));
  }
}

/** How long the store stays in memory before its file is tried again, in milliseconds. */
const TRY_AGAIN_MS = 60_000;

/**
 * Opens the embedded store or, while its file cannot be opened, one in memory: the mirror only uses it to save requests. `renew` opens the
 * file again if someone removed or replaced it, or once it can be opened: commands read the file.
 * @param onReset as {@link openSqlite}
 */
export async function openEmbedded(file: string, onReset: (reason: string) => void): Promise<Database> {
  const inode = (): number | null => statsNow(file)?.ino ?? null;
  /** Null for a store in memory. */
  let openedInode: number | null = null;
  let triedAtMs = 0;
  const open = async (): Promise<Database> => {
    triedAtMs = performance.now();
    const database = await openSqlite(file, onReset);
    openedInode = inode();
    return database;
  };
  const inMemory = (error: Error): Database => {
    openedInode = null;
    onReset(`${file} cannot be opened (${error.message}); what is remembered is lost when the program ends`);
    return openInMemory();
  };
  let current = await open().catch(inMemory);
  let isClosed = false;
  return {
    read: (...asked) => current.read(...asked),
    write: (...asked) => current.write(...asked),
    remove: (...asked) => current.remove(...asked),
    entries: (namespace) => current.entries(namespace),
    close: () => {
      isClosed = true;
      return current.close();
    },
    renew: async () => {
      if (isClosed) return false;
      if (openedInode === null) {
        if (performance.now() - triedAtMs < TRY_AGAIN_MS) return false;
        const found = await open().catch(() => null);
        current = found ?? current;
        return found !== null;
      }
      if (inode() === openedInode) return false;
      onReset(`${file} was removed or replaced while it was in use`);
      // First, as closing removes the log of the file with this name.
      await current.close();
      current = await open().catch(inMemory);
      return true;
    },
  };
}

/** Opens an empty store, which is lost when it is closed. */
export function openInMemory(): Database {
  return databaseOn(openForWriting(':memory:'));
}

/**
 * Opens the embedded store for reading while another process writes it; null if there is none, or no valid one.
 * A reader who may not write in its folder sees the last state that reached the main file (sqlite.org/wal.html,
 * section 5).
 */
export function openSqliteForReading(file: string): Database | null {
  // Opening a pipe would wait for its other end.
  if (!isPlainFile(file)) return null;
  const immutable = pathToFileURL(file);
  immutable.searchParams.set('immutable', '1');
  for (const address of [file, immutable]) {
    let database: DatabaseSync | null = null;
    try {
      database = new DatabaseSync(address, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
      checkTable(database);
      return databaseOn(database);
    } catch {
      database?.close();
    }
  }
  return null;
}

function isPlainFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function openForWriting(file: string): DatabaseSync {
  const database = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
  try {
    database.exec(PRAGMAS);
    database.exec(CREATE);
    checkTable(database);
    // Reads every page: damage in the middle would otherwise show only when that page is needed, and never go away.
    const [found] = Object.values(database.prepare('PRAGMA quick_check(1)').get() ?? {});
    if (found !== 'ok') throw Object.assign(new Error(String(found)), { errcode: CORRUPT });
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Fails if the table is another program's. */
function checkTable(database: DatabaseSync): void {
  database.prepare('SELECT ns, key, value, expires FROM kv LIMIT 1').get();
}

function isDamage(error: unknown): error is Error {
  return error instanceof Error && 'errcode' in error && DAMAGE_CODES.has(Number(error.errcode) & 0xff);
}

function databaseOn(database: DatabaseSync): Database {
  const inTransaction = (sql: string, rows: readonly (readonly string[])[]): void => {
    const statement = database.prepare(sql);
    database.exec('BEGIN IMMEDIATE');
    try {
      for (const row of rows) statement.run(...row);
      database.exec('COMMIT');
    } catch (error) {
      if (database.isTransaction) database.exec('ROLLBACK');
      throw error;
    }
  };
  return {
    read: async (namespace, key) => {
      const row = database.prepare('SELECT key, value FROM kv WHERE ns = ? AND key = ?').get(namespace, key);
      return row === undefined ? undefined : entryOf(row)[1];
    },
    write: async (namespace, entries) =>
      inTransaction(
        UPSERT,
        entries.map((entry) => [namespace, ...entry]),
      ),
    remove: async (namespace, keys) =>
      inTransaction(
        'DELETE FROM kv WHERE ns = ? AND key = ?',
        keys.map((key) => [namespace, key]),
      ),
    entries: async function* entries(namespace) {
      const query = database.prepare(PAGE);
      for (let last: string | undefined = ''; last !== undefined;) {
        const page: Entry[] = query.all(namespace, last).map(entryOf);
        yield* page;
        last = page.length < PAGE_ENTRIES ? undefined : page.at(-1)?.[0];
      }
    },
    close: async () => database.close(),
  };
}

/** A value of another type, from another program, is no record either. */
function entryOf(row: Record<string, unknown>): Entry {
  return [String(row['key']), String(row['value'])];
}
