import { describe, expect, it } from 'vitest';

import { hasToken, isForeignFetch, isLoopback, isOwnHost } from '../../../../src/lib/http/access.ts';

function basic(pair: string): string {
  return `Basic ${Buffer.from(pair).toString('base64')}`;
}

describe('the token', () => {
  it.each([
    ['Bearer s3cret:ä'],
    ['bearer   s3cret:ä'],
    [basic(':s3cret:ä')],
    [basic('anyone:s3cret:ä')],
    [basic('anyone:s3cret:ä').replace('Basic', 'BASIC')],
  ])('is accepted as %s', (authorization) => {
    expect(hasToken(authorization, 's3cret:ä')).toBe(true);
  });

  it.each([
    [undefined],
    [''],
    ['s3cret'],
    ['Bearer '],
    ['Bearer S3cret'],
    ['Bearer s3cret s3cret'],
    ['Digest s3cret'],
    [basic('s3cret:')],
    [basic('anyone:s3cret ')],
    ['Basic s3cret'],
    ['Basic ====='],
  ])('is not %s', (authorization) => {
    expect(hasToken(authorization, 's3cret')).toBe(false);
  });

  it('that is empty admits no request', () => {
    expect(hasToken(basic('anyone:'), '')).toBe(false);
    expect(hasToken('Bearer ', '')).toBe(false);
    expect(hasToken(undefined, '')).toBe(false);
  });
});

describe('a loopback address', () => {
  it.each(['127.0.0.1', '127.1.2.3', '::1', '::ffff:127.0.0.1', '::FFFF:127.0.0.1'])('is %s', (address) => {
    expect(isLoopback(address)).toBe(true);
  });

  it.each(['0.0.0.0', '::', '10.0.0.1', '::ffff:10.0.0.1', '127.example.com', ''])('is not %s', (address) => {
    expect(isLoopback(address)).toBe(false);
  });
});

const OWN_NAMES = ['mirror-host', 'Mirror.default.svc', '*.mirrors.example.com', 'my_mirror'];

describe('a host of our own', () => {
  it.each([
    undefined,
    'localhost',
    'LocalHost:9480',
    'localhost.:9480',
    'mirror.localhost:9480',
    '127.0.0.1:9480',
    '[::1]:9480',
    '192.0.2.7:80',
    'Mirror-Host:9480',
    'mirror.default.SVC.',
    'a.mirrors.example.com',
    'a.b.Mirrors.Example.com:9480',
    'my_mirror:9480',
  ])('is %s', (host) => {
    expect(isOwnHost(host, OWN_NAMES)).toBe(true);
  });

  it.each([
    '',
    'evil.example.com:9480',
    'notlocalhost',
    'localhost.evil.example.com',
    '127.0.0.1.evil.example.com',
    'evil.example.com@127.0.0.1',
    'evil.example.com#localhost',
    'localhost, evil.example.com',
    'mirror-host.evil.example.com',
    'mirrors.example.com',
    'evilmirrors.example.com',
    'a.mirrors.example.com.evil.example.com',
    '*.mirrors.example.com',
    '[::1',
    'localhost:99999999',
  ])('is not %s', (host) => {
    expect(isOwnHost(host, OWN_NAMES)).toBe(false);
  });
});

describe('a page of another site that asks in the background', () => {
  it.each(['cross-site', 'same-site'])('is recognised by %s', (site) => {
    expect(isForeignFetch({ 'sec-fetch-site': site, 'sec-fetch-mode': 'no-cors' })).toBe(true);
  });

  it('is not a followed link, an own page, or a program', () => {
    expect(isForeignFetch({ 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' })).toBe(false);
    expect(isForeignFetch({ 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' })).toBe(false);
    expect(isForeignFetch({ 'sec-fetch-site': 'none' })).toBe(false);
    expect(isForeignFetch({})).toBe(false);
  });
});
