import { afterAll, describe, it } from 'vitest';

import { namespaceStore } from '../../../../src/mirror/state/database.ts';
import { openRemote } from '../../../../src/mirror/state/remote.ts';
import { describeStore } from '../../../support/namespace-stores.ts';
import { hasServer, postgres, startPostgres, startRedis } from '../../../support/stores.ts';

for (const server of ['redis-server', 'valkey-server'] as const) {
  if (hasServer(server)) {
    const backend = await openRemote((await startRedis({ server, atEnd: afterAll })).address);
    afterAll(() => backend.close());
    describeStore(`the store in ${server}`, (namespace) => namespaceStore(backend, namespace));
  } else {
    describe(`the store in ${server}`, () => it.skip('is tried where there is one'));
  }
}

if (postgres === null) {
  describe('the store in PostgreSQL', () => it.skip('is tried where there is one'));
} else {
  // Stored values must not depend on the encoding of the database.
  for (const encoding of ['UTF8', 'LATIN1']) {
    const args = ['--encoding', encoding, '--locale', 'C'];
    const backend = await openRemote((await startPostgres(postgres, { args, atEnd: afterAll })).address);
    afterAll(() => backend.close());
    describeStore(`the store in PostgreSQL with ${encoding}`, (namespace) =>
      namespaceStore(backend, namespace),
    );
  }
}
