import { lookup } from 'node:dns/promises';
import { BlockList, isIP } from 'node:net';
import { devNull } from 'node:os';

import { Agent, type buildConnector, request } from 'undici';

import { unlessAborted } from '../../lib/concurrency/concurrency.ts';
import { systemCode } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { operatorsProxy } from '../../lib/net/operators-proxy.ts';
import { printable } from '../../lib/text/humanize.ts';
import type { Protocol } from '../git/addresses.ts';
import type { Git } from '../git/git.ts';
import { readSecrets } from './credentials.ts';
import { describeComplaint, RemoteError } from './errors.ts';

/** A repository elsewhere, as Git reaches it. */
export interface Remote {
  /** An address, or an absolute path. */
  readonly source: string;
  readonly protocol: Protocol;
  /** Scheme, host and port that the credentials are for; null for a path of this machine. */
  readonly origin: string | null;
  /** The path of a file that holds them, as Git reads them; null for a repository without credentials. */
  readonly credentialFile: string | null;
}

/** A transfer slower than this, in bytes per second, for this long is aborted: preparing a large pack may take minutes. */
const STALL_BYTES_PER_SECOND = 1000;
const STALL_SECONDS = 600;

/** Timeout for looking up a name, and for asking about a redirect, in milliseconds. */
const LOOKUP_LIMIT_MS = 10_000;

/** Names the file of credentials to the helper: no shell has to quote a path. */
const PATH_VARIABLE = 'WORKBOOK_MIRROR_GIT_CREDENTIALS';

/** A helper (gitcredentials(7)) that prints the file and never changes it: a server's refusal may be a mistake. */
const HELPER = `!f() { if test "$1" = get; then cat "$${PATH_VARIABLE}"; fi; }; f`;

/** Certificates of the operator's own authority (git(1), git-config(1)); they have no other effect. */
const CERTIFICATE_VARIABLES = ['GIT_SSL_CAINFO', 'GIT_SSL_CAPATH'];

/**
 * The addresses of the same network segment, where clouds serve a machine's credentials (RFC 3927, RFC 4291), and the IPv6
 * addresses that embed an IPv4 address (RFC 4291, section 2.5.5.1; RFC 2765; RFC 6052; RFC 3056). Mapped addresses count as IPv4.
 */
const LINK_LOCAL = new BlockList();
LINK_LOCAL.addSubnet('169.254.0.0', 16, 'ipv4');
LINK_LOCAL.addSubnet('fe80::', 10, 'ipv6');
for (const prefix of ['::', '::ffff:0:', '64:ff9b::']) LINK_LOCAL.addSubnet(`${prefix}a9fe:0`, 112, 'ipv6');
LINK_LOCAL.addSubnet('2002:a9fe::', 32, 'ipv6');

/** Whether an address is link-local. @param text as programs print it, with the zone of an IPv6 address or without */
function isLinkLocal(text: string): boolean {
  const address = text.replace(/%.*$/, '');
  return LINK_LOCAL.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6');
}

async function addressesOf(host: string): Promise<string[]> {
  try {
    const found = lookup(host, { all: true, order: 'verbatim' });
    return (await unlessAborted(found, AbortSignal.timeout(LOOKUP_LIMIT_MS))).map(({ address }) => address);
  } catch (error) {
    throw new RemoteError(
      'unreachable',
      `no address of ${host} is known (${systemCode(error) ?? 'timeout'})`,
    );
  }
}

/** Settings of git, by their names. */
type GitSettings = Readonly<Record<string, string>>;

/**
 * Decides how git gets to a server. The name is looked up once, and git connects to the very addresses that were checked. Where the
 * operator's environment names a proxy, the proxy looks the name up, and decides.
 * @returns settings of git, and the addresses that were checked; null where a proxy looks the name up
 * @throws RemoteError for a name without an address, or with a link-local one only
 */
async function wayTo({ source, protocol }: Remote) {
  if (protocol === 'file') return { settings: {}, addresses: [] };
  const { hostname, port: given } = new URL(source);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const port = given === '' ? (protocol === 'https' ? 443 : 80) : Number(given);
  const proxy = operatorsProxy(process.env, { protocol: `${protocol}:`, host, port });
  if (proxy !== null)
    return {
      settings: { 'http.proxy': proxy.address, 'http.proxyAuthMethod': 'basic' },
      addresses: null,
    };
  const addresses = await addressesOf(host);
  const open = addresses.filter((address) => !isLinkLocal(address));
  if (open.length === 0) {
    const message = `${host} is link-local (${addresses.join(', ')}), and no repository is cloned from there`;
    throw new RemoteError('unreachable', message);
  }
  const pinned = open.map((address) => (address.includes(':') ? `[${address}]` : address)).join(',');
  // An IP address needs no lookup.
  const settings: GitSettings =
    isIP(host) === 0 ? { 'http.curloptResolve': `${host}:${port}:${pinned}` } : {};
  return { settings, addresses: open };
}

/**
 * The variables, besides the clean environment, of a git program that connects to a server. Git prompts for no password and reads one only
 * from the file: environment and arguments hold the path, never the content. The helper answers only for
 * the origin of the address.
 */
export function networkEnvironment(
  { protocol, origin, credentialFile }: Omit<Remote, 'source'>,
  way: GitSettings,
): Readonly<Record<string, string>> {
  const variables: Record<string, string> = {
    GIT_ALLOW_PROTOCOL: protocol,
    GIT_ASKPASS: '',
    // The .netrc of the service's user must not be sent to addresses that clients choose.
    HOME: devNull,
  };
  const settings: Record<string, string> = {
    'http.followRedirects': 'false',
    'http.lowSpeedLimit': String(STALL_BYTES_PER_SECOND),
    'http.lowSpeedTime': String(STALL_SECONDS),
    ...way,
    // An empty value removes every helper that the machine configures.
    'credential.helper': '',
  };
  if (origin !== null && credentialFile !== null) {
    variables[PATH_VARIABLE] = credentialFile;
    settings[`credential.${origin}.helper`] = HELPER;
  }
  for (const name of CERTIFICATE_VARIABLES) {
    const value = process.env[name];
    if (value !== undefined) variables[name] = value;
  }
  for (const [index, [key, value]] of Object.entries(settings).entries()) {
    variables[`GIT_CONFIG_KEY_${index}`] = key;
    variables[`GIT_CONFIG_VALUE_${index}`] = value;
  }
  return { ...variables, GIT_CONFIG_COUNT: String(Object.keys(settings).length) };
}

/** Git's words for a redirect that it does not follow (LC_ALL=C; git 2.39 to 2.51). */
const REDIRECT = /requested URL returned error: 30[12378]\b/;

/** Says that a server redirects, and to which address if it says so. @param addresses the server's addresses that git has used */
async function redirected(source: string, addresses: readonly string[]): Promise<RemoteError> {
  const refused = 'the Git server redirects this address, and redirects are not followed';
  try {
    const { location = '' } = await headersOf(`${source}/info/refs?service=git-upload-pack`, addresses);
    const { origin, pathname } = new URL(String(location), source);
    const address = printable(origin + pathname.replace(/\/info\/refs$/, ''));
    return new RemoteError('unreachable', refused, `Use the address ${address}, if that is meant.`);
  } catch {
    return new RemoteError('unreachable', refused, 'Use the address that it leads to.');
  }
}

/** Asks a server for the headers of an address. Its name is not looked up again: the addresses may have changed. */
async function headersOf(address: string, addresses: readonly string[]) {
  const found = addresses.map((each) => ({ address: each, family: isIP(each) }));
  const connect: buildConnector.BuildOptions = { lookup: (_name, _options, give) => give(null, found) };
  const dispatcher = new Agent({ connect });
  try {
    return (await request(address, { dispatcher, signal: AbortSignal.timeout(LOOKUP_LIMIT_MS) })).headers;
  } finally {
    await dispatcher.destroy();
  }
}

/** Runs git on a repository elsewhere, and gives what it says. @throws RemoteError */
export async function reach(
  git: Git,
  remote: Remote,
  gitDirectory: string | null,
  args: readonly string[],
  limitMs?: number,
): Promise<string> {
  // The file may be replaced at any time, even after git has read it.
  const before = await readSecrets(remote.credentialFile);
  const { settings, addresses } = await wayTo(remote);
  const environment = networkEnvironment(remote, settings);
  try {
    const limit = limitMs === undefined ? {} : { limitMs };
    return await git.text(gitDirectory, args, { ...limit, environment, isLong: true });
  } catch (error) {
    if (!(error instanceof MirrorError)) throw error;
    if (REDIRECT.test(error.message) && addresses !== null) throw await redirected(remote.source, addresses);
    throw describeComplaint(error.message, [...before, ...(await readSecrets(remote.credentialFile))]);
  }
}
