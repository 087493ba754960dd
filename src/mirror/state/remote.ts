import type { KeyvStorageAdapter } from 'keyv';

import { waitAtMost } from '../../lib/concurrency/shared-work.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { Backend } from './adapter.ts';

type EventfulAdapter = KeyvStorageAdapter & {
  on: (event: 'error', listener: (error: unknown) => void) => unknown;
};

const CONNECT_TIMEOUT_MS = 5000;

/**
 * Opens a store by its address: Redis, Valkey (which speaks the same protocol) or PostgreSQL. The adapters are optional
 * peers.
 * @throws MirrorError `settings.invalid` when the adapter is not installed or the address is of another kind
 */
export async function openRemote(address: string, onError: (error: unknown) => void): Promise<Backend> {
  const { protocol } = new URL(address);
  const make = await adapterFactory(protocol, address);
  const adapters: KeyvStorageAdapter[] = [];
  return {
    adapter: async (namespace) => {
      const adapter = make(namespace);
      // An error between calls, such as a lost connection, would end the process if nobody listened; a listener of
      // keyv's own would turn failed calls into missing values.
      adapter.on('error', onError);
      adapters.push(adapter);
      // The adapters share one table, and PostgreSQL's CREATE TABLE IF NOT EXISTS fails when two connections do it at once: the
      // next one waits until this one has made it, or could not.
      if (isPostgres(protocol))
        await waitAtMost(
          adapter.has('any').catch(() => false),
          CONNECT_TIMEOUT_MS,
        );
      return withoutEvents(adapter);
    },
    close: async () => {
      for (const adapter of adapters) await adapter.disconnect?.().catch(onError);
    },
  };
}

function isPostgres(protocol: string): boolean {
  return protocol === 'postgres:' || protocol === 'postgresql:';
}

async function adapterFactory(
  protocol: string,
  address: string,
): Promise<(namespace: string) => EventfulAdapter> {
  switch (protocol) {
    case 'redis:':
    case 'rediss:':
    case 'valkey:':
    case 'valkeys:': {
      const { default: KeyvRedis } = await installed('@keyv/redis@6.0.0-rc.1', () => import('@keyv/redis'));
      const url = address.replace(/^valkey/, 'redis');
      return (namespace) =>
        new KeyvRedis(url, {
          namespace,
          throwOnErrors: true,
          throwOnConnectError: true,
          connectionTimeout: CONNECT_TIMEOUT_MS,
        });
    }
    case 'postgres:':
    case 'postgresql:': {
      const { default: KeyvPostgres } = await installed(
        '@keyv/postgres@6.0.0-beta.4',
        () => import('@keyv/postgres'),
      );
      return (namespace) =>
        Object.assign(new KeyvPostgres({ uri: address, table: 'workbook_mirror' }), { namespace });
    }
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

/** Loads an adapter. `spec` is its name and version, as npm takes it and as package.json has it among the peers. */
async function installed<T>(spec: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    throw new MirrorError('settings.invalid', `state: the package ${spec} is not installed.`, {
      cause,
      hint: `Install it beside workbook-mirror (npm install ${spec}), or use the default state, sqlite.`,
    });
  }
}

/** The adapter, as keyv sees it: without a way to listen, so that failed calls reject. */
function withoutEvents(adapter: EventfulAdapter): KeyvStorageAdapter {
  return new Proxy(adapter, {
    get(target, property) {
      if (property === 'on') return undefined;
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === 'function' ? (value as (...all: unknown[]) => unknown).bind(target) : value;
    },
  });
}
