import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { formatListen, hasPassword, baseUrl, listen, state } from '../../../src/config/addresses.ts';
import { targetProblem } from '../../../src/config/schema.ts';

describe('the address of the service', () => {
  it.each([
    ['https://h/api', 'https://h/api'],
    ['https://h/api///', 'https://h/api'],
    ['HTTPS://H:443/api', 'https://h/api'],
    ['http://[::1]:9400/api', 'http://[::1]:9400/api'],
    ['https://h/', 'https://h'],
  ])('%s is %s', (text, url) => {
    expect(baseUrl.parse(text, '')).toBe(url);
  });

  it.each([
    '',
    'h/api',
    'ftp://h/api',
    'https:h',
    'https:/h/api',
    'https://',
    ' https://h',
    'https://h/a b',
    'https:\\\\h\\api',
    'https://h:99999/api',
  ])('%j is refused', (text) => {
    expect(() => baseUrl.parse(text, '')).toThrow(/expected an http/);
  });

  it.each([
    ['https://s3cret@h/api', /^expected an address without user name and password[^@]*$/],
    ['https://:s3cret@h/api', /^expected an address without user name and password[^@]*$/],
    ['https://h/api?', /without "\?" and "#"/],
    ['https://h/api#', /without "\?" and "#"/],
  ])('%j is refused, and credentials in it are not shown', (text, reason) => {
    expect(() => baseUrl.parse(text, '')).toThrow(reason);
  });
});

describe('an address to listen on', () => {
  it.each([
    ['127.0.0.1:9400', { host: '127.0.0.1', port: 9400 }],
    ['localhost:0', { host: 'localhost', port: 0 }],
    ['[::1]:65535', { host: '::1', port: 65_535 }],
    ['[::]:80', { host: '::', port: 80 }],
  ])('%s', (text, address) => {
    expect(listen.parse(text, '')).toEqual(address);
    expect(formatListen(address)).toBe(text);
  });

  it.each(['80', 'h:', 'h:65536', 'h:8o', '::1:80', '[::1]', '[h]:80', 'u@h:80', 'h h:80', '1.2.3.4:80\n'])(
    '%j is refused',
    (text) => {
      expect(() => listen.parse(text, '')).toThrow(/expected host:port/);
    },
  );
});

describe('the state cache', () => {
  it('is the embedded store', () => {
    expect(state.parse('sqlite', '')).toEqual({ store: 'sqlite' });
  });

  it.each([
    ['redis://h', 'redis', 'redis://h'],
    ['rediss://user:s3cret@h:1/0', 'redis', 'rediss://user:***@h:1/0'],
    ['valkey://:s3cret@h', 'redis', 'valkey://:***@h'],
    ['valkeys://h', 'redis', 'valkeys://h'],
    ['postgres://u:p%40s3cret@h:5432/db', 'postgres', 'postgres://u:***@h:5432/db'],
    ['postgresql://u@h/db?password=s3cret&a=b', 'postgres', 'postgresql://u@h/db?password=***&a=b'],
    ['postgres:///db?host=/run/postgresql', 'postgres', 'postgres:///db?host=/run/postgresql'],
  ])('%s', (text, store, shown) => {
    const found = state.parse(text, '');
    expect(found.store).toBe(store);
    if (found.store === 'sqlite') throw new Error('unreachable');
    expect(found.address.reveal()).toBe(text);
    expect(found.address.toString()).toBe(shown);
    expect(JSON.stringify(found)).not.toContain('s3cret');
  });

  it.each([
    'SQLite',
    'redis:h',
    'redis://',
    'mysql://u:s3cret@h',
    'redis://u:s3c/ret@h',
    'redis://u:s3c#ret@h',
    'redis://u:s3c?ret@h',
    'redis://us/er@h',
    'redis://h#s3cret',
    'redis://h /0',
    'redis://u:s3cret@h:port',
  ])('%j is refused, and not shown', (text) => {
    expect(() => state.parse(text, '')).toThrow(/^expected (?!.*s3c)/);
  });

  it.each([
    ['redis://u@h', false],
    ['redis://:p@h', true],
    ['postgres://h/d?sslmode=require', false],
    ['postgres://h/d?password=x', true],
    ['nonsense', false],
  ])('%s has a password: %j', (text, expected) => {
    expect(hasPassword(text)).toBe(expected);
  });

  it('never shows a password', () => {
    const password = fc.string({ minLength: 1, unit: 'binary' }).map((text) => `s3cret${text}`);
    fc.assert(
      fc.property(password, (secret) => {
        const found = state.parse(`redis://user:${encodeURIComponent(secret)}@h/0`, '');
        return !JSON.stringify(found).includes('s3cret');
      }),
    );
  });
});

describe('a target', () => {
  it.each(['Accounting/main', '**/main', 'github.com/org/plan.git/main', 'a/feature%2Fx', 'a{b,c}/main'])(
    '%s',
    (text) => {
      expect(targetProblem(text)).toBeUndefined();
    },
  );

  it.each(['', 'main', '/main', 'a/', '/', 'a/ma*n', 'a/[m]', 'a/100%', 'a/%zz'])('%j is refused', (text) => {
    expect(targetProblem(text)).toMatch(/^expected/);
  });
});
