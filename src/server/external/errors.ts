import { MirrorError } from '../../lib/errors/errors.ts';
import { scrub, SHORTEST_SECRET } from '../../lib/text/scrub.ts';

/** Why a repository elsewhere cannot be read; the code of the API's error. */
export type RemoteTrouble = 'credentials_refused' | 'too_large' | 'unreachable' | 'unsupported';

const HINTS: Readonly<Record<RemoteTrouble, string>> = {
  credentials_refused: 'Give the user name and password of a user who may read the repository.',
  too_large: 'Connect a smaller repository: this limit is fixed.',
  unreachable: "Check the address, and that the service's machine reaches it.",
  unsupported: 'Convert the repository to SHA-1, the format whose ids have 40 digits.',
};

/** A repository elsewhere that cannot be read. */
export class RemoteError extends MirrorError {
  readonly trouble: RemoteTrouble;

  constructor(trouble: RemoteTrouble, message: string, hint: string = HINTS[trouble]) {
    super(trouble === 'credentials_refused' ? 'credentials.refused' : 'service.failed', message, { hint });
    this.trouble = trouble;
  }
}

/** Git's words for a user name or password that is missing or wrong (LC_ALL=C; git 2.39 to 2.51). */
const REFUSAL =
  /could not read (?:Username|Password)|Authentication failed|requested URL returned error: 40[13]\b|HTTP 40[13]\b/;

/**
 * Says why git could not read a repository elsewhere. A server may echo what it received, so secrets are masked. If a secret is
 * too short to mask, git's words are not shown.
 * @param said the message of the failed git program
 * @param secrets the texts to mask
 */
export function describeComplaint(said: string, secrets: readonly string[]): RemoteError {
  const reason = secrets.some(({ length }) => length < SHORTEST_SECRET)
    ? 'the words of git are not shown, as the password is too short to be masked in them'
    : reasonIn(scrub(said, secrets));
  return REFUSAL.test(said)
    ? new RemoteError(
        'credentials_refused',
        `the Git server asks for a valid user name and password: ${reason}`,
      )
    : new RemoteError('unreachable', `the repository cannot be read: ${reason}`);
}

/** Prefix of the lines in which git says why it failed. */
const ENDING = /^(?:fatal|error): /;
/** Git ends every failure to reach a repository with these words, whatever the reason. */
const GENERIC =
  /^(?:fatal: )?(?:Could not read from remote repository|Please make sure you have|and the repository exists)/;

/**
 * The reason in the output of a failed git program, in one line: the first line that says why it failed, else the first one.
 * @param said lines, or parts joined by semicolons, after the program's name and how it ended
 */
export function reasonIn(said: string): string {
  const lines = said
    .replace(/^git \S+ (?:ended with \d+|was ended early)(?:: )?/, '')
    .split(/\s*[;\n]\s+|\n/)
    .filter((line) => line.trim() !== '' && !GENERIC.test(line));
  const reason = lines.find((line) => ENDING.test(line)) ?? lines[0] ?? 'git gives no reason';
  return reason
    .replace(/^(?:fatal|error|remote|warning): /, '')
    .replaceAll(/\p{Cc}/gu, ' ')
    .trim();
}
