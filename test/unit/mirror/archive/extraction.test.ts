import * as fc from 'fast-check';
import { expect, it } from 'vitest';

import { batchesOf } from '../../../../src/mirror/archive/extraction.ts';

const MIB = 2 ** 20;

it('cuts items into full batches, in order and without a gap', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 6 * MIB }), { maxLength: 300 }), (sizes) => {
      const batches = [...batchesOf(sizes, (size) => size)];
      expect(batches.flatMap(({ items }) => items)).toStrictEqual(sizes);
      for (const { start, items } of batches) {
        expect(sizes.slice(start, start + items.length)).toStrictEqual(items);
        const bytes = items.reduce((sum, size) => sum + size, 0);
        expect(items.length === 1 || bytes <= 4 * MIB).toBe(true);
        expect(items.length).toBeLessThanOrEqual(64);
      }
    }),
  );
});
