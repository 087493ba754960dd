import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { formatShard, ownerOf, owns, parseShard } from '../../../../src/mirror/plan/shard.ts';

const NOWHERE = { hostName: 'mirror', completionIndex: undefined };
const ids = fc.uniqueArray(fc.oneof(fc.string(), fc.uuid()), { maxLength: 300 });
const counts = fc.integer({ min: 1, max: 60 });

describe('ownerOf', () => {
  it('gives every repository exactly one owner among the shards of a count', () => {
    fc.assert(
      fc.property(ids, counts, (repositories, count) => {
        for (const id of repositories) {
          const shards = Array.from({ length: count }, (_, at) => ({ index: at + 1, count }));
          const owners = shards.filter((shard) => owns(shard, id));
          expect(owners.map(({ index }) => index)).toEqual([ownerOf(id, count)]);
        }
      }),
    );
  });

  it('moves nothing but to the new instance when there is one more, and only its share when there is one less', () => {
    fc.assert(
      fc.property(ids, counts, (repositories, count) => {
        for (const id of repositories) {
          const [before, after] = [ownerOf(id, count), ownerOf(id, count + 1)];
          expect([before, count + 1]).toContain(after);
        }
      }),
    );
  });

  it.each([2, 3, 5, 8, 50])('gives %i instances about as much each, and moves about the least', (count) => {
    const repositories = Array.from({ length: 20_000 }, (_, at) => `repository-${at}`);
    const shares = Map.groupBy(repositories, (id) => ownerOf(id, count));
    const fair = repositories.length / count;
    // Six deviations of a fair choice: of a sound hash, one of billions would be outside.
    const margin = 6 * Math.sqrt(fair);
    for (let index = 1; index <= count; index += 1)
      expect(Math.abs((shares.get(index)?.length ?? 0) - fair)).toBeLessThan(margin);
    const moved = repositories.filter((id) => ownerOf(id, count) !== ownerOf(id, count + 1));
    expect(Math.abs(moved.length - repositories.length / (count + 1))).toBeLessThan(margin);
  });

  it('stays what it is: another version must not move what is mirrored', () => {
    const repositories = ['1', 'accounting', '6f1c9a52-6d0e-4d7e-9f2c-1b1f3f0f7a10', 'Bücher', ''];
    expect(repositories.map((id) => [2, 3, 5, 17].map((count) => ownerOf(id, count)))).toMatchInlineSnapshot(`
      [
        [
          2,
          2,
          2,
          6,
        ],
        [
          1,
          1,
          1,
          1,
        ],
        [
          1,
          1,
          1,
          8,
        ],
        [
          1,
          3,
          3,
          12,
        ],
        [
          2,
          2,
          5,
          15,
        ],
      ]
    `);
  });
});

describe('parseShard', () => {
  it('reads an index and a count, and writes them alike', () => {
    for (const text of ['1/1', '2/5', '5/5', '1024/1024'])
      expect(formatShard(parseShard(text, NOWHERE))).toBe(text);
  });

  it.each([
    ['mirror-0', undefined, 1],
    ['mirror-4', undefined, 5],
    ['a-3-b-2', undefined, 3],
    ['mirror', '3', 4],
    ['mirror-1', '3', 4],
    ['mirror-1', '', 2],
  ])(
    'takes the index from the host name %s and the completion index %s',
    (hostName, completionIndex, index) => {
      expect(parseShard('auto/5', { hostName, completionIndex })).toEqual({ index, count: 5 });
    },
  );

  it.each([
    ['0/5', NOWHERE, 'expected an index from 1 to 5'],
    ['6/5', NOWHERE, 'expected an index from 1 to 5'],
    ['1/0', NOWHERE, 'a count from 1 to 1024'],
    ['1/1025', NOWHERE, 'a count from 1 to 1024'],
    ['', NOWHERE, 'expected INDEX/COUNT'],
    ['2', NOWHERE, 'expected INDEX/COUNT'],
    ['-1/5', NOWHERE, 'expected INDEX/COUNT'],
    ['2/5/7', NOWHERE, 'expected INDEX/COUNT'],
    ['1.5/5', NOWHERE, 'expected INDEX/COUNT'],
    ['Auto/5', NOWHERE, 'expected INDEX/COUNT'],
    ['auto/5', NOWHERE, 'the host name "mirror" has none'],
    [
      'auto/5',
      { hostName: 'mirror-5', completionIndex: undefined },
      'says that this is number 6, and the count is 5',
    ],
    [
      'auto/5',
      { hostName: 'mirror-1', completionIndex: 'x' },
      'a number in the variable JOB_COMPLETION_INDEX',
    ],
    ['auto/5', { hostName: 'mirror', completionIndex: '5' }, 'says that this is number 6'],
  ])('refuses %s of %o', (text, surroundings, message) => {
    expect(() => parseShard(text, surroundings)).toThrow(message);
  });
});
