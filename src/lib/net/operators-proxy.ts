import { parseNetwork, refusalOf } from './networks.ts';

/** Where a connection is to lead. */
export interface Destination {
  readonly protocol: 'http:' | 'https:';
  /** A name, or an address without brackets. */
  readonly host: string;
  readonly port: number;
}

/** The variables that say which proxy this machine has, in small letters first (curl(1), "ENVIRONMENT"). */
type Variables = Readonly<Record<string, string | undefined>>;

/** A proxy as the environment names it. */
export interface OperatorsProxy {
  /** With a scheme; it may hold a password, and may be no address at all. */
  readonly address: string;
  /** The variable that names it. */
  readonly variable: string;
}

/** A variable with its value, which may be empty. */
function find(variables: Variables, name: string): OperatorsProxy {
  const variable = variables[name] === undefined ? name.toUpperCase() : name;
  return { address: variables[variable] ?? '', variable };
}

/** No name of a host ends in a number (URL Standard, "ends in a number checker") or has a colon. */
function isAddress(host: string): boolean {
  return /:|\.\d+$/.test(host);
}

/** Whether an entry of a list of networks has an address; a name has none. */
function hasAddress(entry: string, host: string): boolean {
  try {
    return /[.:]/.test(entry) && refusalOf({ allow: [], refuse: [parseNetwork(entry)] }, host) !== null;
  } catch {
    return false;
  }
}

/**
 * Whether a list of hosts has one: names with all below them, addresses, networks, or `*` for all (curl(1), `NO_PROXY`). As many
 * programs do it takes `*.example.com` for what is below that name, and a port behind a name or an address for that port alone.
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
 * Finds the proxy that the operator's environment names for a connection, as programs on this machine do.
 * @returns null where there is none; an address that is none counts as one, which cannot be used
 */
export function operatorsProxy(variables: Variables, destination: Destination): OperatorsProxy | null {
  const own = find(variables, `${destination.protocol.slice(0, -1)}_proxy`);
  const { address, variable } = own.address === '' ? find(variables, 'all_proxy') : own;
  if (address === '' || isExcepted(find(variables, 'no_proxy').address, destination)) return null;
  return { address: address.includes('://') ? address : `http://${address}`, variable };
}
