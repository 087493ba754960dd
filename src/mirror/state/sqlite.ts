import { lstat, rename, rm } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';

import type { Backend, Entries, Entry } from './adapter.ts';

const BUSY_TIMEOUT_MS = 5000;

/** `expires` stays empty: it is there as it was from the beginning, and keyv looks at times of expiry itself. */
const CREATE = `CREATE TABLE IF NOT EXISTS kv(
  ns TEXT NOT NULL, key TEXT NOT NULL, value ANY, expires INTEGER, PRIMARY KEY(ns, key)
) WITHOUT ROWID, STRICT`;
const UPSERT = `INSERT INTO kv VALUES(?, ?, ?, NULL)
  ON CONFLICT DO UPDATE SET value = excluded.value, expires = NULL`;
const PAGE_ROWS = 500;

/**
 * The size of pages of a new file. A record takes more than a quarter of SQLite's own 4096, and what exceeds that would lie in a
 * page of its own (sqlite.org/fileformat2.html, "Cell Payload Overflow Pages"): three times the file, and twice the reads.
 */
const PAGE_BYTES = 8192;

/**
 * Opens the embedded store. A file that is damaged or of another program is put aside: what it remembered is found out
 * again from the disk and from the service.
 * @param onReset receives the reason why the store begins anew
 */
export async function openSqlite(file: string, onReset: (reason: string) => void): Promise<Backend> {
  for (const name of await removeForeign(file)) onReset(`${name} was not a plain file; it was removed`);
  try {
    return backendOf(openForWriting(file));
  } catch (error) {
    if (!isDamage(error)) throw error;
    onReset(`${file} is damaged (${error.message}); it was put aside as ${file}.damaged`);
    await rename(file, `${file}.damaged`);
    await Promise.all(['-wal', '-shm'].map((suffix) => rm(file + suffix, { force: true })));
    return backendOf(openForWriting(file));
  }
}

/** The files of a database: SQLite opens each by its name, and follows a link that stands there (sqlite.org/tempfiles.html). */
const FILES = ['', '-wal', '-shm', '-journal'];

/**
 * Removes anything but plain files where the files of the store belong.
 * @returns what was removed
 * @throws what keeps it from being removed
 */
async function removeForeign(file: string): Promise<string[]> {
  const removed: string[] = [];
  for (const name of FILES.map((suffix) => file + suffix)) {
    const found = await lstat(name).catch(() => null);
    if (found === null || found.isFile()) continue;
    await rm(name);
    removed.push(name);
  }
  return removed;
}

/**
 * Opens the embedded store for reading beside the process that writes it; null where there is none, or none that can be
 * read. A reader who may not write in its folder sees the state that was last brought into the main file (sqlite.org/wal.html,
 * section 5).
 */
export function openSqliteForReading(file: string): Backend | null {
  const immutable = pathToFileURL(file);
  immutable.searchParams.set('immutable', '1');
  for (const address of [file, immutable]) {
    const database = readable(address);
    if (database !== null) return backendOf(database);
  }
  return null;
}

/** Opens a store that is empty, and lost when it is closed. */
export function openInMemory(): Backend {
  return backendOf(openForWriting(':memory:'));
}

function readable(address: string | URL): DatabaseSync | null {
  let database: DatabaseSync | null = null;
  try {
    database = new DatabaseSync(address, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
    probe(database);
    return database;
  } catch {
    database?.close();
    return null;
  }
}

function probe(database: DatabaseSync): void {
  database.prepare('SELECT ns, key, value, expires FROM kv LIMIT 1').get();
}

function openForWriting(file: string): DatabaseSync {
  const database = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
  try {
    // A power cut may take the last commits, and leaves the database whole: what they remembered is found out again.
    database.exec(`PRAGMA page_size = ${PAGE_BYTES}; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL`);
    database.exec(CREATE);
    probe(database);
    checkWhole(database);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Reads every page: damage in the middle shows only when that is needed, and never goes away. */
function checkWhole(database: DatabaseSync): void {
  const verdict = database.prepare('PRAGMA quick_check(1)').get();
  const [found] = Object.values(verdict ?? {});
  if (found !== 'ok') throw Object.assign(new Error(String(found)), { errcode: CORRUPT });
}

/** SQLite's result codes for a file that is no whole database (sqlite.org/rescode.html): CORRUPT 11, NOTADB 26, ERROR 1. */
const CORRUPT = 11;
const DAMAGE_CODES = new Set([1, CORRUPT, 26]);

function isDamage(error: unknown): error is Error {
  return error instanceof Error && 'errcode' in error && DAMAGE_CODES.has(Number(error.errcode) & 0xff);
}

function backendOf(database: DatabaseSync): Backend {
  return { entries: sqliteEntries(database), close: async () => database.close() };
}

/** Entries in one table of SQLite. */
function sqliteEntries(database: DatabaseSync): Entries {
  const inTransaction = (work: () => void): void => {
    database.exec('BEGIN IMMEDIATE');
    try {
      work();
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
    write: async (namespace, entries) => {
      const upsert = database.prepare(UPSERT);
      inTransaction(() => {
        for (const [key, value] of entries) upsert.run(namespace, key, value);
      });
    },
    remove: async (namespace, keys) => {
      const remove = database.prepare('DELETE FROM kv WHERE ns = ? AND key = ?');
      inTransaction(() => {
        for (const key of keys) remove.run(namespace, key);
      });
    },
    clear: async (namespace) => {
      database.prepare('DELETE FROM kv WHERE ns = ?').run(namespace);
    },
    pages: async function* pages(namespace) {
      const page = database.prepare(
        `SELECT key, value FROM kv WHERE ns = ? AND key > ? ORDER BY key LIMIT ${PAGE_ROWS}`,
      );
      let last = '';
      for (;;) {
        const entries = page.all(namespace, last).map(entryOf);
        if (entries.length > 0) yield entries;
        if (entries.length < PAGE_ROWS) return;
        [last] = entries.at(-1) ?? [last];
      }
    },
  };
}

/** What another program may have put into the table instead of texts is no record either. */
function entryOf(row: Record<string, unknown>): Entry {
  return [String(row['key']), String(row['value'])];
}
