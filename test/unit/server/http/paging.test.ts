import { describe, expect, it } from 'vitest';

import { cutPage, readQuery } from '../../../../src/server/http/workbooks.ts';

const ADDRESS = new URL('http://host:81/api/v1/workbooks?status=failure&page_size=2');

describe('pages of a list', () => {
  it('has the default size and the first page without parameters', () => {
    expect(readQuery(new URLSearchParams(), 100)).toEqual({ page: 1, page_size: 100, q: '' });
    const given = readQuery(new URLSearchParams('page=3&page_size=1000&page=4'), 100);
    expect(given).toMatchObject({ page: 3, page_size: 1000 });
  });

  it.each(['0', '-1', '1.5', '', 'x', '9999999999'])('refuses the page and the size %j', (number) => {
    for (const name of ['page', 'page_size'])
      expect(() => readQuery(new URLSearchParams({ [name]: number }), 100)).toThrow(/whole number/);
  });

  it('refuses a size of more than 1000', () => {
    expect(() => readQuery(new URLSearchParams('page_size=1001'), 100)).toThrow(/whole number/);
  });

  it('is empty after the last page and leads back to it', () => {
    expect(cutPage([1, 2, 3, 4, 5], { page: 9, page_size: 2 }, ADDRESS)).toMatchObject({
      next: null,
      previous: 'http://host:81/api/v1/workbooks?status=failure&page_size=2&page=3',
      results: [],
    });
    const nothing = { count: 0, next: null, previous: null };
    expect(cutPage([], { page: 1, page_size: 2 }, ADDRESS)).toMatchObject(nothing);
  });
});
