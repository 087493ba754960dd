import { expect, it } from 'vitest';

import { splitTarget } from '../../../../src/lib/http/request.ts';

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
