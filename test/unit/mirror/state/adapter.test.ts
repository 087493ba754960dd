import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { PAGE_ENTRIES, pagesOf } from '../../../../src/mirror/state/adapter.ts';

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
