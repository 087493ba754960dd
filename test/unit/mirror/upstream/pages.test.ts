import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import {
  checkCompleteness,
  nextPageUrl,
  type Reading,
  sameRows,
} from '../../../../src/mirror/upstream/pages.ts';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';

const CURRENT = new URL('https://service.example/app/api/v1/workbooks');

function next(reference: string, current = CURRENT): string {
  return nextPageUrl(reference, current).href;
}

describe('the address of the next page', () => {
  it('keeps the slash that a service puts behind the path of its list', () => {
    const current = new URL('https://service.example/app/api/v1/workbooks');
    const next = nextPageUrl('/app/api/v1/workbooks/?page=2', current);
    expect(next.href).toBe('https://service.example/app/api/v1/workbooks/?page=2');
    expect(nextPageUrl('?page=3', next).href).toBe('https://service.example/app/api/v1/workbooks/?page=3');
  });

  const page2 = `${CURRENT.href}?page=2`;

  it.each([
    ['an absolute address', page2],
    ['a path', '/app/api/v1/workbooks?page=2'],
    ['a path without the prefix of the base address', '/api/v1/workbooks?page=2'],
    ['a path without /api', '/v1/workbooks?page=2'],
    ['a relative path', 'workbooks?page=2'],
    ['a bare query', '?page=2'],
    ['the inner host behind a proxy', 'http://10.0.0.7:8080/api/v1/workbooks?page=2'],
    ['the same host without TLS', 'http://service.example/app/api/v1/workbooks?page=2'],
    ['the same host on another port', 'https://service.example:8443/app/api/v1/workbooks?page=2'],
    ['an address without a scheme', '//inner/api/v1/workbooks?page=2'],
    ['a fragment', '?page=2#top'],
    ['a foreign path on a foreign host', 'https://evil.example/collect?page=2'],
    ['credentials on a foreign host', 'https://user:pass@evil.example/collect?page=2'],
    ['another scheme', 'javascript:alert(1)?page=2'],
  ])('from %s', (_what, reference) => {
    expect(next(reference)).toBe(page2);
  });

  it('may be another path of the same origin', () => {
    expect(next('/app/api/v1/workbooks/page/2')).toBe(`${CURRENT.href}/page/2`);
  });

  it('keeps the status filter, unless it has one itself', () => {
    const filtered = new URL(`${CURRENT.href}?status=failure&page=1`);
    expect(next('?page=2', filtered)).toBe(`${CURRENT.href}?page=2&status=failure`);
    expect(next('?page=2&status=failure', filtered)).toBe(`${CURRENT.href}?page=2&status=failure`);
    expect(next('/app/api/v1/workbooks/page/2', filtered)).toBe(`${CURRENT.href}/page/2?status=failure`);
    expect(new URL(next('?page=2')).searchParams.has('status')).toBe(false);
  });

  it('does not change the address that it comes from', () => {
    const current = new URL(`${CURRENT.href}?status=failure`);
    nextPageUrl('?page=2', current);
    expect(current.href).toBe(`${CURRENT.href}?status=failure`);
  });

  it.each([
    CURRENT.href,
    '/app/api/v1/workbooks',
    'https://inner/page/2',
    'workbooks',
    '#2',
    '?',
    'http://[',
    'https://',
    'https://evil.example/collect',
  ])('is none that can be followed: %j', (reference) => {
    let refused: unknown = null;
    try {
      nextPageUrl(reference, CURRENT);
    } catch (error) {
      refused = error;
    }
    expect(refused).toBeInstanceOf(MirrorError);
    expect(refused).toMatchObject({ code: 'listing.malformed' });
  });

  it('never leads to another origin', () => {
    const piece = fc.constantFrom(
      'http:',
      'https:',
      '//',
      '/',
      '\\',
      '@',
      'evil',
      'service.example',
      ':8443',
      '?',
      'a=b',
      '#',
      '..',
      '\t',
    );
    const reference = fc.oneof(
      fc.webUrl({ withQueryParameters: true }),
      fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join('')),
      fc.string(),
    );
    fc.assert(
      fc.property(reference, (text) => {
        try {
          expect(nextPageUrl(text, CURRENT).origin).toBe(CURRENT.origin);
        } catch (error) {
          expect(error).toBeInstanceOf(MirrorError);
        }
      }),
      { numRuns: 1000 },
    );
  });

  it('never leads to the other generation of the API, whose credential is another', () => {
    expect(next('/app/api/repos?page=2')).toContain('/v1/');
  });

  it('carries no user name of the reference', () => {
    expect(next('https://user:pass@service.example/app/api/v1/workbooks/page/2')).not.toContain('user');
  });
});

function reading({
  keys,
  ...fields
}: Partial<Reading<string>> & { readonly keys: readonly string[] }): Reading<string> {
  const repeats = new Set(keys).size !== keys.length;
  return { rows: keys, counts: [keys.length], malformed: 0, repeats, isCut: false, ...fields };
}

describe('a reading of all pages', () => {
  it.each<[string, Reading<string>, string]>([
    ['nothing, and says so', reading({ keys: [] }), 'complete'],
    ['as many rows as every page says', reading({ keys: ['a', 'b'], counts: [2, 2] }), 'complete'],
    [
      'as many rows as it says, malformed ones among them',
      reading({ keys: ['a'], counts: [2], malformed: 1 }),
      'complete',
    ],
    ['no page', reading({ keys: [], counts: [] }), 'there was no page'],
    [
      'counts that differ',
      reading({ keys: ['a', 'b'], counts: [2, 3] }),
      'the count changed from page to page',
    ],
    ['too few rows', reading({ keys: ['a'], counts: [2] }), 'the count says 2, the pages hold 1 rows'],
    ['too many rows', reading({ keys: ['a', 'b'], counts: [1] }), 'the count says 1, the pages hold 2 rows'],
    ['a row twice', reading({ keys: ['a', 'a'] }), 'a row occurs twice'],
  ])('with %s', (_what, of, expected) => {
    const judgement = checkCompleteness(of);
    expect(judgement.kind === 'doubtful' ? judgement.why : judgement.kind).toBe(expected);
  });

  it('is complete only if no row was lost or doubled', () => {
    const keys = fc.uniqueArray(fc.string(), { minLength: 1 });
    fc.assert(
      fc.property(keys, fc.nat(), (all, pick) => {
        const at = pick % all.length;
        expect(checkCompleteness(reading({ keys: all })).kind).toBe('complete');
        const lost = all.filter((_key, index) => index !== at);
        expect(checkCompleteness(reading({ keys: lost, counts: [all.length] })).kind).toBe('doubtful');
        const shifted = all.map((key, index) => (index === at ? (all[at - 1] ?? all.at(-1) ?? '') : key));
        fc.pre(all.length > 1);
        expect(checkCompleteness(reading({ keys: shifted })).kind).toBe('doubtful');
      }),
    );
  });
});

describe('two readings', () => {
  it.each<[string, Reading<string>, Reading<string>, boolean]>([
    ['the same rows', reading({ keys: ['a', 'b'] }), reading({ keys: ['a', 'b'] }), true],
    ['the same rows in another order', reading({ keys: ['b', 'a'] }), reading({ keys: ['a', 'b'] }), true],
    [
      'the same rows under other counts',
      reading({ keys: ['a'], counts: [5] }),
      reading({ keys: ['a'] }),
      true,
    ],
    ['other rows', reading({ keys: ['a', 'b'] }), reading({ keys: ['a', 'c'] }), false],
    ['fewer rows', reading({ keys: ['a'] }), reading({ keys: ['a', 'b'] }), false],
    ['rows in other numbers', reading({ keys: ['a', 'a', 'b'] }), reading({ keys: ['a', 'b', 'b'] }), false],
    ['more malformed rows', reading({ keys: ['a'] }), reading({ keys: ['a'], malformed: 1 }), false],
  ])('of %s', (_what, one, other, same) => {
    expect(sameRows(one, other, String)).toBe(same);
    expect(sameRows(other, one, String)).toBe(same);
  });
});
