import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { learnSteps, stepAhead } from '../../../../src/mirror/upstream/read-ahead.ts';

const LIST = 'https://service.example/api/v1/workbooks';

function foreseen(one: string, other: string): string | null {
  const steps = learnSteps(new URL(one, LIST), new URL(other, LIST));
  return steps === null ? null : stepAhead(steps, 1).href;
}

describe('the addresses of further pages', () => {
  it.each([
    ['?page=2', '?page=3', '?page=4'],
    ['?page=0', '?page=1', '?page=2'],
    ['?offset=500&limit=500', '?offset=1000&limit=500', '?offset=1500&limit=500'],
    ['?limit=500&offset=0', '?limit=500&offset=500', '?limit=500&offset=1000'],
    ['?status=failure&page=9', '?status=failure&page=10', '?status=failure&page=11'],
    ['?a=%20b+c&page=2', '?a=%20b+c&page=3', '?a=%20b+c&page=4'],
  ])('after %s and %s are foreseen', (one, other, expected) => {
    expect(foreseen(one, other)).toBe(LIST + expected);
  });

  it.each([
    ['an opaque cursor', '?cursor=a1', '?cursor=b2'],
    ['a cursor that is a number with letters', '?cursor=1a', '?cursor=2a'],
    ['a number that stays', '?page=2', '?page=2'],
    ['a number that falls', '?page=3', '?page=2'],
    ['two numbers that grow', '?page=1&offset=0', '?page=2&offset=500'],
    ['another name', '?page=1', '?seite=2'],
    ['another path', '/api/v1/workbooks/page/1?x=1', '/api/v1/workbooks/page/2?x=2'],
    ['one parameter more', '?page=1', '?page=2&last=true'],
    ['leading zeros', '?page=01', '?page=02'],
    ['a number that is too great', '?id=9007199254740993', '?id=9007199254740995'],
    ['no query', '', ''],
    ['a value without a name', '?1', '?2'],
  ])('are not guessed from %s', (_what, one, other) => {
    expect(foreseen(one, other)).toBeNull();
  });

  it('go on as any two of them do', () => {
    const numbers = fc.tuple(fc.nat(1_000_000), fc.integer({ min: 1, max: 10_000 }), fc.nat(20));
    fc.assert(
      fc.property(numbers, fc.webQueryParameters(), ([first, step, pages], other) => {
        const at = (index: number): URL => new URL(`${LIST}?offset=${first + index * step}&${other}`);
        const steps = learnSteps(at(0), at(1));
        expect(steps === null ? null : stepAhead(steps, pages).href).toBe(at(1 + pages).href);
      }),
    );
  });
});
