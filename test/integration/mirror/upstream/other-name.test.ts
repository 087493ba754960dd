import { expect, it } from 'vitest';

import { startPair } from '../../../support/mirror-harness.ts';

it('an installation with only /repositories is mirrored, and is asked for /repos once', async () => {
  const { service, mirror } = await startPair({ repositoriesPath: '/repositories' });
  const repository = service.addRepository('Accounting', { 'a.xlsx': 'a', 'b.xlsx': 'b' });
  await mirror.pass();
  await mirror.expectExact();
  expect(service.takeRequests().slice(0, 2)).toEqual(['GET /api/repos', 'GET /api/repositories']);
  service.write(repository, 'main', 'b.xlsx', 'b2');
  await mirror.pass();
  await mirror.expectExact();
  expect(service.takeRequests().filter((request) => request.startsWith('GET /api/repos/'))).toEqual([]);
});

it('an installation without a list of repositories ends the pass, and is asked by both names each time', async () => {
  const { service, mirror } = await startPair();
  service.fault = () => ({ kind: 'status', status: 404 });
  for (let pass = 0; pass < 2; pass += 1) {
    expect(await mirror.failure()).toMatchObject({ code: 'service.not_found' });
    expect(service.takeRequests()).toEqual(['GET /api/repos', 'GET /api/repositories']);
  }
});
