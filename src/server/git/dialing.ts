import { lookup as systemLookup } from 'node:dns/promises';
import { once } from 'node:events';
import { type ClientRequest, request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { BlockList, connect, isIP, type Socket } from 'node:net';

import { unlessAborted } from '../../lib/concurrency/concurrency.ts';
import { waitAtMost } from '../../lib/concurrency/shared-work.ts';
import { systemCode } from '../../lib/errors/disk-errors.ts';
import { type Destination, operatorsProxy } from '../../lib/net/operators-proxy.ts';

/** Gives the addresses of a name, the preferred one first; rejects where it has none. */
export type Lookup = (host: string) => Promise<readonly string[]>;

/** How connections are made. */
export interface DialOptions {
  /** Whether an address must not be connected to; {@link isLinkLocal} if left out. */
  readonly isRefused?: (address: string) => boolean;
  /** The system's if left out. */
  readonly lookup?: Lookup;
  /** Where the operator names a proxy; this process's environment if left out. */
  readonly variables?: Readonly<Record<string, string | undefined>>;
}

/** Makes a connection. @throws DialError, or what the signal was aborted with */
export type Dial = (destination: Destination, signal: AbortSignal) => Promise<Socket>;

/** A connection that was not made. The message is for the operator alone: it tells of the network that the service is in. */
export class DialError extends Error {
  override readonly name = 'DialError';
}

/** How long the addresses of a name are waited for where a proxy looks them up itself, in milliseconds. */
const PROXIED_LOOKUP_MS = 3000;

/** After so long the next address of a host is tried beside the one before, in milliseconds. */
const ATTEMPT_MS = 1000;

/**
 * The addresses of the same network segment, where clouds give a machine its credentials (RFC 3927, RFC 4291), and the IPv6
 * addresses that carry one of IPv4 (RFC 4291, section 2.5.5.1; RFC 2765; RFC 6052; RFC 8215; RFC 3056). Mapped addresses count as
 * those of IPv4.
 */
const LINK_LOCAL = new BlockList();
LINK_LOCAL.addSubnet('169.254.0.0', 16, 'ipv4');
LINK_LOCAL.addSubnet('fe80::', 10, 'ipv6');
for (const prefix of ['::', '::ffff:0:', '64:ff9b::']) LINK_LOCAL.addSubnet(`${prefix}a9fe:0`, 112, 'ipv6');
LINK_LOCAL.addSubnet('2002:a9fe::', 32, 'ipv6');

/** Those below 64:ff9b:1::/48, of which each network chooses its own prefix (RFC 8215), as the URL Standard writes them. */
const LOCAL_CARRIER = /^\[64:ff9b:1:.*:a9fe:[\da-f]+\]$/;

/**
 * Whether an address is link-local, or none at all.
 * @param text as programs print it; the zone of an IPv6 address says no more of where it leads
 */
export function isLinkLocal(text: string): boolean {
  const address = text.replace(/%.*$/, '');
  const version = isIP(address);
  if (version === 4) return LINK_LOCAL.check(address, 'ipv4');
  return (
    version === 0 ||
    LINK_LOCAL.check(address, 'ipv6') ||
    LOCAL_CARRIER.test(new URL(`http://[${address}]`).hostname)
  );
}

const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'http:': 1080, 'https:': 443 };

function reasonOf(error: unknown): string {
  return systemCode(error) ?? (error instanceof Error ? error.message : 'unknown');
}

function formatHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** Connects to the first of some addresses of a host that answers. */
async function connectTo(
  { host, port }: Destination,
  addresses: readonly string[],
  signal: AbortSignal,
): Promise<Socket> {
  const socket = connect({
    host,
    port,
    // A name that is looked up again may have another address by then.
    lookup: (_host, _options, done) =>
      done(
        null,
        addresses.map((address) => ({ address, family: isIP(address) })),
      ),
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ATTEMPT_MS,
  });
  try {
    await once(socket, 'connect', { signal });
    return socket;
  } catch (error) {
    socket.on('error', () => undefined).destroy();
    signal.throwIfAborted();
    throw new DialError(`no connection to ${addresses.join(', ')}, port ${port} (${reasonOf(error)})`);
  }
}

function requestTunnel(proxy: URL, { host, port }: Destination): ClientRequest {
  const path = `${formatHost(host)}:${port}`;
  const user = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
  const authorization =
    user === ':' ? {} : { 'proxy-authorization': `Basic ${Buffer.from(user).toString('base64')}` };
  const ask = proxy.protocol === 'https:' ? httpsRequest : httpRequest;
  return ask({
    host: proxy.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: proxy.port === '' ? DEFAULT_PORTS[proxy.protocol] : proxy.port,
    method: 'CONNECT',
    path,
    headers: { host: path, ...authorization },
    agent: false,
  });
}

/** The answer to a request for a tunnel, and the connection. */
interface Tunnel {
  readonly status: number;
  readonly socket: Socket;
}

function tunnelOf(request: ClientRequest): Promise<Tunnel> {
  return new Promise((resolve, reject) => {
    request.once('error', reject);
    request.once('connect', ({ statusCode = 0 }, socket, head) => {
      if (head.length > 0) socket.unshift(head);
      resolve({ status: statusCode, socket });
    });
    request.end();
  });
}

/** Has the operator's proxy make a connection (RFC 9110, section 9.3.6). */
async function tunnelThrough(address: string, to: Destination, signal: AbortSignal): Promise<Socket> {
  const proxy = URL.parse(address);
  if (proxy === null || DEFAULT_PORTS[proxy.protocol] === undefined)
    throw new DialError('the proxy that the environment of the service names is not one of http: or https:');
  const request = requestTunnel(proxy, to);
  try {
    const { status, socket } = await unlessAborted(tunnelOf(request), signal);
    if (status < 200 || status > 299) {
      socket.destroy();
      throw new DialError(`the proxy ${proxy.host} answers ${status} for ${to.host}:${to.port}`);
    }
    return socket;
  } catch (error) {
    request.on('error', () => undefined).destroy();
    signal.throwIfAborted();
    if (error instanceof DialError) throw error;
    throw new DialError(`no connection through the proxy ${proxy.host} (${reasonOf(error)})`);
  }
}

/** Makes connections to the addresses that are not refused, directly or through the operator's proxy. */
export function createDial({
  isRefused = isLinkLocal,
  lookup = lookUp,
  variables = process.env,
}: DialOptions): Dial {
  async function addressesOf(host: string, signal: AbortSignal): Promise<readonly string[]> {
    if (isIP(host) !== 0) return [host];
    try {
      return await unlessAborted(lookup(host), signal);
    } catch (error) {
      signal.throwIfAborted();
      throw new DialError(`no address of ${host} is known (${reasonOf(error)})`);
    }
  }

  function refusedMessage(host: string, address: string): string {
    const what = address === host ? address : `${address}, an address of ${host},`;
    return `${what} is link-local, and no repository is cloned from there`;
  }

  /** The proxy looks the name up itself: what this machine knows nothing of is the proxy's to refuse. */
  async function checkBehindProxy(host: string, signal: AbortSignal): Promise<void> {
    const known = addressesOf(host, signal).catch((error: unknown) => {
      if (error instanceof DialError) return [];
      throw error;
    });
    for (const address of (await waitAtMost(known, PROXIED_LOOKUP_MS)) ?? []) {
      if (isRefused(address)) throw new DialError(refusedMessage(host, address));
    }
  }

  return async (destination, signal) => {
    const { host } = destination;
    const proxy = operatorsProxy(variables, destination);
    if (proxy !== null) {
      await checkBehindProxy(host, signal);
      return tunnelThrough(proxy.address, destination, signal);
    }
    const addresses = await addressesOf(host, signal);
    const open = addresses.filter((address) => !isRefused(address));
    const [first = ''] = addresses;
    if (open.length === 0) throw new DialError(refusedMessage(host, first));
    return connectTo(destination, open, signal);
  };
}

async function lookUp(host: string): Promise<readonly string[]> {
  const found = await systemLookup(host, { all: true, order: 'verbatim' });
  return found.map(({ address }) => address);
}
