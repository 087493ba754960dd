import { BlockList } from 'node:net';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { parseNetwork, parseNetworkRules, refusalOf } from '../../../../src/lib/net/networks.ts';

const rulesOf = (refuse: readonly string[], allow: readonly string[] = []) =>
  parseNetworkRules({ allow, refuse });

/** Addresses as the numbers that they are written with. */
const ipv4Parts = fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 4, maxLength: 4 });
const ipv6Parts = fc
  .array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 65_535 })), { minLength: 8, maxLength: 8 })
  // These may carry an IPv4 address, of which the rules of Node know less.
  .filter(([first = 0]) => ![0, 0x64, 0x2002].includes(first));

function written(parts: readonly number[]): string {
  return parts.length === 4 ? parts.join('.') : parts.map((part) => part.toString(16)).join(':');
}

/** The part of an address that a network of a length keeps. */
function networkOf(parts: readonly number[], length: number): string {
  const width = parts.length === 4 ? 8 : 16;
  const kept = parts.map((part, index) => {
    const gone = 2 ** (width - Math.max(0, Math.min(width, length - index * width)));
    return Math.floor(part / gone) * gone;
  });
  return written(kept);
}

describe('an address is refused', () => {
  it.each([
    ['link-local', '169.254.169.254'],
    ['link-local', '::ffff:169.254.169.254'],
    ['link-local', '::ffff:a9fe:a9fe'],
    ['link-local', '64:ff9b::169.254.169.254'],
    ['link-local', '64:ff9b:1::a9fe:a9fe'],
    ['link-local', '2002:a9fe:a9fe::1'],
    ['link-local', '::169.254.169.254'],
    ['link-local', '::ffff:0:169.254.169.254'],
    ['link-local', 'fe80::1'],
    ['link-local', 'fe80::1%eth0'],
    ['loopback', '127.0.0.1'],
    ['loopback', '127.255.255.255'],
    ['loopback', '0.0.0.0'],
    ['loopback', '::'],
    ['loopback', '::1'],
    ['loopback', '0:0:0:0:0:0:0:1'],
    ['loopback', '::ffff:127.0.0.1'],
    ['loopback', '64:ff9b::7f00:1'],
    ['private', '10.0.0.0'],
    ['private', '10.255.255.255'],
    ['private', '172.16.0.1'],
    ['private', '172.31.255.255'],
    ['private', '192.168.1.1'],
    ['private', '100.64.0.1'],
    ['private', '100.127.255.255'],
    ['private', 'fc00::1'],
    ['private', 'fd00:ec2::254'],
    ['private', '::ffff:10.0.0.1'],
    ['10.0.0.0/8', '::ffff:10.0.0.1'],
    ['::ffff:10.0.0.0/104', '10.0.0.1'],
    ['0.0.0.0/0', '192.0.2.1'],
    ['::/0', '2001:db8::1'],
    ['::/0', '64:ff9b::192.0.2.1'],
    ['0.0.0.0/0', '64:ff9b::192.0.2.1'],
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8::1', '2001:DB8:0::1'],
  ])('by %s: %s', (network, address) => {
    expect(refusalOf(rulesOf([network]), address)).toBe(network);
  });

  it.each(['', 'localhost', '2130706433', '0x7f.1', '127.1', '0177.0.0.1', '10.0.0.1/8', '[::1]', '::g'])(
    'where it is none, as %j',
    (text) => {
      expect(refusalOf(rulesOf([]), text)).not.toBeNull();
    },
  );
});

describe('an address is let through', () => {
  it.each([
    ['link-local', '169.253.255.255'],
    ['link-local', '169.255.0.0'],
    ['link-local', '10.0.0.1'],
    ['link-local', 'fec0::1'],
    ['link-local', '64:ff9b::192.0.2.1'],
    ['loopback', '128.0.0.1'],
    ['private', '172.15.255.255'],
    ['private', '172.32.0.0'],
    ['private', '100.128.0.0'],
    ['private', '127.0.0.1'],
    ['private', '2001:db8::1'],
    ['::/0', '192.0.2.1'],
    ['::/0', '::ffff:192.0.2.1'],
    ['0.0.0.0/0', '2001:db8::1'],
  ])('by %s: %s', (network, address) => {
    expect(refusalOf(rulesOf([network]), address)).toBeNull();
  });

  it('where a network of it is allowed, and no other', () => {
    const rules = rulesOf(['0.0.0.0/0', '::/0'], ['10.1.2.0/24', '::1', '64:ff9b::/96']);
    for (const address of ['10.1.2.3', '::ffff:10.1.2.3', '::1', '64:ff9b::10.1.2.3'])
      expect(refusalOf(rules, address), address).toBeNull();
    for (const address of ['10.1.3.3', '127.0.0.1', '::', '64:ff9b::10.1.3.3', '2002:a01:203::', '::2'])
      expect(refusalOf(rules, address), address).not.toBeNull();
  });
});

describe('the rules', () => {
  it.each([
    ['ipv4', ipv4Parts, 32],
    ['ipv6', ipv6Parts, 128],
  ] as const)('agree with those of Node on %s', (family, address, bits) => {
    fc.assert(
      fc.property(address, address, fc.nat(bits), fc.boolean(), (one, other, length, isSame) => {
        const base = networkOf(one, length);
        const list = new BlockList();
        list.addSubnet(base, length, family);
        const asked = written(isSame ? one : other);
        expect(refusalOf(rulesOf([`${base}/${length}`]), asked) !== null).toBe(list.check(asked, family));
      }),
    );
  });

  it('take an IPv4 address for the same in the place of an IPv6 address', () => {
    fc.assert(
      fc.property(ipv4Parts, fc.nat(32), ipv4Parts, (one, length, other) => {
        const rules = rulesOf([`${networkOf(one, length)}/${length}`]);
        for (const address of [one, other].map(written)) {
          const verdict = refusalOf(rules, address);
          expect(refusalOf(rules, `::ffff:${address}`)).toBe(verdict);
          expect(refusalOf(rules, `64:ff9b::${address}`)).toBe(verdict);
        }
      }),
    );
  });

  it('refuse no more where more is allowed, and no less where more is refused', () => {
    const networks = fc.array(
      fc.tuple(ipv4Parts, fc.nat(8)).map(([parts, length]) => `${networkOf(parts, length)}/${length}`),
      { maxLength: 4 },
    );
    fc.assert(
      fc.property(networks, networks, networks, ipv4Parts, (allow, refuse, more, parts) => {
        const isRefused = (refused: readonly string[], allowed: readonly string[]): boolean =>
          refusalOf(rulesOf(refused, allowed), written(parts)) !== null;
        const before = isRefused(refuse, allow);
        if (before) expect(isRefused([...refuse, ...more], allow)).toBe(true);
        else expect(isRefused(refuse, [...allow, ...more])).toBe(false);
      }),
    );
  });
});

describe('what is no network', () => {
  it.each([
    ['10.0.0.5/8', /the network itself, such as 10\.0\.0\.0\/8/],
    ['fe80::1/10', /the network itself, such as fe80::\/10/],
    ['::ffff:10.0.0.5/104', /the network itself, such as 10\.0\.0\.0\/8/],
    ['10.0.0.0/33', /a length from 0 to 32/],
    ['2001:db8::/129', /a length from 0 to 128/],
    ['::ffff:10.0.0.0/95', /a length from 96 to 128/],
    ['10.0.0.0/', /a network such as/],
    ['10.0.0.0/8/8', /a network such as/],
    ['10.0.0.0/-1', /a network such as/],
    ['10.0.0/24', /a network such as/],
    ['010.0.0.0/8', /a network such as/],
    ['fe80::%eth0/10', /a network such as/],
    ['Private', /a network such as/],
    ['internal', /a network such as/],
    ['git.example.com', /a network such as/],
    ['', /a network such as/],
  ])('is refused: %s', (text, message) => {
    expect(() => parseNetwork(text)).toThrow(message);
  });

  it('is never a crash', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.string({ unit: 'binary' })), (text) => {
        try {
          expect(refusalOf({ allow: [], refuse: [parseNetwork(text)] }, text.split('/')[0] ?? '')).toBe(text);
        } catch (error) {
          expect(error).toMatchObject({ code: 'usage.invalid' });
        }
      }),
    );
  });
});
