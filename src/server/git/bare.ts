import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { syncDirectory } from '../../lib/disk/durable.ts';
import { systemCode } from '../../lib/errors/disk-errors.ts';
import { type Git, settingArguments } from './git.ts';

/**
 * Attributes that override every .gitattributes in a tree, so that archives hold the committed bytes: nothing left out
 * (export-ignore), nothing filled in (export-subst, ident), nothing converted (text, eol, crlf, filter, encoding).
 * `working-tree-encoding` must be unspecified: git refuses it when it is only switched off.
 */
const EXACT_ATTRIBUTES =
  '* -text -crlf -eol -ident -filter !working-tree-encoding -export-ignore -export-subst\n';

/** Makes an empty bare repository at a path that does not exist yet. */
export async function initialise(git: Git, gitDirectory: string): Promise<void> {
  // No template: a machine's own may bring hooks.
  await git.run(null, ['init', '--quiet', '--bare', '--template=', '--initial-branch=main', gitDirectory]);
  await keepExact(gitDirectory);
}

/**
 * Writes the attributes that make archives exact, unless they are there already.
 * @throws Error `ENOENT` for a missing repository: a folder with only this file would not be one
 */
export async function keepExact(gitDirectory: string): Promise<void> {
  const folder = join(gitDirectory, 'info');
  const path = join(folder, 'attributes');
  const present = await readFile(path, 'utf8').catch(() => null);
  if (present === EXACT_ATTRIBUTES) return;
  await mkdir(folder).catch((error: unknown) => {
    if (systemCode(error) !== 'EEXIST') throw error;
  });
  await writeFile(path, EXACT_ATTRIBUTES, { flush: true });
  await syncDirectory(folder);
}

/** Names of unfinished files; no reference has the ending of the first kind (git-check-ref-format(1)). */
const UNFINISHED = /\.lock$|^objects\/(?:.*\/)?(?:tmp_|\.tmp-)[^/]*$/;

/**
 * Removes the leftovers of killed git programs: locks of references, which would block every change of
 * them, locks of object lists, and parts of downloads, pushes and packs. Call it only while nothing else uses the repository.
 */
export async function clearAway(gitDirectory: string): Promise<void> {
  const names = await readdir(gitDirectory, { recursive: true }).catch(() => []);
  for (const name of names.filter((each) => UNFINISHED.test(each)))
    await rm(join(gitDirectory, name), { recursive: true, force: true });
}

/**
 * Packs a repository that has grown: every fetch and push leaves a pack, and every upload single objects. Git allows reading and
 * writing at the same time, and packs a repository in one process only. Unreachable objects stay for two weeks: an upload may still
 * become a commit. A failed run loses nothing, and is repeated after the next change.
 */
export async function packGrown(git: Git, gitDirectory: string): Promise<void> {
  const args = [...settingArguments('gc.autoDetach=false'), 'gc', '--auto', '--quiet'];
  await git.run(gitDirectory, args, { isLong: true }).catch(() => undefined);
}
