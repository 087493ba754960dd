import type { DatabaseSync } from 'node:sqlite';

import { Hookified } from 'hookified';
import {
  type KeyvStorageAdapter,
  type KeyvStorageCapability,
  keyvStorageCapability,
  type KeyvStorageEntry,
  type KeyvStorageGetResult,
} from 'keyv';

const CREATE = `CREATE TABLE IF NOT EXISTS kv(
  ns TEXT NOT NULL, key TEXT NOT NULL, value ANY, expires INTEGER, PRIMARY KEY(ns, key)
) WITHOUT ROWID, STRICT`;
const ALIVE = '(expires IS NULL OR expires > ?)';
const UPSERT = `INSERT INTO kv VALUES(?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET value = excluded.value, expires = excluded.expires`;
const PAGE_ROWS = 500;

type SqlValue = string | number | bigint | null | Uint8Array;

/** Makes the table that the adapters of a database share. */
export function createTable(database: DatabaseSync): void {
  database.exec(CREATE);
}

/**
 * A durable keyv store in one SQLite table: one adapter a namespace, over one database. Batches are atomic. Errors are
 * thrown, as no listener is ever attached.
 */
export class SqliteAdapter extends Hookified implements KeyvStorageAdapter {
  namespace: string | undefined;
  private readonly database: DatabaseSync;

  constructor(database: DatabaseSync, namespace: string) {
    super();
    this.database = database;
    this.namespace = namespace;
  }

  /** Says that this adapter keeps absolute times of expiry itself (keyv 6). */
  get capabilities(): KeyvStorageCapability {
    return keyvStorageCapability(this);
  }

  async get<Value>(key: string): Promise<KeyvStorageGetResult<Value>> {
    const [value] = await this.getMany<Value>([key]);
    return value as KeyvStorageGetResult<Value>;
  }

  async getMany<Value>(keys: string[]): Promise<KeyvStorageGetResult<Value | undefined>[]> {
    // CROSS keeps the planner from scanning the table for every key.
    const rows = this.database
      .prepare(
        `SELECT kv.key, kv.value FROM json_each(?) wanted CROSS JOIN kv
         ON kv.ns = ? AND kv.key = wanted.value WHERE ${ALIVE}`,
      )
      .all(JSON.stringify(keys), this.space, Date.now());
    const values = new Map(rows.map((row) => [row['key'], row['value']]));
    return keys.map((key) => values.get(key) as KeyvStorageGetResult<Value | undefined>);
  }

  async has(key: string): Promise<boolean> {
    return (await this.hasMany([key]))[0] ?? false;
  }

  async hasMany(keys: string[]): Promise<boolean[]> {
    const values = await this.getMany(keys);
    return values.map((value) => value !== undefined);
  }

  async set(key: string, value: unknown, expires?: number): Promise<boolean> {
    this.database.prepare(UPSERT).run(this.space, key, value as SqlValue, expires ?? null);
    return true;
  }

  async setMany<Value>(entries: KeyvStorageEntry<Value>[]): Promise<boolean[]> {
    const upsert = this.database.prepare(UPSERT);
    this.inTransaction(() => {
      for (const { key, value, expires } of entries) {
        upsert.run(this.space, key, value as SqlValue, expires ?? null);
      }
    });
    return entries.map(() => true);
  }

  async delete(key: string): Promise<boolean> {
    return (await this.deleteMany([key]))[0] ?? false;
  }

  async deleteMany(keys: string[]): Promise<boolean[]> {
    const remove = this.database.prepare('DELETE FROM kv WHERE ns = ? AND key = ?');
    return this.inTransaction(() => keys.map((key) => Number(remove.run(this.space, key).changes) > 0));
  }

  async clear(): Promise<void> {
    this.database.prepare('DELETE FROM kv WHERE ns = ?').run(this.space);
  }

  async *iterator<Value>(): AsyncGenerator<(string | Awaited<Value> | undefined)[], void> {
    const page = this.database.prepare(
      `SELECT key, value FROM kv WHERE ns = ? AND key > ? AND ${ALIVE} ORDER BY key LIMIT ${PAGE_ROWS}`,
    );
    let last = '';
    for (;;) {
      const rows = page.all(this.space, last, Date.now());
      for (const row of rows) {
        last = String(row['key']);
        yield [last, row['value'] as Awaited<Value>];
      }
      if (rows.length < PAGE_ROWS) return;
    }
  }

  private get space(): string {
    return this.namespace ?? '';
  }

  private inTransaction<T>(work: () => T): T {
    this.database.exec('BEGIN IMMEDIATE');
    try {
      const result = work();
      this.database.exec('COMMIT');
      return result;
    } catch (error) {
      if (this.database.isTransaction) this.database.exec('ROLLBACK');
      throw error;
    }
  }
}
