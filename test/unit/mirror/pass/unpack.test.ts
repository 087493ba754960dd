import { expect, it } from 'vitest';

import { goesPastCache } from '../../../../src/mirror/pass/unpack.ts';

it.each([
  ['auto', true, true],
  ['auto', false, false],
  ['keep', true, false],
  ['bypass', false, true],
] as const)('with pageCache %s, first mirror %s: %s', (policy, isFirst, expected) => {
  expect(goesPastCache(policy, isFirst)).toBe(expected);
});
