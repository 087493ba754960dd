import { expect, it } from 'vitest';

import { isLinkLocal } from '../../../../src/server/git/dialing.ts';

it.each([
  ['169.254.169.254', true],
  ['169.253.255.255', false],
  ['10.0.0.1', false],
  ['127.0.0.1', false],
  ['fe80::1', true],
  ['fe80::1%eth0', true],
  ['fec0::1', false],
  ['2001:db8::1', false],
  ['::1', false],
  ['::ffff:169.254.169.254', true],
  ['::ffff:10.0.0.1', false],
  ['::169.254.169.254', true],
  ['64:ff9b::a9fe:a9fe', true],
  ['64:ff9b::a00:1', false],
  ['2002:a9fe:a9fe::1', true],
  ['not an address', true],
])('%s is link-local, or no address, and therefore refused: %s', (address, isRefused) => {
  expect(isLinkLocal(address)).toBe(isRefused);
});
