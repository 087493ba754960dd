import { describe, expect, it } from 'vitest';

import { likely, nearest } from '../../../../src/lib/text/nearest.ts';

describe('the nearest name', () => {
  it.each([
    ['servce', ['service', 'schedule'], 'service'],
    ['apiKey', ['directory', 'service.apiKey'], 'service.apiKey'],
    ['apiKey', ['service.apiKey', 'apikey'], 'apikey'],
    ['apiTokne', ['http.token', 'service.apiToken'], 'service.apiToken'],
    ['x.apiKey', ['service.apiKey', 'http.listen'], 'service.apiKey'],
    ['a.bc', ['zzzz.abc', 'a.xx'], 'a.xx'],
    ['LEVEL', ['service', 'log.level', 'state'], 'log.level'],
  ])('to %j of %j is %j', (name, candidates, found) => {
    expect(nearest(name, candidates)).toBe(found);
  });

  it('does not exist without names, and is found for a very long name too', () => {
    expect(nearest('x', [])).toBeUndefined();
    expect(nearest('x'.repeat(100_000), ['y', 'x'])).toBe('x');
  });
});

describe('a suggested name', () => {
  it.each([
    ['accounting/mian', 'Accounting/main'],
    ['Accounting', 'Accounting/main'],
    ['mai', 'Accounting/main'],
    ['mirror/Accounting/main/plan.xlsx', 'Accounting/main'],
    ['nothing/like/that', undefined],
    ['x', undefined],
  ])('is suggested only within a sensible distance: %j', (name, expected) => {
    expect(likely(name, ['Accounting/main', 'github.com/org/planning.git/release'])).toBe(expected);
  });

  it('is the nearest of all', () => {
    expect(likely('Plan/mian', ['Plan/mail', 'Plan/mean', 'Plan/main'])).toBe('Plan/mean');
    expect(likely('Plan/man', ['Plane/mans', 'Plan/main', 'Plans/mean'])).toBe('Plan/main');
  });
});
