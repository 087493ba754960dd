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

function valueOf(variables: Variables, name: string): string {
  return variables[name] ?? variables[name.toUpperCase()] ?? '';
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

/** Whether a list of hosts has one: names with all below them, addresses, networks, or `*` for all (curl(1), `NO_PROXY`). */
function isExcepted(list: string, host: string): boolean {
  const name = host.toLowerCase().replace(/\.$/, '');
  return list.split(/[\s,]+/).some((entry) => {
    if (entry === '*') return true;
    const bare = entry.toLowerCase().replace(/^\./, '').replace(/\.$/, '');
    if (bare === '') return false;
    return isAddress(host)
      ? hasAddress(bare.replace(/^\[(.*)\]$/, '$1'), host)
      : `.${name}`.endsWith(`.${bare}`);
  });
}

/**
 * Finds the proxy that the operator's environment names for a connection, as programs on this machine do.
 * @returns null where there is none; an address that is none counts as one, which cannot be used
 */
export function operatorsProxy(variables: Variables, { protocol, host }: Destination): string | null {
  const given = valueOf(variables, `${protocol.slice(0, -1)}_proxy`) || valueOf(variables, 'all_proxy');
  if (given === '' || isExcepted(valueOf(variables, 'no_proxy'), host)) return null;
  return given.includes('://') ? given : `http://${given}`;
}
