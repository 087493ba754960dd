import { createClient } from '@redis/client';

import { type Backend, type Entries, type Entry, NamespaceStore, PAGE_ENTRIES } from './adapter.ts';
import { CALL_TIMEOUT_MS, IDLE_TIMEOUT_MS, inTime } from './attempt.ts';

type Client = ReturnType<typeof createRedisClient>;

/** Opens a store in Redis or Valkey; the connection is made when it is needed. */
export function openRedis(address: string): Backend {
  const connection = new Connection(address.replace(/^valkey/, 'redis'));
  const entries = redisEntries(connection);
  return {
    store: (namespace) => new NamespaceStore(entries, namespace),
    close: () => connection.close(),
  };
}

function createRedisClient(url: string) {
  return createClient({
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
  private readonly url: string;
  private current: { readonly client: Client; readonly isReady: Promise<unknown> } | null = null;

  constructor(url: string) {
    this.url = url;
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
    const client = createRedisClient(this.url);
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
