import { expect, it } from 'vitest';

import { goesPastCache } from '../../../../src/mirror/pass/unpack.ts';

const MIB = 1024 * 1024;

it.each([
  ['auto', 256 * MIB - 1, false],
  ['auto', 256 * MIB, true],
  ['keep', 2 ** 40, false],
  ['bypass', 0, true],
] as const)('with pageCache %s a pull of %i bytes: %s', (policy, newBytes, expected) => {
  expect(goesPastCache(policy, newBytes)).toBe(expected);
});
