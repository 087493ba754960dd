import { describe, expect, it } from 'vitest';

import { acceptsGzip, matchesTag } from '../../../../src/lib/http/reply.ts';

describe('packing', () => {
  it.each(['gzip', 'GZIP', 'br, gzip;q=0.5', 'deflate, x-gzip', '*', 'identity;q=0, *;q=0.1'])(
    'is wanted by %s',
    (header) => {
      expect(acceptsGzip(header)).toBe(true);
    },
  );

  it.each([
    undefined,
    '',
    'br',
    'identity',
    'gzip;q=0',
    'gzip; q=0.000',
    '*, gzip;q=0',
    'gzipped',
    'gzip;q=x',
  ])('is not wanted by %s', (header) => {
    expect(acceptsGzip(header)).toBe(false);
  });

  it('is looked for among as many codings as there are, and no more', () => {
    expect(acceptsGzip(`${'a,'.repeat(19)}gzip`)).toBe(true);
    expect(acceptsGzip(`${'a,'.repeat(7000)}gzip`)).toBe(false);
    expect(acceptsGzip(`gzip${';'.repeat(7000)}q=0`)).toBe(true);
  });
});

describe('an entity tag', () => {
  it('matches as If-None-Match says', () => {
    const tag = '"a"';
    expect(matchesTag(undefined, tag)).toBe(false);
    expect(matchesTag('"x"', tag)).toBe(false);
    expect(matchesTag(`"x", W/${tag}`, tag)).toBe(true);
    expect(matchesTag('*', tag)).toBe(true);
    expect(matchesTag('"x", "a"', `W/${tag}`)).toBe(true);
  });
});
