import { createHash } from 'node:crypto';

import type { createClient } from '@redis/client';
import type { Pool } from 'pg';

import { MirrorError } from '../../lib/errors/errors.ts';
import {
  type Backend,
  CALL_TIMEOUT_MS,
  type Entries,
  type Entry,
  IDLE_TIMEOUT_MS,
  inTime,
  PAGE_ENTRIES,
} from './adapter.ts';

/**
 * Opens a store by its address: Redis, Valkey (which speaks the same protocol) or PostgreSQL. Loads the client of that one alone.
 * @throws MirrorError `settings.invalid` when the address is of another kind
 */
export async function openRemote(address: string): Promise<Backend> {
  const { protocol } = new URL(address);
  switch (protocol) {
    case 'redis:':
    case 'rediss:':
    case 'valkey:':
    case 'valkeys:':
      return openRedis(address);
    case 'postgres:':
    case 'postgresql:':
      return openPostgres(address);
    default:
      throw new MirrorError(
        'settings.invalid',
        `state: no store is known for addresses of the kind ${protocol}//`,
        {
          hint: 'Use sqlite, or an address that begins with redis://, valkey:// or postgres://.',
        },
      );
  }
}

type Client = ReturnType<typeof createRedisClient>;

/** Opens a store in Redis or Valkey; the connection is made when it is needed. */
async function openRedis(address: string): Promise<Backend> {
  const redis = await import('@redis/client');
  const url = address.replace(/^valkey/, 'redis');
  const connection = new Connection(() => createRedisClient(redis.createClient, url));
  return { entries: redisEntries(connection), close: () => connection.close() };
}

function createRedisClient(create: typeof createClient, url: string) {
  return create({
    url,
    // What every version speaks, and what stands between: HELLO came with Redis 6.
    RESP: 2,
    disableClientInfo: true,
    socket: {
      connectTimeout: CALL_TIMEOUT_MS,
      socketTimeout: IDLE_TIMEOUT_MS,
      reconnectStrategy: false,
    },
  });
}

/** The connection to a server. A broken or idle one is closed, and the next call makes another. */
class Connection {
  private readonly create: () => Client;
  private current: { readonly client: Client; readonly isReady: Promise<unknown> } | null = null;

  constructor(create: () => Client) {
    this.create = create;
  }

  /** Has commands done. @throws what the server or the connection says, and an Error when it does not answer in time */
  async run<T>(work: (client: Client) => Promise<T>): Promise<T> {
    const { client, isReady } = (this.current ??= this.connect());
    try {
      return await inTime(() => isReady.then(() => work(client)));
    } catch (error) {
      this.drop(client);
      throw error;
    }
  }

  async close(): Promise<void> {
    if (this.current !== null) this.drop(this.current.client);
  }

  private connect(): { readonly client: Client; readonly isReady: Promise<unknown> } {
    const client = this.create();
    // Between calls nothing is lost with a connection; a call that is cut off fails by itself.
    client.on('error', () => this.drop(client));
    return { client, isReady: client.connect() };
  }

  private drop(client: Client): void {
    if (this.current?.client === client) this.current = null;
    if (client.isOpen) client.destroy();
  }
}

/** Entries in Redis: a hash for each namespace, so that going through one does not go through all that others keep there. */
function redisEntries(connection: Connection): Entries {
  return {
    read: (namespace, key) =>
      connection.run(async (client) => (await client.hGet(hashOf(namespace), key)) ?? undefined),
    write: async (namespace, entries) => {
      await connection.run((client) =>
        client.hSet(
          hashOf(namespace),
          entries.map(([...entry]) => entry),
        ),
      );
    },
    remove: async (namespace, keys) => {
      await connection.run((client) => client.hDel(hashOf(namespace), [...keys]));
    },
    clear: async (namespace) => {
      await connection.run((client) => client.del(hashOf(namespace)));
    },
    pages: async function* pages(namespace) {
      let cursor = '0';
      do {
        const { cursor: next, entries } = await connection.run((client) =>
          client.hScan(hashOf(namespace), cursor, { COUNT: PAGE_ENTRIES }),
        );
        yield entries.map(({ field, value }): Entry => [field, value]);
        cursor = next;
      } while (cursor !== '0');
    },
  };
}

function hashOf(namespace: string): string {
  return `workbook-mirror:${namespace}`;
}

/**
 * Keys, which may be longer than an index takes (postgresql.org/docs/current/btree.html: a third of a page), are found by their
 * digests. Bytes are the same in every encoding that a database may have. Instances that make the table at once would fail without
 * the lock, which ends with these statements.
 */
const CREATE = `SELECT pg_advisory_xact_lock(hashtext('workbook_mirror_state'));
CREATE TABLE IF NOT EXISTS workbook_mirror_state(
  namespace text NOT NULL, digest bytea NOT NULL, key bytea NOT NULL, value bytea NOT NULL,
  PRIMARY KEY (namespace, digest)
)`;
const UPSERT = `INSERT INTO workbook_mirror_state (namespace, digest, key, value)
  SELECT $1, * FROM unnest($2::bytea[], $3::bytea[], $4::bytea[])
  ON CONFLICT (namespace, digest) DO UPDATE SET value = excluded.value`;
const PAGE_ROWS = 500;

interface Row {
  readonly key: Buffer;
  readonly value: Buffer;
}

/** Opens a store in PostgreSQL; connections are made when they are needed. */
async function openPostgres(address: string): Promise<Backend> {
  const postgres = await import('pg');
  const pool: Pool = new postgres.Pool({
    connectionString: address,
    fallback_application_name: 'workbook-mirror',
    max: 4,
    connectionTimeoutMillis: CALL_TIMEOUT_MS,
    query_timeout: CALL_TIMEOUT_MS,
    idleTimeoutMillis: IDLE_TIMEOUT_MS,
  });
  // Between calls nothing is lost with a connection; a call that is cut off fails by itself.
  pool.on('error', () => {});
  return { entries: postgresEntries(pool), close: () => pool.end() };
}

/** Entries in one table of PostgreSQL. */
function postgresEntries(pool: Pool): Entries {
  let table: Promise<void> | null = null;
  const query = async <Found extends object>(sql: string, values: unknown[]): Promise<Found[]> => {
    try {
      await (table ??= inTime(() => makeTable(pool)));
      const { rows } = await inTime(() => pool.query<Found>(sql, values));
      return rows;
    } catch (error) {
      table = null;
      throw error;
    }
  };
  return {
    read: async (namespace, key) => {
      const [row] = await query<Pick<Row, 'value'>>(
        'SELECT value FROM workbook_mirror_state WHERE namespace = $1 AND digest = $2',
        [namespace, digestOf(key)],
      );
      return row?.value.toString();
    },
    write: async (namespace, entries) => {
      const [keys, values] = [entries.map(([key]) => key), entries.map(([, value]) => value)];
      await query(UPSERT, [namespace, keys.map(digestOf), keys.map(bytesOf), values.map(bytesOf)]);
    },
    remove: async (namespace, keys) => {
      await query('DELETE FROM workbook_mirror_state WHERE namespace = $1 AND digest = ANY($2::bytea[])', [
        namespace,
        keys.map(digestOf),
      ]);
    },
    clear: async (namespace) => {
      await query('DELETE FROM workbook_mirror_state WHERE namespace = $1', [namespace]);
    },
    pages: async function* pages(namespace) {
      let last = Buffer.alloc(0);
      for (;;) {
        const rows = await query<Row & { readonly digest: Buffer<ArrayBuffer> }>(
          `SELECT digest, key, value FROM workbook_mirror_state WHERE namespace = $1 AND digest > $2
           ORDER BY digest LIMIT ${PAGE_ROWS}`,
          [namespace, last],
        );
        if (rows.length > 0) yield rows.map(entryOf);
        if (rows.length < PAGE_ROWS) return;
        last = rows.at(-1)?.digest ?? last;
      }
    },
  };
}

/** Makes the table, unless it is there: then nothing more than to use it has to be allowed. */
async function makeTable(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ found: string | null }>(
    "SELECT to_regclass('workbook_mirror_state') AS found",
  );
  if (rows[0]?.found === null) await pool.query(CREATE);
}

function entryOf({ key, value }: Row): Entry {
  return [key.toString(), value.toString()];
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text);
}

function digestOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
