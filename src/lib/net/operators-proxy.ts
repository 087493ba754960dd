import { BlockList, isIP, isIPv6 } from 'node:net';

/** The destination of a connection. */
export interface Destination {
  readonly protocol: 'http:' | 'https:';
  /** A name, or an address without brackets. */
  readonly host: string;
  readonly port: number;
}

/** A proxy from the environment. */
export interface OperatorsProxy {
  /** With a scheme; it may hold a password, and may be an invalid address. */
  readonly address: string;
  /** The variable that names it. */
  readonly variable: string;
}

/** A variable for this machine's proxy with its value, which may be empty: in small letters first (curl(1), "ENVIRONMENT"). */
function find(variables: NodeJS.ProcessEnv, name: string): OperatorsProxy {
  const variable = variables[name] === undefined ? name.toUpperCase() : name;
  return { address: variables[variable] ?? '', variable };
}

/** No name of a host ends in a number (URL Standard, "ends in a number checker") or has a colon. */
function isAddress(host: string): boolean {
  return /:|\.\d+$/.test(host);
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv6(address) ? 'ipv6' : 'ipv4';
}

/** Whether an entry, an address or a network such as `10.0.0.0/8`, covers an address. */
function hasAddress(entry: string, host: string): boolean {
  const [address = '', length] = entry.split('/');
  if (isIP(address) === 0 || isIP(host) === 0) return false;
  const bits = isIPv6(address) ? 128 : 32;
  const prefix = length === undefined ? bits : /^\d{1,3}$/.test(length) ? Number(length) : NaN;
  if (!(prefix <= bits)) return false;
  const network = new BlockList();
  network.addSubnet(address, prefix, familyOf(address));
  return network.check(host, familyOf(host));
}

/**
 * Whether a list covers a host: names with all names below them, addresses, networks, or `*` for all (curl(1), `NO_PROXY`). As in many
 * programs, `*.example.com` covers only the names below, and a port after a name or an address limits the entry to that port.
 */
function isExcepted(list: string, { host, port }: Destination): boolean {
  const name = host.toLowerCase().replace(/\.$/, '');
  return list.split(/[\s,]+/).some((entry) => {
    if (entry === '*') return true;
    const [, given = entry, portOfEntry] = /^([^:]+|\[.*\]):(\d+)$/.exec(entry) ?? [];
    if (portOfEntry !== undefined && Number(portOfEntry) !== port) return false;
    const isBelow = given.startsWith('*.');
    const bare = given
      .toLowerCase()
      .replace(/^\*?\./, '')
      .replace(/\.$/, '');
    if (bare === '' || (isBelow && name === bare)) return false;
    return isAddress(host)
      ? hasAddress(bare.replace(/^\[(.*)\]$/, '$1'), host)
      : `.${name}`.endsWith(`.${bare}`);
  });
}

/**
 * Finds the proxy in the operator's environment for a connection, as other programs on this machine do.
 * @returns null if there is none; an invalid address counts as a proxy that cannot be used
 */
export function operatorsProxy(
  variables: NodeJS.ProcessEnv,
  destination: Destination,
): OperatorsProxy | null {
  const own = find(variables, `${destination.protocol.slice(0, -1)}_proxy`);
  const { address, variable } = own.address === '' ? find(variables, 'all_proxy') : own;
  if (address === '' || isExcepted(find(variables, 'no_proxy').address, destination)) return null;
  return { address: address.includes('://') ? address : `http://${address}`, variable };
}
