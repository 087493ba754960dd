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
  ['64:ff9b:1::a9fe:a9fe', true],
  ['64:ff9b:1:7::169.254.169.254', true],
  ['64:ff9b:1:a:b:c:a9fe:0', true],
  ['64:ff9b:1:7:a9fe::1', false],
  ['64:ff9b:2::a9fe:a9fe', false],
  ['2002:a9fe:a9fe::1', true],
  ['not an address', true],
])('%s is link-local, or no address, and therefore refused: %s', (address, isRefused) => {
  expect(isLinkLocal(address)).toBe(isRefused);
});
