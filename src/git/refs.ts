import type { Git } from './git.ts';

/** The branches of a repository at one moment. */
export interface Branches {
  /** The branch that is given when a request names none: what HEAD names, whether it exists or not. */
  readonly defaultBranch: string | null;
  /** Commit id of every branch by branch name. */
  readonly heads: ReadonlyMap<string, string>;
}

const BRANCH_PREFIX = 'refs/heads/';

/**
 * Reads the output of `for-each-ref` in the format of {@link readHeads}.
 * @param output lines of commit id, space, full reference name; Git allows neither space nor line feed in a name
 */
export function parseHeads(output: string): Map<string, string> {
  const heads = new Map<string, string>();
  for (const line of output.split('\n')) {
    const space = line.indexOf(' ');
    if (space === -1) continue;
    heads.set(line.slice(space + 1 + BRANCH_PREFIX.length), line.slice(0, space));
  }
  return heads;
}

/** Reads the commit id of every branch of a bare repository, by branch name. */
export async function readHeads(git: Git, gitDirectory: string): Promise<Map<string, string>> {
  const args = ['for-each-ref', '--format=%(objectname) %(refname)', BRANCH_PREFIX];
  return parseHeads((await git.run(gitDirectory, args)).toString('utf8'));
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

async function readDefaultBranch(git: Git, gitDirectory: string): Promise<string | null> {
  // It ends with 1 where HEAD names a commit instead of a branch.
  const output = await git.run(gitDirectory, ['symbolic-ref', '--quiet', 'HEAD'], { alsoFine: 1 });
  const name = output.toString('utf8').trim();
  return name.startsWith(BRANCH_PREFIX) ? name.slice(BRANCH_PREFIX.length) : null;
}
