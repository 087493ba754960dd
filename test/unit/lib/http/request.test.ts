import { Readable } from 'node:stream';

import { expect, it } from 'vitest';

import { readJson, splitTarget } from '../../../../src/lib/http/request.ts';

it.each([
  ['/a/b?c=d', '/a/b', 'c=d'],
  ['/a?b?c', '/a', 'b?c'],
  ['/a?', '/a', ''],
  // In the form sent to a server.
  ['//a/../%2e%2e/%zz', '//a/../%2e%2e/%zz', ''],
  // In the form sent to a proxy.
  ['http://host:80/api/repos?a=1', '/api/repos', 'a=1'],
  ['HTTPS://host//a', '//a', ''],
  ['http://host', '/', ''],
  ['http://host?a', '/', 'a'],
  ['*', '*', ''],
])('a request target %s has a path and a query', (target, path, query) => {
  expect(splitTarget(target)).toEqual({ path, query });
});

it('a body is UTF-8, with or without a byte order mark', async () => {
  const read = (bytes: Buffer): Promise<unknown> => readJson(Readable.from([bytes]), 100);
  for (const bytes of [Buffer.from('"Größe"', 'latin1'), Buffer.from('\uFEFF"Größe"', 'utf16le')])
    await expect(read(bytes)).rejects.toThrow('UTF-8');
  expect(await read(Buffer.from('\uFEFF"Größe"'))).toBe('Größe');
});
