import { devNull } from 'node:os';

import { MirrorError } from '../../lib/errors/errors.ts';
import type { Protocol } from '../git/addresses.ts';
import { allSecrets, readSecrets } from './credentials.ts';
import type { ForwardProxy } from '../git/forward-proxy.ts';
import { type Git, GitBoundError, type GitBounds } from '../git/git.ts';
import { boundError, describeComplaint, lacksRoom, OversizeError, unconnected } from './errors.ts';

/** A repository elsewhere, as Git reaches it. */
export interface Remote {
  /** An address, or an absolute path. */
  readonly source: string;
  /** Makes the connections to it. */
  readonly proxy: ForwardProxy;
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
 * The variables of a git program that reaches out, besides the clean environment. It asks nobody for a password and looks nowhere
 * for one but in the file, whose path it knows and whose content no environment and no argument holds. The helper answers for
 * the origin of the address alone: wherever a server redirects to, the credentials do not go along.
 * @param proxy the address of the proxy that it makes all its connections through; null where it makes none
 */
export function networkEnvironment(
  { protocol, origin, credentialFile }: Omit<Remote, 'source' | 'proxy'>,
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
    // The .netrc of the user who runs the service is not for addresses that clients name.
    HOME: devNull,
    GIT_CONFIG_COUNT: String(settings.length),
    ...variables,
  };
}

/** How much of what comes from elsewhere there is room for. */
export interface Room {
  /** The most that the repository may take, in bytes. */
  readonly maxBytes: number;
  /** How much of that is left. */
  readonly leftBytes: number;
  /** Aborted when that is used up. */
  readonly used: AbortSignal;
}

/** How git is run on a repository elsewhere. */
export interface ReachOptions extends GitBounds {
  /** Not bounded if left out. */
  readonly room?: Room | undefined;
  readonly input?: string;
  /** Variables for git besides those that reaching out needs. */
  readonly environment?: Readonly<Record<string, string>>;
}

function boundsOf({ room, ...options }: ReachOptions) {
  return room === undefined ? options : { ...options, maxFileBytes: room.leftBytes, signal: room.used };
}

/** Runs git on a repository elsewhere, and gives what it says. @throws RemoteError, OversizeError where the room does not do */
export async function reach(
  git: Git,
  remote: Remote,
  gitDirectory: string | null,
  args: readonly string[],
  options: ReachOptions,
): Promise<string> {
  // Somebody may replace the file meanwhile, after git has read it.
  const before = await readSecrets(remote.credentialFile);
  const passage = remote.protocol === 'file' ? null : await remote.proxy.open();
  const environment = { ...networkEnvironment(remote, passage?.url ?? null), ...options.environment };
  try {
    return await git.text(gitDirectory, args, { ...boundsOf(options), environment, isLong: true });
  } catch (error) {
    if (!(error instanceof MirrorError)) throw error;
    const { room } = options;
    if (room !== undefined && (room.used.aborted || lacksRoom(error.message)))
      throw new OversizeError(room.maxBytes);
    const why = passage?.trouble() ?? null;
    if (why !== null) throw unconnected(why);
    if (error instanceof GitBoundError) throw boundError(error, options);
    throw describeComplaint(error.message, allSecrets(before, await readSecrets(remote.credentialFile)));
  } finally {
    passage?.close();
  }
}
