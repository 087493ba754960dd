import { MirrorError } from '../errors/errors.ts';

/** Addresses that begin with the same bits. */
interface Range {
  /** Of an address: 32 (IPv4) or 128 (IPv6). */
  readonly bits: number;
  /** How many bits they have in common. */
  readonly prefix: number;
  /** The first of them. */
  readonly first: bigint;
}

/** A network, or several that have a name. */
export interface Network {
  /** As it was given. */
  readonly text: string;
  readonly ranges: readonly Range[];
}

/** Which addresses may be connected to: what is in neither list may. */
export interface NetworkRules {
  /** Networks that may be connected to, also where `refuse` has them. */
  readonly allow: readonly Network[];
  readonly refuse: readonly Network[];
}

interface Address {
  readonly bits: number;
  readonly value: bigint;
}

/**
 * Names for networks (IANA, IPv4 and IPv6 Special-Purpose Address Registries).
 *
 * - `private`: what only an organization's own network routes, of whatever kind.
 * - `loopback`: this machine. Systems take "this network" (0.0.0.0, ::) for it.
 * - `link-local`: the same network segment. Clouds give a machine its credentials there.
 */
const NAMED: ReadonlyMap<string, readonly string[]> = new Map([
  [
    'private',
    [
      '10.0.0.0/8',
      '100.64.0.0/10',
      '172.16.0.0/12',
      '192.0.0.0/24',
      '192.168.0.0/16',
      '198.18.0.0/15',
      '240.0.0.0/4',
      'fc00::/7',
      'fec0::/10',
    ],
  ],
  ['loopback', ['127.0.0.0/8', '0.0.0.0/8', '::1', '::']],
  ['link-local', ['169.254.0.0/16', 'fe80::/10']],
]);

const FORM =
  'expected a network such as 10.0.0.0/8 or 2001:db8::/32, an address, or one of private, loopback, link-local';

const IPV4_BITS = 32;
const IPV6_BITS = 128;

/** IPv6 addresses that are only another way to write an IPv4 address (RFC 4291, section 2.5.5.2). */
const MAPPED = ipv6Range('::ffff:0:0', 96);

/**
 * IPv6 addresses that lead to the IPv4 address within them (RFC 4291, section 2.5.5.1; RFC 2765; RFC 6052; RFC 8215; RFC 3056), and
 * how many bits stand behind that.
 */
const CARRIERS: ReadonlyArray<readonly [Range, bigint]> = [
  [ipv6Range('::', 96), 0n],
  [ipv6Range('::ffff:0:0:0', 96), 0n],
  [ipv6Range('64:ff9b::', 96), 0n],
  [ipv6Range('64:ff9b:1::', 48), 0n],
  [ipv6Range('2002::', 16), 80n],
];

function parseIpv4(text: string): bigint | null {
  const parts = text.split('.');
  // A leading zero is octal to some systems.
  if (parts.length !== 4 || parts.some((part) => !/^(?:0|[1-9]\d{0,2})$/.test(part) || Number(part) > 255))
    return null;
  return parts.reduce((value, part) => value * 256n + BigInt(part), 0n);
}

function parseIpv6(text: string): bigint | null {
  // The address of a web page is written in the shortest form.
  const url = /^[\da-f:.]+$/i.test(text) ? URL.parse(`http://[${text}]`) : null;
  if (url === null) return null;
  const [head = '', tail = ''] = url.hostname.slice(1, -1).split('::');
  const groupsOf = (part: string): string[] => part.split(':').filter((group) => group !== '');
  const [left, right] = [groupsOf(head), groupsOf(tail)];
  const middle = Array.from({ length: 8 - left.length - right.length }, () => '0');
  return [...left, ...middle, ...right].reduce((value, group) => value * 65_536n + BigInt(`0x${group}`), 0n);
}

function formatAddress({ bits, value }: Address): string {
  const groupBits = bits === IPV4_BITS ? 8n : 16n;
  const count = bits / Number(groupBits);
  const groups = Array.from(
    { length: count },
    (_, index) => (value >> (BigInt(count - 1 - index) * groupBits)) % 2n ** groupBits,
  );
  if (bits === IPV4_BITS) return groups.join('.');
  return new URL(`http://[${groups.map((group) => group.toString(16)).join(':')}]`).hostname.slice(1, -1);
}

function ipv6Range(text: string, prefix: number): Range {
  return { bits: IPV6_BITS, prefix, first: parseIpv6(text) ?? 0n };
}

function isIn({ bits, value }: Address, range: Range): boolean {
  const rest = BigInt(range.bits - range.prefix);
  return bits === range.bits && value >> rest === range.first >> rest;
}

/** Reads an address as programs print it; null for anything else. The zone of an IPv6 address says no more of where it leads. */
function parseAddress(text: string): Address | null {
  const ipv4 = parseIpv4(text);
  if (ipv4 !== null) return { bits: IPV4_BITS, value: ipv4 };
  const value = parseIpv6(text.replace(/%.*$/, ''));
  if (value === null) return null;
  const address = { bits: IPV6_BITS, value };
  return isIn(address, MAPPED) ? ipv4Within(value, 0n) : address;
}

function ipv4Within(value: bigint, behind: bigint): Address {
  return { bits: IPV4_BITS, value: (value >> behind) % 2n ** BigInt(IPV4_BITS) };
}

function parseRange(text: string): Range {
  const [, base = '', length] = /^([^/%]*)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const address = parseAddress(base);
  if (address === null) throw new MirrorError('usage.invalid', FORM);
  const { bits, value } = address;
  // ::ffff:10.0.0.0/104 is 10.0.0.0/8.
  const offset = bits === IPV4_BITS && base.includes(':') ? IPV6_BITS - IPV4_BITS : 0;
  const prefix = length === undefined ? bits : Number(length) - offset;
  if (prefix < 0 || prefix > bits) {
    throw new MirrorError(
      'usage.invalid',
      `expected a length from ${offset} to ${bits + offset} behind the /`,
    );
  }
  const rest = BigInt(bits - prefix);
  const first = (value >> rest) << rest;
  if (first === value) return { bits, prefix, first };
  const network = `${formatAddress({ bits, value: first })}/${prefix}`;
  throw new MirrorError('usage.invalid', `expected the network itself, such as ${network}, or one address`);
}

/**
 * Reads a network: `10.0.0.0/8`, `2001:db8::/32`, an address alone, or a name for several.
 * @throws MirrorError `usage.invalid`; the message says what is expected and leaves out the text itself
 */
export function parseNetwork(text: string): Network {
  return { text, ranges: (NAMED.get(text) ?? [text]).map(parseRange) };
}

/** Reads the two lists of networks. @throws MirrorError `usage.invalid` */
export function parseNetworkRules(lists: {
  readonly allow: readonly string[];
  readonly refuse: readonly string[];
}): NetworkRules {
  return { allow: lists.allow.map(parseNetwork), refuse: lists.refuse.map(parseNetwork) };
}

/** All that an address leads to: an IPv6 address may carry an IPv4 address. */
function formsOf(address: Address): Address[] {
  const carried = CARRIERS.filter(([range]) => isIn(address, range)).map(([, behind]) =>
    ipv4Within(address.value, behind),
  );
  // :: and ::1 carry nothing.
  return address.value > 1n ? [address, ...carried] : [address];
}

/**
 * Says by which entry of `refuse` an address may not be connected to; null where it may. An IPv6 address that carries an IPv4
 * address must be let through as both.
 * @param text an address as programs print it; anything else is refused
 */
export function refusalOf({ allow, refuse }: NetworkRules, text: string): string | null {
  const address = parseAddress(text);
  if (address === null) return 'what is no address';
  const entryFor = (form: Address, networks: readonly Network[]): Network | undefined =>
    networks.find(({ ranges }) => ranges.some((range) => isIn(form, range)));
  for (const form of formsOf(address)) {
    const entry = entryFor(form, allow) === undefined ? entryFor(form, refuse) : undefined;
    if (entry !== undefined) return entry.text;
  }
  return null;
}
