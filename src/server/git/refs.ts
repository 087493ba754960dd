import { access, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Git } from './git.ts';

/** The branches of a repository at one moment. */
export interface Branches {
  /** The branch that is given when a request names none: what HEAD names, whether it exists or not. */
  readonly defaultBranch: string | null;
  /** Commit id of every branch by branch name. */
  readonly heads: ReadonlyMap<string, string>;
}

export interface HeadsRead {
  /** Commit id of every branch by branch name. */
  readonly heads: ReadonlyMap<string, string>;
  /** Whether some branch stands for a reference that is none, so that it moves when no branch is written. */
  readonly dependOnOthers: boolean;
}

const BRANCH_PREFIX = 'refs/heads/';
const FORMAT = '--format=%(objectname) %(refname) %(symref)';

/**
 * Reads the output of `for-each-ref` in the format of {@link readHeads}.
 * @param output lines of commit id, full reference name and the reference it stands for, if it does, each followed by a
 *   space; Git allows neither space nor line feed in a name
 */
export function parseHeads(output: string): HeadsRead {
  const heads = new Map<string, string>();
  let dependOnOthers = false;
  for (const line of output.split('\n')) {
    const [id, name, target] = line.split(' ');
    if (id === undefined || name === undefined) continue;
    heads.set(name.slice(BRANCH_PREFIX.length), id);
    if (target !== undefined && target !== '' && !target.startsWith(BRANCH_PREFIX)) dependOnOthers = true;
  }
  return { heads, dependOnOthers };
}

/** Reads the commit id of every branch of a bare repository, and whether the branches alone decide about them. */
export async function readHeadsWhole(git: Git, gitDirectory: string): Promise<HeadsRead> {
  return parseHeads(await git.text(gitDirectory, ['for-each-ref', FORMAT, BRANCH_PREFIX]));
}

/** Reads the commit id of every branch of a bare repository, by branch name. */
export async function readHeads(git: Git, gitDirectory: string): Promise<ReadonlyMap<string, string>> {
  return (await readHeadsWhole(git, gitDirectory)).heads;
}

/**
 * Reads the branches of a bare repository. A branch that a request names is looked up in the result and never handed to
 * git, so that no name can be taken for an option or for an expression such as `main~1`.
 */
export async function readBranches(git: Git, gitDirectory: string): Promise<Branches> {
  const [heads, defaultBranch] = await Promise.all([
    readHeads(git, gitDirectory),
    readDefaultBranch(git, gitDirectory),
  ]);
  return { defaultBranch, heads };
}

/** Reads which branch HEAD names, whether it exists or not; null where it names a commit. */
export async function readDefaultBranch(git: Git, gitDirectory: string): Promise<string | null> {
  // It ends with 1 where HEAD names a commit instead of a branch.
  const name = await git.text(gitDirectory, ['symbolic-ref', '--quiet', 'HEAD'], { alsoFine: 1 });
  return name.startsWith(BRANCH_PREFIX) ? name.slice(BRANCH_PREFIX.length) : null;
}

/** Names that are preferred where several branches could be the default, best first. */
const USUAL_NAMES: readonly string[] = ['main', 'master'];

/**
 * Chooses the branch that a repository gives when a request names none, where the present one does not exist.
 * @returns null when nothing is to be changed
 */
export function chooseDefaultBranch({ defaultBranch, heads }: Branches): string | null {
  if (heads.size === 0 || (defaultBranch !== null && heads.has(defaultBranch))) return null;
  return USUAL_NAMES.find((name) => heads.has(name)) ?? [...heads.keys()].sort()[0] ?? null;
}

/**
 * Lets a bare repository's HEAD name a branch that exists, if there is any: the first branch that comes into an empty
 * repository may have another name than the repository was made with.
 * @throws MirrorError `service.failed` when git cannot
 */
export async function settleDefaultBranch(git: Git, gitDirectory: string): Promise<void> {
  const branch = chooseDefaultBranch(await readBranches(git, gitDirectory));
  if (branch !== null) await git.run(gitDirectory, ['symbolic-ref', 'HEAD', `refs/heads/${branch}`]);
}

/**
 * As {@link settleDefaultBranch}, for when the service starts: a crash may have come between a push and what follows on it. Asks git
 * only where the branch is not there as a file, so that many repositories do not take long.
 * @throws Error `ENOENT` for a repository that is not there, MirrorError `service.failed` when git cannot
 */
export async function settleAfterCrash(git: Git, gitDirectory: string): Promise<void> {
  const head = await readFile(join(gitDirectory, 'HEAD'), 'utf8');
  const [, branch = ''] = /^ref: (refs\/heads\/.+)\n$/.exec(head) ?? [];
  if (branch !== '' && (await isThere(join(gitDirectory, branch)))) return;
  await settleDefaultBranch(git, gitDirectory);
}

function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
