import type { LookupAddress } from 'node:dns';
import { lookup } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { BlockList, isIP } from 'node:net';
import { devNull } from 'node:os';

import { Agent } from 'undici';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { operatorsProxy } from '../../lib/net/operators-proxy.ts';
import { printable } from '../../lib/text/humanize.ts';
import type { Protocol } from '../git/addresses.ts';
import { type Git, settingArguments } from '../git/git.ts';
import { secretsOf } from './credentials.ts';
import { describeComplaint, RemoteError } from './errors.ts';

/** A repository elsewhere, as Git reaches it. */
export interface Remote {
  /** An address, or an absolute path. */
  readonly source: string;
  readonly protocol: Protocol;
  /** The path of the file with its credentials, as Git reads them; without credentials there is no such file. */
  readonly credentialFile: string;
}

/**
 * The addresses of the same network segment, where clouds serve a machine's credentials (RFC 3927, RFC 4291), and the IPv6
 * addresses that embed an IPv4 address (RFC 4291, section 2.5.5.1; RFC 2765; RFC 6052; RFC 3056). Mapped addresses count as IPv4.
 */
const LINK_LOCAL = new BlockList();
LINK_LOCAL.addSubnet('169.254.0.0', 16, 'ipv4');
LINK_LOCAL.addSubnet('fe80::', 10, 'ipv6');
for (const prefix of ['::', '::ffff:0:', '64:ff9b::']) LINK_LOCAL.addSubnet(`${prefix}a9fe:0`, 112, 'ipv6');
LINK_LOCAL.addSubnet('2002:a9fe::', 32, 'ipv6');

/** Whether an address is link-local; one of IPv6 may have a zone. */
function isLinkLocal({ address, family }: LookupAddress): boolean {
  return LINK_LOCAL.check(address.replace(/%.*$/, ''), family === 4 ? 'ipv4' : 'ipv6');
}

async function addressesOf(host: string): Promise<LookupAddress[]> {
  return lookup(host, { all: true, order: 'verbatim' }).catch((error: unknown) => {
    throw new RemoteError('unreachable', `no address of ${host} is known (${systemCode(error)})`);
  });
}

/**
 * Decides how git gets to a server. The name is looked up once, and git connects to the very addresses that were checked. Where the
 * operator's environment names a proxy, the proxy looks the name up, and decides.
 * @returns the settings and variables of git, and the checked addresses; none of them for a proxy or without a server
 * @throws RemoteError for a name without an address, or with a link-local one only
 */
async function wayTo({ source, protocol }: Remote) {
  if (protocol === 'file') return { settings: [], environment: {}, addresses: [] };
  const { hostname, port: given } = new URL(source);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const port = given === '' ? (protocol === 'https' ? 443 : 80) : Number(given);
  const proxy = operatorsProxy(process.env, { protocol: `${protocol}:`, host, port });
  if (proxy !== null) {
    const environment = { [`${protocol}_proxy`]: proxy.address };
    return { settings: ['http.proxyAuthMethod=basic'], environment, addresses: [] };
  }
  const found = await addressesOf(host);
  const addresses = found.filter((each) => !isLinkLocal(each));
  if (addresses.length === 0) {
    const list = found.map(({ address }) => address).join(', ');
    const message = `${host} is link-local (${list}), and no repository is cloned from there`;
    throw new RemoteError('unreachable', message);
  }
  const pins = addresses.map(({ address, family }) => (family === 6 ? `[${address}]` : address)).join(',');
  // An IP address needs no lookup.
  const settings = isIP(host) === 0 ? [`http.curloptResolve=${host}:${port}:${pins}`] : [];
  return { settings, environment: {}, addresses };
}

/** A transfer slower than this, in bytes per second, for this long is aborted: preparing a large pack may take minutes. */
const STALL_BYTES_PER_SECOND = 1000;
const STALL_SECONDS = 600;

/** Names the file of credentials to the helper: no shell has to quote a path. */
const PATH_VARIABLE = 'WORKBOOK_MIRROR_GIT_CREDENTIALS';

/** A helper (gitcredentials(7)) that prints the file and never changes it: a server's refusal may be a mistake. */
const HELPER = `!f() { if test "$1" = get; then cat "$${PATH_VARIABLE}" 2>/dev/null; fi; }; f`;

/**
 * The settings and the variables, besides the clean environment, of a git program that connects to a server. Git prompts for no
 * password and reads one only from the file, whose path the environment holds. The helper answers only for the origin of the address.
 */
export function accessTo({ source, protocol, credentialFile }: Remote) {
  const helper = protocol === 'file' ? [] : [`credential.${new URL(source).origin}.helper=${HELPER}`];
  return {
    settings: [
      'http.followRedirects=false',
      `http.lowSpeedLimit=${STALL_BYTES_PER_SECOND}`,
      `http.lowSpeedTime=${STALL_SECONDS}`,
      // An empty value removes every helper that the machine configures.
      'credential.helper=',
      ...helper,
    ],
    environment: {
      GIT_ALLOW_PROTOCOL: protocol,
      GIT_ASKPASS: '',
      // The .netrc of the service's user must not be sent to addresses that clients choose.
      HOME: devNull,
      [PATH_VARIABLE]: credentialFile,
      // Certificates of the operator's own authority (git(1), git-config(1)); they have no other effect.
      GIT_SSL_CAINFO: process.env['GIT_SSL_CAINFO'],
      GIT_SSL_CAPATH: process.env['GIT_SSL_CAPATH'],
    },
  };
}

/** Timeout for asking about a redirect, in milliseconds. */
const REDIRECT_LIMIT_MS = 10_000;

/** Git's words for a redirect that it does not follow (LC_ALL=C; git 2.39 to 2.51). */
const REDIRECT = /requested URL returned error: 30[12378]\b/;

/**
 * Says that a server redirects, and to which address if it says so. Its name is not looked up again: the addresses may have changed.
 * @param addresses the server's addresses that git has used
 */
async function redirected(source: string, addresses: readonly LookupAddress[]): Promise<RemoteError> {
  const refused = 'the Git server redirects this address, and redirects are not followed';
  const dispatcher = new Agent({
    connect: { lookup: (_name, _options, give) => give(null, [...addresses]) },
  });
  try {
    const { origin: host, pathname: place } = new URL(source);
    const path = `${place}/info/refs?service=git-upload-pack`;
    const signal = AbortSignal.timeout(REDIRECT_LIMIT_MS);
    const answer = await dispatcher.request({ origin: host, path, method: 'GET', signal });
    const { location = '' } = answer.headers;
    const { origin, pathname } = new URL(String(location), source);
    const address = printable(origin + pathname.replace(/\/info\/refs$/, ''));
    return new RemoteError('unreachable', refused, `Use the address ${address}, if that is meant.`);
  } catch {
    return new RemoteError('unreachable', refused, 'Use the address that it leads to.');
  } finally {
    await dispatcher.destroy();
  }
}

/**
 * Runs git on a repository elsewhere, and gives what it says.
 * @param limitMs how long it may take, in milliseconds; no limit if omitted
 * @throws RemoteError
 */
export async function reach(
  git: Git,
  remote: Remote,
  gitDirectory: string | null,
  args: readonly string[],
  limitMs?: number,
): Promise<string> {
  const readSecrets = async (): Promise<string[]> =>
    secretsOf(await readFile(remote.credentialFile, 'utf8').catch(() => ''));
  // The file may be replaced at any time, even after git has read it.
  const before = await readSecrets();
  const way = await wayTo(remote);
  const { settings, environment } = accessTo(remote);
  const signal = limitMs === undefined ? undefined : AbortSignal.timeout(limitMs);
  try {
    return await git.text(gitDirectory, [...settingArguments(...settings, ...way.settings), ...args], {
      environment: { ...environment, ...way.environment },
      isLong: true,
      signal,
    });
  } catch (error) {
    if (!(error instanceof MirrorError)) throw error;
    if (signal?.aborted === true)
      throw new RemoteError('unreachable', `the Git server takes over ${(limitMs ?? 0) / 1000} s to answer`);
    if (REDIRECT.test(error.message) && way.addresses.length > 0)
      throw await redirected(remote.source, way.addresses);
    throw describeComplaint(error.message, [...before, ...(await readSecrets())]);
  }
}
