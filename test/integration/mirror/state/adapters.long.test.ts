import { afterAll, describe, it } from 'vitest';

import { openPostgres } from '../../../../src/mirror/state/postgres.ts';
import { openRedis } from '../../../../src/mirror/state/redis.ts';
import { describeAdapter } from '../../../support/keyv-adapters.ts';
import { hasServer, postgres, startPostgres, startRedis } from '../../../support/stores.ts';

for (const server of ['redis-server', 'valkey-server'] as const) {
  if (hasServer(server)) {
    const backend = openRedis((await startRedis({ server, atEnd: afterAll })).address);
    afterAll(() => backend.close());
    describeAdapter(`the adapter for ${server}`, backend.adapter);
  } else {
    describe(`the adapter for ${server}`, () => it.skip('is tried where there is one'));
  }
}

if (postgres === null) {
  describe('the adapter for PostgreSQL', () => it.skip('is tried where there is one'));
} else {
  // What is kept must not depend on the encoding of the database.
  for (const encoding of ['UTF8', 'LATIN1', 'SQL_ASCII']) {
    const args = ['--encoding', encoding, '--locale', 'C'];
    const backend = openPostgres((await startPostgres(postgres, { args, atEnd: afterAll })).address);
    afterAll(() => backend.close());
    describeAdapter(`the adapter for PostgreSQL with ${encoding}`, backend.adapter);
  }
}
