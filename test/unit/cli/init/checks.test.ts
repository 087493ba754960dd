import { describe, expect, it } from 'vitest';

import { apiAddress, isOfApi } from '../../../../src/cli/init/checks.ts';

describe('the address of the API', () => {
  it.each([
    ['https://w.example.com', 'https://w.example.com/api'],
    [' w.example.com/ ', 'https://w.example.com/api'],
    ['HTTPS://W.example.com:8443/api/', 'https://w.example.com:8443/api'],
    ['https://w.example.com/api/v1/workbooks?page=2', 'https://w.example.com/api'],
    ['https://w.example.com/app/api/repos', 'https://w.example.com/app/api'],
    ['https://w.example.com/Accounting/main?tab=history#top', 'https://w.example.com/api'],
    ['http://localhost:9400', 'http://localhost:9400/api'],
  ])('that %j means is %s', (pasted, meant) => {
    expect(apiAddress(pasted)).toBe(meant);
  });

  it.each(['', 'two words', 'ftp://h', 'https://anna:pass-8f1c@h/', 'anna:pass-8f1c@h'])(
    'is none of %j, and the reason does not repeat it',
    (pasted) => {
      expect(() => apiAddress(pasted)).toThrow(/^expected (?!.*pass-8f1c)/);
    },
  );

  it('answers without a key by asking for one, or with JSON', () => {
    expect([401, 403].map((status) => isOfApi(status))).toEqual([true, true]);
    expect(isOfApi(200, 'application/json; charset=utf-8')).toBe(true);
    expect([isOfApi(0), isOfApi(404), isOfApi(302), isOfApi(200, 'text/html')]).not.toContain(true);
  });
});
