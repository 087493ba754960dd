import { describe, expect, it } from 'vitest';

import { acceptsGzip, matchesTag } from '../../../../src/lib/http/reply.ts';

describe('packing', () => {
  it.each(['gzip', 'GZIP', 'br, gzip;q=0.5', 'gzip ; q=1, br'])('is accepted by %s', (header) => {
    expect(acceptsGzip(header)).toBe(true);
  });

  it.each([undefined, '', 'identity', 'gzip;q=0', 'gzip; q=0.000', '*, gzip;q=0', 'gzipped', 'gzip;q=x'])(
    'is not accepted by %s',
    (header) => expect(acceptsGzip(header)).toBe(false),
  );
});

it('an entity tag matches as If-None-Match says', () => {
  const tag = '"a"';
  expect(matchesTag(undefined, tag)).toBe(false);
  expect(matchesTag('"x"', tag)).toBe(false);
  expect(matchesTag(`"x", W/${tag}`, tag)).toBe(true);
  expect(matchesTag('*', tag)).toBe(true);
  expect(matchesTag('"x", "a"', `W/${tag}`)).toBe(true);
});
