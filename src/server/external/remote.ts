import { MirrorError } from '../../lib/errors/errors.ts';
import { formatSize } from '../../lib/text/units.ts';
import { readAddress, type Sources } from '../git/addresses.ts';
import type { Git } from '../git/git.ts';
import { readDefaultBranch, settleDefaultBranch } from '../git/refs.ts';
import type { RegisteredRepository } from '../git/repository-index.ts';
import { RemoteError } from './errors.ts';
import { reach, type Remote } from './reach.ts';

/**
 * Decides how a repository is reached. An address from a client must fit the current setting, even if an earlier setting allowed it.
 * @throws RemoteError when its address is not allowed
 */
export function remoteOf(
  { url, source }: Pick<RegisteredRepository, 'url' | 'source'>,
  sources: Sources,
  credentialFile: string,
): Remote {
  const from = source ?? '';
  // A source with another address is the path of a sample.
  if (source !== url) return { source: from, protocol: 'file', credentialFile };
  try {
    return { source: from, protocol: readAddress(from, sources).protocol, credentialFile };
  } catch {
    const message = 'the setting serve.sources does not allow this address';
    throw new RemoteError('unsupported', message, 'To allow such addresses, set serve.sources to any.');
  }
}

/** The references that the service has, and their patterns. */
const PREFIXES = ['refs/heads/', 'refs/tags/'];
const PATTERNS = PREFIXES.map((prefix) => `${prefix}*`);
const REFSPECS = PATTERNS.map((pattern) => `+${pattern}:${pattern}`);

/** Timeout for a server's list of references, in milliseconds. */
const COMPARISON_LIMIT_MS = 60_000;

/**
 * Reads the output of `git ls-remote --symref`: lines of id, tab, name, and one of `ref: `, name, tab, `HEAD`.
 * @returns the lines of branches and tags, sorted, and the full name of the default branch; null where HEAD names none that exists
 */
export function parseReferences(output: string) {
  const [, head = ''] = /^ref: (refs\/heads\/[^\n]+)\tHEAD$/m.exec(output) ?? [];
  // Lines that end with `^{}` name the object that a tag points to. Symbolic branches have a line of `ref: ` besides the one of their id.
  const isReference = (line: string): boolean => /^[^ \t]+\trefs\/(?:heads|tags)\/.*(?<!\^\{\})$/s.test(line);
  const lines = output.split('\n').filter(isReference).sort();
  return { lines, head: lines.some((line) => line.endsWith(`\t${head}`)) ? head : null };
}

/**
 * Asks a repository elsewhere for its branches and tags.
 * @param limitMs how long the answer may take, in milliseconds
 * @throws RemoteError when it cannot be read
 */
export async function askRemote(git: Git, remote: Remote, limitMs: number = COMPARISON_LIMIT_MS) {
  const args = ['ls-remote', '--symref', '--', remote.source, 'HEAD', ...PATTERNS];
  const references = parseReferences(await reach(git, remote, null, args, limitMs));
  // The service's versions have ids of 40 digits (service specification, section 2.3).
  if (references.lines.some((line) => line.indexOf('\t') !== 40))
    throw new RemoteError('unsupported', 'the repository keeps its objects by SHA-256');
  return references;
}

async function ownReferences(git: Git, gitDirectory: string) {
  const args = ['for-each-ref', '--format=%(objectname)%09%(refname)', ...PREFIXES];
  const [output, branch] = await Promise.all([git.text(gitDirectory, args), readDefaultBranch(gitDirectory)]);
  return parseReferences(`ref: refs/heads/${branch ?? ''}\tHEAD\n${output}`);
}

/** Git's words when one of two names is a folder of the other (LC_ALL=C; git 2.39 to 2.51). */
const NAME_IN_THE_WAY = /cannot lock ref/;

/** Without `--update-shallow`, Git skips the branches of a shallow repository, and reports success. */
const FETCH = ['fetch', '--quiet', '--prune', '--no-tags', '--update-shallow', '--no-write-fetch-head'];

/** Fetches branches and tags, and removes those that are gone; a failure changes none of them. */
async function fetchReferences(git: Git, remote: Remote, gitDirectory: string): Promise<void> {
  const fetch = (...more: readonly string[]): Promise<string> =>
    reach(git, remote, gitDirectory, [...FETCH, ...more, '--', remote.source, ...REFSPECS]);
  try {
    await fetch('--atomic');
  } catch (error) {
    if (!(error instanceof MirrorError && NAME_IN_THE_WAY.test(error.message))) throw error;
    // A branch `a` cannot become `a/b` in one step: prune first.
    await fetch();
  }
}

/** @throws RemoteError if the objects of a repository exceed the limit on disk */
async function checkSize(git: Git, gitDirectory: string, maxBytes: number): Promise<void> {
  const counted = await git.text(gitDirectory, ['count-objects', '-v']);
  const sizesKib = [...counted.matchAll(/^size(?:-pack|-garbage)?: (\d+)$/gm)].map(([, kib]) => Number(kib));
  if (sizesKib.reduce((sum, kib) => sum + kib, 0) * 1024 <= maxBytes) return;
  const message = `the repository takes more than ${formatSize(maxBytes)} on disk, which is the limit`;
  throw new RemoteError('too_large', message);
}

/**
 * Updates a bare repository from another one: branches, tags and default branch. If that
 * cannot be read, nothing changes.
 * @param maxBytes limit for all objects of the repository on disk, in bytes
 * @param onChange called when there is something to fetch
 * @returns whether anything was different
 * @throws RemoteError when the other one cannot be read or is too large, MirrorError `service.failed` when git fails here
 */
export async function pull(
  git: Git,
  remote: Remote,
  gitDirectory: string,
  maxBytes: number,
  onChange: () => void,
): Promise<boolean> {
  const { lines, head } = await askRemote(git, remote);
  const own = await ownReferences(git, gitDirectory);
  const isHeadOther = head !== null && head !== own.head;
  if (own.lines.join('\n') === lines.join('\n') && !isHeadOther) return false;
  // Git takes an empty answer of a server in trouble for a repository without branches.
  if (lines.length === 0) throw new RemoteError('unreachable', 'it shows no branches any more');
  onChange();
  await checkSize(git, gitDirectory, maxBytes);
  await fetchReferences(git, remote, gitDirectory);
  if (isHeadOther) await git.run(gitDirectory, ['symbolic-ref', 'HEAD', head]);
  await settleDefaultBranch(git, gitDirectory);
  await checkSize(git, gitDirectory, maxBytes);
  return true;
}
