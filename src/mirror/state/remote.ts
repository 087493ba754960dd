import { MirrorError } from '../../lib/errors/errors.ts';
import type { Backend } from './adapter.ts';

/**
 * Opens a store by its address: Redis, Valkey (which speaks the same protocol) or PostgreSQL. What it needs is loaded now.
 * @throws MirrorError `settings.invalid` when the address is of another kind
 */
export async function openRemote(address: string): Promise<Backend> {
  const { protocol } = new URL(address);
  switch (protocol) {
    case 'redis:':
    case 'rediss:':
    case 'valkey:':
    case 'valkeys:': {
      const { openRedis } = await import('./redis.ts');
      return openRedis(address);
    }
    case 'postgres:':
    case 'postgresql:': {
      const { openPostgres } = await import('./postgres.ts');
      return openPostgres(address);
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
