import { MirrorError } from '../../lib/errors/errors.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { formatSize } from '../../lib/text/units.ts';
import type { CredentialSecrets } from './credentials.ts';
import type { GitBoundError, GitBounds } from '../git/git.ts';

export type RemoteTrouble = 'credentials' | 'too-large' | 'unreachable' | 'unsupported';

/** A repository elsewhere that cannot be read. */
export class RemoteError extends MirrorError {
  readonly trouble: RemoteTrouble;
  /** Details for the operator only; null where there are none. */
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
      'Connect a smaller repository: this limit is fixed.',
    );
  }
}

/** Whether a repository elsewhere takes more than this machine gives for it, whenever it is read. */
export function isTooLarge(error: unknown): error is RemoteError {
  return error instanceof RemoteError && error.trouble === 'too-large';
}

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

/** The error for a git program that was ended at one of its bounds. */
export function boundError(
  { bound }: GitBoundError,
  { limitMs = 0, maxOutputBytes = 0 }: GitBounds,
): RemoteError {
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
export function unconnected(why: string): RemoteError {
  const message = 'the repository cannot be read: no connection to its server can be made';
  return new RemoteError('unreachable', message, REMOTE_HINTS.unreachable, why);
}

/** Git ends every failure to reach a repository with these words, whatever the reason. */
const GENERIC =
  /^(?:Could not read from remote repository|Please make sure you have|and the repository exists)/;

/** Begins the lines in which git says why it ends (LC_ALL=C). */
const ENDING = /^(?:fatal|error): /;

/** Git's words where it has no user name or password to send (LC_ALL=C; git 2.39 to 2.51). */
const UNASKED = /could not read (?:Username|Password)/;

/** Whether a server asked for a user name and password, and there was none. */
export function lacksCredentials(said: string): boolean {
  return UNASKED.test(said);
}

/**
 * The reason in what a git program said that failed, in one line: the first one that says why it ends, else the first one.
 * @param said lines, also joined by semicolons, behind the program's name and how it ended
 */
export function reasonIn(said: string): string {
  const lines = said
    .replace(/^git \S+ (?:ended with \d+|was ended early)(?:: )?/, '')
    .split(/\s*[;\n]\s+|\n/)
    .filter((line) => line.trim() !== '' && !GENERIC.test(line.replace(ENDING, '')));
  const reason = lines.find((line) => ENDING.test(line)) ?? lines[0] ?? 'git gives no reason';
  return reason
    .replace(/^(?:fatal|error|remote|warning): /, '')
    .replaceAll(/\p{Cc}/gu, ' ')
    .trim();
}

/** The system's words where a program wants more than its bound lets it have (strerror(3), LC_ALL=C), in those of git. */
const OUT_OF_MEMORY = /out of memory|cannot allocate memory/i;
const FILE_TOO_LARGE = /File too large/;

/** Whether git ended because it may take no more memory; `said` as for {@link reasonIn}, so that a server's own words do not count. */
function lacksMemory(said: string): boolean {
  return OUT_OF_MEMORY.test(reasonIn(said));
}

/** Whether git ended because a file may not become larger. */
export function lacksRoom(said: string): boolean {
  return FILE_TOO_LARGE.test(said);
}
