import { isAbsolute } from 'node:path';

import { MirrorError } from '../model/errors.ts';
import { scrub } from '../model/scrub.ts';
import { readAddress, type Sources } from './addresses.ts';
import { secretsIn } from './credentials.ts';
import type { Git } from './git.ts';
import { type Access, networkEnvironment } from './git-environment.ts';
import type { RegisteredRepository } from './registry-index.ts';
import {
  isInStep,
  parseOwnReferences,
  parseRemoteReferences,
  planReferences,
  type ReferencePlan,
  type References,
} from './remote-refs.ts';

/** A repository elsewhere, as Git reaches it. */
export interface Remote extends Access {
  /** An address, or an absolute path. */
  readonly source: string;
}

/** What is wrong with a repository elsewhere. */
export type RemoteTrouble = 'credentials' | 'unreachable' | 'unsupported';

/** A repository elsewhere that cannot be read. */
export class RemoteError extends MirrorError {
  readonly trouble: RemoteTrouble;

  constructor(trouble: RemoteTrouble, message: string, hint: string) {
    super(trouble === 'credentials' ? 'credentials.refused' : 'service.failed', message, { hint });
    this.trouble = trouble;
  }
}

/**
 * Says how a repository is reached. What a client named is held to the setting, also when that was another one at the time; a
 * source beside the address was chosen by the service itself.
 * @throws RemoteError when its address is not allowed
 */
export function remoteOf(
  { url, source }: Pick<RegisteredRepository, 'url' | 'source'>,
  sources: Sources,
  credentialFile: string | null,
): Remote {
  const from = source ?? '';
  if (source !== url && isAbsolute(from)) {
    return { source: from, protocol: 'file', origin: null, credentialFile: null };
  }
  const reading = readAddress(from, source === url ? sources : 'any');
  if (reading.kind === 'refused') {
    const message = 'the address is not one of those that the setting serve.sources allows';
    throw new RemoteError('unsupported', message, 'Set serve.sources to any, if such addresses are meant.');
  }
  const { protocol, origin } = reading.address;
  return { source: from, protocol, origin, credentialFile };
}

/** How long a server may think about which references it has, in milliseconds. */
const COMPARISON_LIMIT_MS = 60_000;

/** A reference that moves between two looks at it makes a fetch fail; one that moves so often in a row is bad luck. */
const ATTEMPTS = 3;

const HINTS: Readonly<Record<RemoteTrouble, string>> = {
  credentials: 'Check user name and password, and that they may read the repository.',
  unreachable: 'Check the address, and that this machine reaches it.',
  unsupported: 'Convert the repository to SHA-1, the format whose ids have 40 digits.',
};

/** Git's words for a user name or password that is wrong or missing (LC_ALL=C; git 2.39 to 2.51). */
const REFUSAL =
  /Authentication failed|could not read (?:Username|Password)|requested URL returned error: 40[13]\b|HTTP 40[13]\b/;

/** Says what git's complaint is about. */
export function troubleOf(complaint: string): RemoteTrouble {
  return REFUSAL.test(complaint) ? 'credentials' : 'unreachable';
}

/**
 * The error for a git program that failed to read a repository elsewhere. Servers may send back what they were sent, so that
 * secrets are looked for in what git says.
 */
function remoteError(error: unknown, secrets: readonly string[], timedOutMs: number | null): unknown {
  if (timedOutMs !== null) {
    const message = `the repository did not answer within ${timedOutMs / 1000} seconds`;
    return new RemoteError('unreachable', message, HINTS.unreachable);
  }
  if (!(error instanceof MirrorError)) return error;
  const complaint = scrub(error.message, secrets)
    .replace(/^git \S+ ended with \d+: (?:fatal: )?/, '')
    .replaceAll(/\p{Cc}/gu, ' ');
  const trouble = troubleOf(complaint);
  const message =
    trouble === 'credentials'
      ? `the repository asks for other credentials: ${complaint}`
      : `the repository cannot be read: ${complaint}`;
  return new RemoteError(trouble, message, HINTS[trouble]);
}

/** Runs git on a repository elsewhere. @throws RemoteError */
async function reach(
  git: Git,
  remote: Remote,
  gitDirectory: string | null,
  args: readonly string[],
  options: { readonly input?: string; readonly limitMs?: number } = {},
): Promise<string> {
  const { input, limitMs } = options;
  const signal = limitMs === undefined ? undefined : AbortSignal.timeout(limitMs);
  try {
    const output = await git.run(gitDirectory, args, {
      environment: networkEnvironment(remote),
      ...(input === undefined ? {} : { input }),
      ...(signal === undefined ? {} : { signal }),
    });
    return output.toString('utf8');
  } catch (error) {
    const timedOutMs = signal?.aborted === true ? (limitMs ?? 0) : null;
    throw remoteError(error, await secretsIn(remote.credentialFile), timedOutMs);
  }
}

/**
 * Asks a repository elsewhere for its references.
 * @param limitMs how long the answer may take, in milliseconds
 * @throws RemoteError when it cannot be read
 */
export async function askRemote(
  git: Git,
  remote: Remote,
  limitMs: number = COMPARISON_LIMIT_MS,
): Promise<References> {
  const args = ['ls-remote', '--symref', '--', remote.source];
  const references = parseRemoteReferences(await reach(git, remote, null, args, { limitMs }));
  if ([...references.ids.values()].some((id) => id.length !== 40)) {
    // The service's versions have ids of 40 digits (service specification, section 2.3).
    throw new RemoteError('unsupported', 'the repository keeps its objects by SHA-256', HINTS.unsupported);
  }
  return references;
}

async function ownReferences(git: Git, gitDirectory: string): Promise<References> {
  const [ids, head] = await Promise.all([
    git.run(gitDirectory, ['for-each-ref', '--format=%(objectname) %(refname)']),
    // It ends with 1 where HEAD names a commit instead of a branch.
    git.run(gitDirectory, ['symbolic-ref', '--quiet', 'HEAD'], { alsoFine: 1 }),
  ]);
  const name = head.toString('utf8').trim();
  return { ids: parseOwnReferences(ids.toString('utf8')), head: name === '' ? null : name };
}

/** Changes references, all of them or none. */
async function change(git: Git, gitDirectory: string, commands: readonly string[]): Promise<void> {
  if (commands.length === 0) return;
  await git.run(gitDirectory, ['update-ref', '--no-deref', '--stdin'], { input: `${commands.join('\n')}\n` });
}

/** Fetches objects without a change to any reference. */
async function download(
  git: Git,
  remote: Remote,
  gitDirectory: string,
  names: readonly string[],
): Promise<void> {
  if (names.length === 0) return;
  const args = ['fetch', '--quiet', '--no-tags', '--no-write-fetch-head', '--stdin', '--', remote.source];
  await reach(git, remote, gitDirectory, args, { input: `${names.join('\n')}\n` });
}

async function apply(
  git: Git,
  gitDirectory: string,
  { clearings, updates, head, removals }: ReferencePlan,
): Promise<void> {
  await change(git, gitDirectory, clearings);
  await change(git, gitDirectory, updates);
  if (head !== null) await git.run(gitDirectory, ['symbolic-ref', 'HEAD', head]);
  await change(git, gitDirectory, removals);
}

/**
 * Brings a bare repository to what another one holds now: all its references, and its choice of a default branch. One that
 * cannot be read changes nothing.
 * @param onChange called when it turns out that there is something to fetch
 * @returns whether anything was different
 * @throws RemoteError when the other one cannot be read, MirrorError `service.failed` when git fails here
 */
export async function pull(
  git: Git,
  remote: Remote,
  gitDirectory: string,
  onChange: () => void = () => {},
): Promise<boolean> {
  for (let attempt = 1; ; attempt += 1) {
    const theirs = await askRemote(git, remote);
    const plan = planReferences(await ownReferences(git, gitDirectory), theirs);
    if (isInStep(plan)) return attempt > 1;
    onChange();
    await download(git, remote, gitDirectory, plan.wanted);
    try {
      await apply(git, gitDirectory, plan);
      return true;
    } catch (error) {
      // What they had a moment ago may have been replaced before it was fetched.
      if (attempt === ATTEMPTS) throw error;
    }
  }
}
