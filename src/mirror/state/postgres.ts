import { createHash } from 'node:crypto';

import { Pool } from 'pg';

import { type Backend, type Entries, type Entry, NamespaceStore } from './adapter.ts';
import { CALL_TIMEOUT_MS, IDLE_TIMEOUT_MS, inTime } from './attempt.ts';

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
export function openPostgres(address: string): Backend {
  const pool = new Pool({
    connectionString: address,
    fallback_application_name: 'workbook-mirror',
    max: 4,
    connectionTimeoutMillis: CALL_TIMEOUT_MS,
    query_timeout: CALL_TIMEOUT_MS,
    idleTimeoutMillis: IDLE_TIMEOUT_MS,
  });
  // Between calls nothing is lost with a connection; a call that is cut off fails by itself.
  pool.on('error', () => {});
  const entries = postgresEntries(pool);
  return {
    store: (namespace) => new NamespaceStore(entries, namespace),
    close: () => pool.end(),
  };
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
