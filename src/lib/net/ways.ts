import { getCACertificates, setDefaultCACertificates } from 'node:tls';

import { Agent, type buildConnector, type Dispatcher, ProxyAgent } from 'undici';

import { MirrorError } from '../errors/errors.ts';
import { operatorsProxy } from './operators-proxy.ts';

/** A proxy for requests. */
export interface NamedProxy {
  /** Scheme, host and port, without user name and password. */
  readonly origin: string;
  /** The variable that names it. */
  readonly variable: string;
}

/** The route to an address. */
export interface Way {
  readonly dispatcher: Dispatcher;
  /** Null for a direct route. */
  readonly proxy: NamedProxy | null;
}

/** How connections are made. */
export interface WayOptions extends Omit<Agent.Options, 'connect' | 'connectTimeout' | 'factory'> {
  /** The longest time that a connection may take, in milliseconds. */
  readonly connectTimeoutMs: number;
  /** Makes the direct connections; undici's own by default. */
  readonly connect?: buildConnector.connector;
}

const SCHEMES: ReadonlySet<string> = new Set(['http:', 'https:', 'socks5:', 'socks:']);

/** Creates the routes out of this machine, with pooled connections: a direct one, and one for each proxy once it is needed. */
export function createWays({ connectTimeoutMs, connect, ...options }: WayOptions) {
  const direct = new Agent({ ...options, connect: connect ?? { timeout: connectTimeoutMs } });
  const proxied = new Map<string, Way>();
  const through = (address: string, variable: string): Way => {
    const url = URL.parse(address);
    if (url === null || url.host === '' || !SCHEMES.has(url.protocol)) throw noProxy(variable);
    try {
      const dispatcher = new ProxyAgent({ ...options, uri: url.href, connectTimeout: connectTimeoutMs });
      return { dispatcher, proxy: { origin: `${url.protocol}//${url.host}`, variable } };
    } catch {
      // The cause would show a password.
      throw noProxy(variable);
    }
  };
  return {
    /**
     * Finds the route to an address: direct, or through the proxy from HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY.
     * @throws MirrorError `service.unreachable` if the variable does not hold a proxy's address
     */
    to: (url: URL): Way => {
      const found = operatorsProxy(process.env, {
        protocol: url.protocol === 'https:' ? 'https:' : 'http:',
        host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
        port: Number(url.port) || (url.protocol === 'https:' ? 443 : 80),
      });
      if ([url.href, found?.address].some((address) => address?.startsWith('https:') === true))
        trustSystemAuthorities();
      if (found === null) return { dispatcher: direct, proxy: null };
      const way = proxied.get(found.address) ?? through(found.address, found.variable);
      proxied.set(found.address, way);
      return way;
    },
    close: async (): Promise<void> => {
      await Promise.all(
        [direct, ...[...proxied.values()].map((way) => way.dispatcher)].map((each) => each.destroy()),
      );
    },
  };
}

function noProxy(variable: string): MirrorError {
  return new MirrorError(
    'service.unreachable',
    `The variable ${variable} does not hold the address of a proxy.`,
    {
      hint: 'An address is http://proxy.example.com:3128, or http://user:password@proxy.example.com:3128, with special characters percent-encoded.',
    },
  );
}

let areAuthoritiesTrusted = false;

/**
 * Trusts the authorities of this machine for TLS, beside those that Node brings and those of NODE_EXTRA_CA_CERTS: most companies have their own.
 * It reads them once, before the first connection: that takes a fifth of a second, which commands without TLS save.
 */
export function trustSystemAuthorities(): void {
  if (areAuthoritiesTrusted) return;
  areAuthoritiesTrusted = true;
  setDefaultCACertificates([...new Set([...getCACertificates('default'), ...getCACertificates('system')])]);
}
