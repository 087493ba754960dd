import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { keyOf, PAGE_ENTRIES, pagesOf, storedKey } from '../../../../src/mirror/state/adapter.ts';

const units = fc
  .array(fc.oneof(fc.constantFrom(0, 0x22, 0x5c, 0xd8_00, 0xdf_ff), fc.integer({ min: 0, max: 0xff_ff })))
  .map((all) => String.fromCharCode(...all));

describe('what stands for a key', () => {
  it('is a text that every database can hold, and gives the key back', () => {
    fc.assert(
      fc.property(units, (key) => {
        const stored = storedKey(key);
        expect(stored.isWellFormed() && !stored.includes('\0')).toBe(true);
        expect(keyOf(stored)).toBe(key);
      }),
    );
  });

  it('is the key itself where nothing speaks against it, as earlier versions kept it', () => {
    for (const key of ['last-pass', 'é 😀\n', 'a"b', 'f'.repeat(64)]) expect(storedKey(key)).toBe(key);
  });

  it.each(['"', '"half', '"a"b'])('is not %s', (stored) => {
    expect(keyOf(stored)).toBeNull();
  });
});

describe('pages', () => {
  it('have everything, in order, and none is empty or too large', () => {
    const lengths = fc.array(fc.oneof(fc.nat(10), fc.nat(10 * 1024 * 1024)), { maxLength: 50 });
    fc.assert(
      fc.property(lengths, fc.constantFrom(1, PAGE_ENTRIES), (some, times) => {
        const all = Array.from({ length: times }, () => some).flat();
        const pages = [...pagesOf(all, (length) => length)];
        expect(pages.flat()).toEqual(all);
        for (const page of pages) {
          const length = page.reduce((sum, each) => sum + each, 0);
          expect(page.length).toBeGreaterThan(0);
          expect(page.length).toBeLessThanOrEqual(PAGE_ENTRIES);
          expect(page.length === 1 || length <= 4 * 1024 * 1024).toBe(true);
        }
      }),
      { numRuns: 30 },
    );
  });
});
