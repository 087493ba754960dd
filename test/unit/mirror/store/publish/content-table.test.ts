import * as fc from 'fast-check';
import { expect, it } from 'vitest';

import { ContentTable } from '../../../../../src/mirror/store/publish/content-table.ts';

const contents = fc.record({
  sizeBytes: fc.integer({ min: 0, max: 2 ** 40 }),
  crc32: fc.constantFrom(0, 1, 1024, 2 ** 31, 2 ** 32 - 1),
  tree: fc.integer({ min: 0, max: 20 }),
});

it('proposes every content that was added, in a tree that has it, and no more than a few trees', () => {
  fc.assert(
    fc.property(fc.array(contents, { maxLength: 200 }), (added) => {
      const table = new ContentTable();
      for (const { sizeBytes, crc32, tree } of added) table.add(sizeBytes, crc32, tree);
      for (const { sizeBytes, crc32 } of added) {
        const found = table.find(sizeBytes, crc32);
        const alike = added.filter(
          (each) => each.crc32 === crc32 && each.sizeBytes % 2 ** 20 === sizeBytes % 2 ** 20,
        );
        const trees = [...new Set(alike.map(({ tree }) => tree))];
        expect(found).toStrictEqual(trees.slice(0, 4));
      }
    }),
  );
});

it('grows, and finds all that it held before', () => {
  const table = new ContentTable();
  for (let index = 0; index < 20_000; index += 1) table.add(index, (index * 2_654_435_761) % 2 ** 32, index);
  expect(table.size).toBe(20_000);
  for (let index = 0; index < 20_000; index += 997)
    expect(table.find(index, (index * 2_654_435_761) % 2 ** 32)).toStrictEqual([index]);
});

it('finds nothing where nothing was added', () => {
  expect(new ContentTable().find(0, 0)).toStrictEqual([]);
});
