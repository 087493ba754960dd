import type { DatabaseSync } from 'node:sqlite';

import type { Entries, Entry } from './adapter.ts';

/** `expires` stays empty: it is there as it was from the beginning, and keyv looks at times of expiry itself. */
const CREATE = `CREATE TABLE IF NOT EXISTS kv(
  ns TEXT NOT NULL, key TEXT NOT NULL, value ANY, expires INTEGER, PRIMARY KEY(ns, key)
) WITHOUT ROWID, STRICT`;
const UPSERT = `INSERT INTO kv VALUES(?, ?, ?, NULL)
  ON CONFLICT DO UPDATE SET value = excluded.value, expires = NULL`;
const PAGE_ROWS = 500;

/** Makes the table that holds the entries of a database. */
export function createTable(database: DatabaseSync): void {
  database.exec(CREATE);
}

/** Entries in one table of SQLite. */
export function sqliteEntries(database: DatabaseSync): Entries {
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
