import { access, rename, rm } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';

import type { KeyvStorageAdapter } from 'keyv';

import { createTable, SqliteAdapter } from './sqlite-adapter.ts';

/** Where the entries of the namespaces are kept. */
export interface Backend {
  readonly adapter: (namespace: string) => Promise<KeyvStorageAdapter>;
  readonly close: () => Promise<void>;
}

const BUSY_TIMEOUT_MS = 5000;

/**
 * Opens the embedded store. A file that is damaged or of another program is put aside: what it remembered is found out
 * again from the disk and from the service.
 * @param onReset is told why the store begins anew
 */
export async function openSqlite(file: string, onReset: (reason: string) => void): Promise<Backend> {
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

/** Opens the embedded store for reading beside the process that writes it; null where there is none. */
export async function openSqliteForReading(file: string): Promise<Backend | null> {
  try {
    await access(file);
    return backendOf(new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MS }));
  } catch {
    return null;
  }
}

function openForWriting(file: string): DatabaseSync {
  const database = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
  try {
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
    createTable(database);
    database.prepare('SELECT ns, key, value, expires FROM kv LIMIT 1').get();
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** SQLite's result codes for a file that is no whole database (sqlite.org/rescode.html): CORRUPT 11, NOTADB 26, ERROR 1. */
const DAMAGE_CODES = new Set([1, 11, 26]);

function isDamage(error: unknown): error is Error {
  return error instanceof Error && 'errcode' in error && DAMAGE_CODES.has(Number(error.errcode) & 0xff);
}

function backendOf(database: DatabaseSync): Backend {
  return {
    adapter: async (namespace) => new SqliteAdapter(database, namespace),
    close: async () => database.close(),
  };
}
