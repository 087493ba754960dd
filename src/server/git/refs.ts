import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Git } from './git.ts';

/** Commit id of every branch by branch name. */
export type Heads = ReadonlyMap<string, string>;

/** The branches of a repository at one moment. */
export interface Branches {
  /** The branch for requests that name none: HEAD's branch, whether it exists or not. */
  readonly defaultBranch: string | null;
  readonly heads: Heads;
}

/**
 * Reads the commit id of every branch of a bare repository. Git only warns of a damaged one, and leaves it out: it would seem deleted.
 * @throws MirrorError `service.failed` when git cannot read all of them
 */
export async function readHeads(git: Git, gitDirectory: string): Promise<Heads> {
  const args = ['for-each-ref', '--format=%(objectname) %(refname:lstrip=2)', 'refs/heads/'];
  const lines = (await git.text(gitDirectory, args, { failsOnWarning: true })).matchAll(/^(\w+) ([^\n]+)$/gm);
  return new Map([...lines].map(([, id = '', name = '']) => [name, id]));
}

/**
 * Reads the branches of a bare repository. A branch that a request names is looked up in the result and never handed to
 * git, so that no name can be mistaken for an option or for an expression such as `main~1`.
 */
export async function readBranches(git: Git, gitDirectory: string): Promise<Branches> {
  return { defaultBranch: await readDefaultBranch(gitDirectory), heads: await readHeads(git, gitDirectory) };
}

/** Reads which branch HEAD names (gitrepository-layout(5)), whether it exists or not; null where it names a commit. */
export async function readDefaultBranch(gitDirectory: string): Promise<string | null> {
  // Git also fails on an unreadable file, with a better message.
  const head = await readFile(join(gitDirectory, 'HEAD'), 'utf8').catch(() => '');
  return /^ref: refs\/heads\/(.+)\n$/.exec(head)?.[1] ?? null;
}

/**
 * Chooses a new default branch if the present one does not exist: the usual one, or the first.
 * @returns null if nothing needs to change
 */
export function chooseDefaultBranch({ defaultBranch, heads }: Branches): string | null {
  if (defaultBranch !== null && heads.has(defaultBranch)) return null;
  return ['main', 'master', ...[...heads.keys()].sort()].find((name) => heads.has(name)) ?? null;
}

/**
 * Points a bare repository's HEAD at an existing branch, if there is any: the first branch pushed to an empty
 * repository may have another name than its HEAD.
 * @throws MirrorError `service.failed` when git cannot
 */
export async function settleDefaultBranch(git: Git, gitDirectory: string): Promise<void> {
  const branch = chooseDefaultBranch(await readBranches(git, gitDirectory));
  if (branch !== null) await git.run(gitDirectory, ['symbolic-ref', 'HEAD', `refs/heads/${branch}`]);
}
