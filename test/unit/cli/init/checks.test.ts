import { describe, expect, it } from 'vitest';

import { addressCandidates, isOfApi } from '../../../../src/cli/init/checks.ts';

describe('the address of the API', () => {
  it.each([
    ['https://w.example.com', 'https://w.example.com/api'],
    [' w.example.com/ ', 'https://w.example.com/api'],
    ['HTTPS://W.example.com:8443/api/', 'https://w.example.com:8443/api'],
    ['https://w.example.com/api/v1/workbooks?page=2', 'https://w.example.com/api'],
    ['https://w.example.com/app/api/repos', 'https://w.example.com/app/api'],
    ['https://w.example.com/Accounting/main?tab=history#top', 'https://w.example.com/api'],
  ])('that %j means is first %s', (pasted, first) => {
    expect(addressCandidates(pasted)[0]).toBe(first);
  });

  it('may be below a folder that was pasted, and each is tried once', () => {
    const folders = ['', 'app/', 'app/Accounting/', 'app/Accounting/main/'];
    const all = ['app/Accounting/main/a/b/', ...folders].map((folder) => `https://h/${folder}api`);
    expect(addressCandidates('https://h/app/Accounting/main/a/b/api/c')).toEqual(all);
  });

  it('is one without encryption only where that was typed, and then at last', () => {
    expect(addressCandidates('localhost:9400')).toEqual(['https://localhost:9400/api']);
    expect(addressCandidates('http://h')).toEqual(['https://h/api', 'http://h/api']);
  });

  it.each(['', 'two words', 'ftp://h', 'https://anna:pass-8f1c@h/', 'anna:pass-8f1c@h'])(
    'is none of %j, and the reason does not repeat it',
    (pasted) => {
      expect(() => addressCandidates(pasted)).toThrow(/^expected (?!.*pass-8f1c)/);
    },
  );

  it('answers without a key by asking for one, or with JSON', () => {
    expect([401, 403].map((status) => isOfApi(status))).toEqual([true, true]);
    expect(isOfApi(200, 'application/json; charset=utf-8')).toBe(true);
    expect([isOfApi(0), isOfApi(404), isOfApi(302), isOfApi(200, 'text/html')]).not.toContain(true);
  });
});
