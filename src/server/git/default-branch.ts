import { access, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Git } from './git.ts';
import { type Branches, readBranches } from './refs.ts';

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
