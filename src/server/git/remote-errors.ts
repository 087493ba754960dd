import { MirrorError } from '../../lib/errors/errors.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { formatSize } from '../../lib/text/units.ts';
import { lacksCredentials, lacksMemory, lacksRoom, reasonIn } from './stderr.ts';
import { allSecrets, type CredentialSecrets, readSecrets } from './credentials.ts';
import { type Git, GitBoundError, type GitBounds } from './git.ts';
import type { ForwardProxy } from './forward-proxy.ts';
import { type Access, networkEnvironment } from './git-environment.ts';

/** A repository elsewhere, as Git reaches it. */
export interface Remote extends Access {
  /** An address, or an absolute path. */
  readonly source: string;
  /** What connections to it are made through. */
  readonly proxy: ForwardProxy;
}

/** What is wrong with a repository elsewhere. */
export type RemoteTrouble = 'credentials' | 'too-large' | 'unreachable' | 'unsupported';

/** A repository elsewhere that cannot be read. */
export class RemoteError extends MirrorError {
  readonly trouble: RemoteTrouble;
  /** What only the operator may know, besides; null where there is nothing. */
  readonly inside: string | null;

  constructor(trouble: RemoteTrouble, message: string, hint: string, inside: string | null = null) {
    super(trouble === 'credentials' ? 'credentials.refused' : 'service.failed', message, { hint });
    this.trouble = trouble;
    this.inside = inside;
  }
}

/** A repository elsewhere that would take more room than one may. */
export class OversizeError extends RemoteError {
  /** @param maxBytes what it may take */
  constructor(maxBytes: number) {
    super(
      'too-large',
      `the repository would take more than ${formatSize(maxBytes)} on disk, which is the most that one may`,
      'Raise serve.maxRepositorySize if it is meant to be that large.',
    );
  }
}

/** Whether a repository elsewhere takes more than this machine gives for it, whenever it is read. */
export function isTooLarge(error: unknown): error is RemoteError {
  return error instanceof RemoteError && error.trouble === 'too-large';
}

/** What the user can do about each. */
export const REMOTE_HINTS: Readonly<Record<RemoteTrouble, string>> = {
  credentials: 'Check user name and password, and that they may read the repository.',
  'too-large': 'It has one very large object, or very many objects or references: check that they are meant.',
  unreachable: "Check the address, and that the service's machine reaches it.",
  unsupported: 'Convert the repository to SHA-1, the format whose ids have 40 digits.',
};

/** Git's words for a user name or password that is wrong or missing (LC_ALL=C; git 2.39 to 2.51). */
const REFUSAL =
  /Authentication failed|could not read (?:Username|Password)|requested URL returned error: 40[13]\b|HTTP 40[13]\b/;

/** Says what git's complaint is about. */
export function troubleOf(complaint: string): RemoteTrouble {
  return REFUSAL.test(complaint) ? 'credentials' : 'unreachable';
}

const GIVE_CREDENTIALS = 'Give both, of somebody who may read the repository.';
const UNSHOWN = 'what was said is not shown, as the credentials may stand in it';
const INCOMPLETE = 'The file of its credentials must hold username=… and password=…, a line each.';

/**
 * Says what a git program that failed to read a repository elsewhere complained of. Servers may send back what they were sent:
 * secrets are looked for in what git says, and where they cannot be told from other words it is not repeated.
 */
export function describeComplaint(said: string, known: CredentialSecrets): RemoteError {
  const trouble = troubleOf(said);
  if (lacksCredentials(said) && known.isComplete)
    return new RemoteError(trouble, 'the Git server asks for a user name and password', GIVE_CREDENTIALS);
  if (lacksMemory(said)) {
    const message = 'the repository cannot be read: that takes more memory than git is given for it';
    return new RemoteError('too-large', message, REMOTE_HINTS['too-large']);
  }
  const complaint = known.areEnough ? reasonIn(scrub(said, known.secrets)) : UNSHOWN;
  const what =
    trouble === 'credentials' ? 'the repository asks for other credentials' : 'the repository cannot be read';
  return new RemoteError(
    trouble,
    `${what}: ${complaint}`,
    known.isComplete ? REMOTE_HINTS[trouble] : INCOMPLETE,
  );
}

function boundError({ bound }: GitBoundError, { limitMs = 0, maxOutputBytes = 0 }: GitBounds): RemoteError {
  const message =
    bound === 'time'
      ? `the repository did not answer within ${limitMs / 1000} seconds`
      : `the repository has more references than fit into ${maxOutputBytes / 1024 ** 2} MiB`;
  return new RemoteError('unreachable', message, REMOTE_HINTS.unreachable);
}

/**
 * The one answer where no connection is made, whatever the reason: by what is refused, does not answer or has no name, a client could
 * tell what there is in a network that is closed to it.
 */
function unconnected(why: string): RemoteError {
  const message = 'the repository cannot be read: no connection to its server can be made';
  return new RemoteError('unreachable', message, REMOTE_HINTS.unreachable, why);
}

/** How much of what comes from elsewhere there is room for. */
export interface Room {
  /** What the repository may take in all, in bytes. */
  readonly maxBytes: number;
  /** What is left of that. */
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
    const output = await git.run(gitDirectory, args, { ...boundsOf(options), environment, isLong: true });
    return output.toString('utf8');
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
