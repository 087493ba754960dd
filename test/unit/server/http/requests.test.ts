import { describe, expect, it } from 'vitest';

import { chooseRange } from '../../../../src/server/http/contents.ts';
import type { Repository } from '../../../../src/server/http/library.ts';
import { findRepository } from '../../../../src/server/http/repository-reference.ts';

const CREATED = { url: null, created_at: '2026-01-02T03:04:05.000000+00:00' };

function repository(id: string, name: string, fullName = name): Repository {
  return { id, name, full_name: fullName, ...CREATED };
}

describe('repository references', () => {
  const forecast = repository('1', 'forecast', 'a.example/x/forecast.git');
  const other = repository('2', 'forecast', 'b.example/y/forecast.git');
  const plan = repository('3', 'plan', 'c.example/x/plan.git');
  const all = [forecast, other, plan];

  it('takes an id, a full name, and a short name that is unique', () => {
    expect(findRepository(all, '2')).toBe(other);
    expect(findRepository(all, 'a.example/x/forecast.git')).toBe(forecast);
    expect(findRepository(all, 'plan')).toBe(plan);
    expect(findRepository(all, 'Plan')).toBeUndefined();
  });

  it('refuses an ambiguous short name, unless it is a full name', () => {
    expect(() => findRepository(all, 'forecast')).toThrow(expect.objectContaining({ status: 409 }));
    const dropped = repository('5', 'forecast');
    expect(findRepository([...all, dropped], 'forecast')).toBe(dropped);
  });
});

describe('ranges', () => {
  it.each([
    ['bytes=0-4', { first: 0, last: 4 }],
    ['BYTES=5-', { first: 5, last: 99 }],
    ['bytes=5-5', { first: 5, last: 5 }],
    ['bytes=90-100', { first: 90, last: 99 }],
    ['bytes=-10', { first: 90, last: 99 }],
  ])('%s is a part', (range, part) => {
    expect(chooseRange(range, undefined, '"a"', 100)).toEqual(part);
  });

  it.each(['bytes=100-', 'bytes=-0'])('%s of 100 bytes is no part of them', (range) => {
    expect(chooseRange(range, undefined, '"a"', 100)).toBe('unsatisfiable');
  });

  // A range has no spaces (RFC 9110, section 14.1.1): thousands of them could be parsed in as many ways.
  it.each(['bytes= 0-4', 'bytes =0-4', 'bytes=0 -4', 'bytes=0- 4', `bytes=${' '.repeat(9)}-4`])(
    '%s is not a range, and gets everything',
    (range) => {
      expect(chooseRange(range, undefined, '"a"', 100)).toBe('whole');
    },
  );
});
