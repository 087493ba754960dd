import { hash } from 'node:crypto';

import type { Pool } from 'pg';

import { waitAtMost } from '../../lib/concurrency/shared-work.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { trustSystemAuthorities } from '../../lib/net/ways.ts';
import { type Database, PAGE_ENTRIES } from './database.ts';

/** A call without an answer for this long, in milliseconds, has failed: a server that hangs must not hang a pass. */
const CALL_TIMEOUT_MS = 5000;

/**
 * Opens a store by its address: Redis, Valkey (which speaks the same protocol) or PostgreSQL. Loads only the client for that one.
 * @throws MirrorError `settings.invalid` for an address of another kind
 */
export async function openRemote(address: string): Promise<Database> {
  const { protocol, search } = new URL(address);
  if (/^(?:rediss|valkeys):$/.test(protocol) || search.includes('ssl')) trustSystemAuthorities();
  if (/^(?:redis|valkey)s?:$/.test(protocol)) return openRedis(address);
  if (/^postgres(?:ql)?:$/.test(protocol)) return openPostgres(address);
  throw new MirrorError(
    'settings.invalid',
    `state: no store is known for addresses of the kind ${protocol}//`,
    { hint: 'Use sqlite, or an address that begins with redis://, valkey:// or postgres://.' },
  );
}

/**
 * Opens a store in Redis or Valkey. Each call has its own connection: passes are minutes apart, and no connection can break in between.
 * Each namespace has a hash, so that a scan of one skips everything else on the server.
 */
async function openRedis(address: string): Promise<Database> {
  const { createClient } = await import('@redis/client');
  const newClient = () =>
    createClient({
      url: address.replace(/^valkey/, 'redis'),
      // Every version, and every proxy, speaks it: HELLO came with Redis 6.
      RESP: 2,
      disableClientInfo: true,
      socket: { connectTimeout: CALL_TIMEOUT_MS, reconnectStrategy: false },
    });
  const call = async <T>(work: (client: ReturnType<typeof newClient>) => Promise<T>): Promise<T> => {
    const client = newClient();
    // The call itself fails, too.
    client.on('error', () => {});
    try {
      return await inTime(client.connect().then(work));
    } finally {
      if (client.isOpen) client.destroy();
    }
  };
  const hashOf = (namespace: string): string => `workbook-mirror:${namespace}`;
  return {
    read: (namespace, key) =>
      call(async (client) => (await client.hGet(hashOf(namespace), key)) ?? undefined),
    write: async (namespace, entries) => {
      const fields = entries.map(([...entry]) => entry);
      await call((client) => client.hSet(hashOf(namespace), fields));
    },
    remove: async (namespace, keys) => {
      await call((client) => client.hDel(hashOf(namespace), [...keys]));
    },
    entries: async function* entries(namespace) {
      let cursor = '0';
      do {
        const found = await call((client) =>
          client.hScan(hashOf(namespace), cursor, { COUNT: PAGE_ENTRIES }),
        );
        for (const { field, value } of found.entries) yield [field, value];
        ({ cursor } = found);
      } while (cursor !== '0');
    },
    close: async () => {},
  };
}

/**
 * Keys may be too long for an index (postgresql.org/docs/current/btree.html: a third of a page), so their digests are the
 * index. Bytes are the same in every encoding of a database. Without the lock, which ends with these statements, instances
 * that create the table at the same time would fail.
 */
const CREATE = `SELECT pg_advisory_xact_lock(hashtext('workbook_mirror_state'));
CREATE TABLE IF NOT EXISTS workbook_mirror_state(
  namespace text NOT NULL, digest bytea NOT NULL, key bytea NOT NULL, value bytea NOT NULL,
  PRIMARY KEY (namespace, digest)
)`;
const UPSERT = `INSERT INTO workbook_mirror_state (namespace, digest, key, value)
  SELECT $1, * FROM unnest($2::bytea[], $3::bytea[], $4::bytea[])
  ON CONFLICT (namespace, digest) DO UPDATE SET value = excluded.value`;
const PAGE = `SELECT digest, key, value FROM workbook_mirror_state WHERE namespace = $1 AND digest > $2
  ORDER BY digest LIMIT ${PAGE_ENTRIES}`;

interface Row {
  readonly digest: Buffer;
  readonly key: Buffer;
  readonly value: Buffer;
}

/** Opens a store in PostgreSQL; connections are made when they are needed. */
async function openPostgres(address: string): Promise<Database> {
  const postgres = await import('pg');
  const pool: Pool = new postgres.Pool({
    connectionString: address,
    fallback_application_name: 'workbook-mirror',
    max: 4,
    connectionTimeoutMillis: CALL_TIMEOUT_MS,
    query_timeout: CALL_TIMEOUT_MS,
    idleTimeoutMillis: 10_000,
  });
  // Between calls a lost connection does no harm; an interrupted call fails.
  pool.on('error', () => {});
  let table: Promise<void> | null = null;
  const query = async (sql: string, values: unknown[]): Promise<Row[]> => {
    try {
      await (table ??= inTime(makeTable(pool)));
      return (await inTime(pool.query<Row>(sql, values))).rows;
    } catch (error) {
      table = null;
      throw error;
    }
  };
  return {
    read: async (namespace, key) => {
      const [row] = await query(
        'SELECT value FROM workbook_mirror_state WHERE namespace = $1 AND digest = $2',
        [namespace, digestOf(key)],
      );
      return row?.value.toString();
    },
    write: async (namespace, entries) => {
      const [keys, values] = [entries.map(([key]) => key), entries.map(([, value]) => value)];
      const bytesOf = (text: string): Buffer => Buffer.from(text);
      await query(UPSERT, [namespace, keys.map(digestOf), keys.map(bytesOf), values.map(bytesOf)]);
    },
    remove: async (namespace, keys) => {
      await query('DELETE FROM workbook_mirror_state WHERE namespace = $1 AND digest = ANY($2::bytea[])', [
        namespace,
        keys.map(digestOf),
      ]);
    },
    entries: async function* entries(namespace) {
      for (let last: Buffer | undefined = Buffer.alloc(0); last !== undefined;) {
        const rows: Row[] = await query(PAGE, [namespace, last]);
        for (const { key, value } of rows) yield [key.toString(), value.toString()];
        last = rows.length < PAGE_ENTRIES ? undefined : rows.at(-1)?.digest;
      }
    },
    close: () => inTime(pool.end()),
  };
}

/** Creates the table, unless it exists: then the user only needs the right to use it. */
async function makeTable(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ found: string | null }>(
    "SELECT to_regclass('workbook_mirror_state') AS found",
  );
  if (rows[0]?.found === null) await pool.query(CREATE);
}

function digestOf(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

/** Runs a call with a time limit. @throws the call's errors, and an Error if it does not answer */
async function inTime<T>(call: Promise<T>): Promise<T> {
  const ended = await waitAtMost(
    call.then((result) => ({ result })),
    CALL_TIMEOUT_MS,
  );
  if (ended === null) throw new Error('it does not answer');
  return ended.result;
}
