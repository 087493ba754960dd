import { createServer } from 'node:http';

import { expect, it, onTestFinished } from 'vitest';

import { createHttpServer } from '../../../../src/lib/http/server.ts';
import { listen } from '../../../support/listen.ts';

it('a server that could not listen at first reports each error once', async () => {
  const taken = createServer();
  const port = Number((await listen(taken)).split(':')[1]);
  const troubles: Error[] = [];
  const server = createHttpServer({ requestMs: 15_000, idleMs: 1000 }, 'http.listen', (error) =>
    troubles.push(error),
  );
  onTestFinished(server.close);
  const place = { host: '127.0.0.1', port };
  for (let tries = 0; tries < 3; tries += 1)
    await expect(server.listen(place)).rejects.toMatchObject({ code: 'http.unusable' });
  await new Promise((resolve) => taken.close(resolve));
  expect(await server.listen(place)).toBe(port);
  server.node.emit('error', new Error('no descriptors left'));
  expect(troubles).toHaveLength(1);
});
