import { devNull } from 'node:os';

import type { Protocol } from './addresses.ts';

/** Settings that a repository, a user or a machine could otherwise bring in. */
export const FIXED_SETTINGS = [
  'core.quotePath=false',
  // Larger files pass through git piece by piece; above Git's own limit of 512 MiB they would do so as well.
  'core.bigFileThreshold=1m',
  `core.attributesFile=${devNull}`,
  `core.hooksPath=${devNull}`,
  'gc.auto=0',
  'maintenance.auto=false',
].flatMap((setting) => ['-c', setting]);

/** What steers git, its language, or the way that it takes to a server (curl(1), "ENVIRONMENT"). */
const STEERING = /^(?:GIT_|LC_|LANG|(?:[a-z]+_proxy|[A-Z]+_PROXY)$)/;

/**
 * The environment of every git program: the process's own without anything that steers git. The operator's proxy is left to
 * the forward proxy, which would be passed by otherwise.
 */
export function cleanEnvironment(added: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !STEERING.test(name));
  return {
    ...Object.fromEntries(inherited),
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: devNull,
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    // A path is a name, never a pattern.
    GIT_LITERAL_PATHSPECS: '1',
    // refs/replace of a mirrored repository would give other bytes than the committed ones.
    GIT_NO_REPLACE_OBJECTS: '1',
    // Nothing is fetched but by who says so: an empty list allows no protocol at all.
    GIT_ALLOW_PROTOCOL: '',
    LC_ALL: 'C',
    // A zip holds local times.
    TZ: 'UTC',
    ...added,
  };
}

/** How a repository elsewhere is reached. */
export interface Access {
  readonly protocol: Protocol;
  /** Scheme, host and port that the credentials are for; null where there are none. */
  readonly origin: string | null;
  /** The path of a file that holds them, as Git reads them; null where there is none. */
  readonly credentialFile: string | null;
}

/** A transfer that moves fewer bytes a second than this for so long is given up: to prepare a large pack may take minutes. */
const STALL_BYTES_PER_SECOND = 1000;
const STALL_SECONDS = 600;

/** Names the file of credentials to the helper: no shell has to quote a path. */
const PATH_VARIABLE = 'WORKBOOK_MIRROR_GIT_CREDENTIALS';

/** A helper (gitcredentials(7)) that gives what the file holds and never changes it: a server's refusal may be a mistake. */
const HELPER = `!f() { if test "$1" = get; then cat "$${PATH_VARIABLE}"; fi; }; f`;

/** Certificates of an authority of the operator's own (git(1), git-config(1)); they steer nothing else. */
const CERTIFICATE_VARIABLES = ['GIT_SSL_CAINFO', 'GIT_SSL_CAPATH'];

/**
 * What a git program that reaches out is given besides the clean environment. It asks nobody for a password and looks nowhere
 * for one but in the file, whose path it knows and whose content no environment and no argument holds. The helper answers for
 * the origin of the address alone: wherever a server redirects to, the credentials do not go along.
 * @param proxy the address of the proxy that it makes all its connections through; null where it makes none
 */
export function networkEnvironment(
  { protocol, origin, credentialFile }: Access,
  proxy: string | null,
): Readonly<Record<string, string>> {
  const settings = [
    // Only the first request: what follows goes to the address that it led to.
    ['http.followRedirects', 'initial'],
    ['http.lowSpeedLimit', String(STALL_BYTES_PER_SECOND)],
    ['http.lowSpeedTime', String(STALL_SECONDS)],
    ...(proxy === null
      ? []
      : [
          ['http.proxy', proxy],
          ['http.proxyAuthMethod', 'basic'],
        ]),
    // Forgets every helper that a machine may have.
    ['credential.helper', ''],
    ...(origin === null || credentialFile === null ? [] : [[`credential.${origin}.helper`, HELPER]]),
  ];
  const variables: Record<string, string> =
    credentialFile === null ? {} : { [PATH_VARIABLE]: credentialFile };
  for (const [index, [key = '', value = '']] of settings.entries()) {
    variables[`GIT_CONFIG_KEY_${index}`] = key;
    variables[`GIT_CONFIG_VALUE_${index}`] = value;
  }
  for (const name of CERTIFICATE_VARIABLES) {
    const value = process.env[name];
    if (value !== undefined) variables[name] = value;
  }
  return {
    // A redirect may lead to a safer protocol, never to another one.
    GIT_ALLOW_PROTOCOL: protocol === 'http' ? 'http:https' : protocol,
    GIT_ASKPASS: '',
    // A .netrc of whoever runs the service is not for addresses that clients name.
    HOME: devNull,
    GIT_CONFIG_COUNT: String(settings.length),
    ...variables,
  };
}
