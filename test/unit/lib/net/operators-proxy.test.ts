import { describe, expect, it } from 'vitest';

import { operatorsProxy } from '../../../../src/lib/net/operators-proxy.ts';

const to = (host: string, protocol: 'http:' | 'https:' = 'https:') => ({ protocol, host, port: 443 });

describe('the proxy of the operator', () => {
  it.each<[Record<string, string>, 'http:' | 'https:', string | null]>([
    [{}, 'https:', null],
    [{ https_proxy: '' }, 'https:', null],
    [{ HTTPS_PROXY: 'https://p' }, 'https:', 'https://p'],
    [{ https_proxy: 'p:3128', HTTPS_PROXY: 'q' }, 'https:', 'http://p:3128'],
    [{ http_proxy: 'p:3128' }, 'https:', null],
    [{ http_proxy: 'p:3128' }, 'http:', 'http://p:3128'],
    [{ all_proxy: 'socks5://p' }, 'http:', 'socks5://p'],
    [{ https_proxy: '', ALL_PROXY: 'q' }, 'https:', 'http://q'],
    [{ https_proxy: 'p', ALL_PROXY: 'q' }, 'https:', 'http://p'],
  ])('comes from %j, for %s: %s', (variables, protocol, proxy) => {
    expect(operatorsProxy(variables, to('git.example.com', protocol))?.address ?? null).toBe(proxy);
  });

  it.each([
    [{ HTTPS_PROXY: 'p' }, 'HTTPS_PROXY'],
    [{ https_proxy: 'p', HTTPS_PROXY: 'q' }, 'https_proxy'],
    [{ https_proxy: '', ALL_PROXY: 'q' }, 'ALL_PROXY'],
  ])('is named by a variable, in %j by %s', (variables, variable) => {
    expect(operatorsProxy(variables, to('git.example.com'))?.variable).toBe(variable);
  });

  it.each([
    ['*', 'git.example.com', true],
    ['example.com', 'git.example.com', true],
    ['.example.com', 'git.example.com', true],
    ['Example.COM', 'git.example.com.', true],
    ['a.test, example.com', 'git.example.com', true],
    ['a.test example.com', 'git.example.com', true],
    ['ample.com', 'git.example.com', false],
    ['*.example.com', 'git.example.com', true],
    ['*.example.com', 'example.com', false],
    ['git.example.com:443', 'git.example.com', true],
    ['git.example.com:8443', 'git.example.com', false],
    ['10.0.0.1:443', '10.0.0.1', true],
    ['[::1]:443', '::1', true],
    [',', 'git.example.com', false],
    ['10.0.0.0/8', '10.1.2.3', true],
    ['10.0.0.0/8', '11.1.2.3', false],
    ['0.0.1', '10.0.0.1', false],
    ['private', '10.0.0.1', false],
    ['[::1]', '::1', true],
    ['2001:db8::/32', '2001:db8::1', true],
    ['10.0.0.0/8', '10.example.com', false],
  ])('with NO_PROXY %j is not used for %s: %s', (list, host, isExcepted) => {
    const found = operatorsProxy({ https_proxy: 'p', NO_PROXY: list }, to(host));
    expect(found?.address ?? null).toBe(isExcepted ? null : 'http://p');
  });
});
