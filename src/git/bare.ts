import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';

import type { Git } from './git.ts';

/**
 * Attributes that win over every .gitattributes in a tree, so that archives hold the committed bytes: nothing left out
 * (export-ignore), nothing filled in (export-subst, ident), nothing converted (text, eol, crlf, filter, encoding).
 * `working-tree-encoding` must be unspecified: git refuses it as merely switched off.
 */
const EXACT_ATTRIBUTES =
  '* -text -crlf -eol -ident -filter !working-tree-encoding -export-ignore -export-subst\n';

/** The branch of a new repository that nothing was committed to yet. */
const INITIAL_BRANCH = 'main';

/** Makes an empty bare repository at a path that does not exist yet. */
export async function initialise(git: Git, gitDirectory: string): Promise<void> {
  // No template: a machine's own may bring hooks.
  await git.run(null, [
    'init',
    '--quiet',
    '--bare',
    '--template=',
    `--initial-branch=${INITIAL_BRANCH}`,
    gitDirectory,
  ]);
  await keepExact(gitDirectory);
}

/** Writes the attributes that make archives exact, unless they are there already. */
export async function keepExact(gitDirectory: string): Promise<void> {
  const path = join(gitDirectory, 'info', 'attributes');
  const present = await readFile(path, 'utf8').catch(() => null);
  if (present === EXACT_ATTRIBUTES) return;
  await mkdir(join(gitDirectory, 'info'), { recursive: true });
  await writeFile(path, EXACT_ATTRIBUTES);
}

/**
 * Removes what git programs leave behind that were ended without warning: locks of references, which would stop every change of
 * them, and parts of downloads. To be called while nothing works on the repository.
 */
export async function clearAway(gitDirectory: string): Promise<void> {
  const below = async (folder: string): Promise<string[]> =>
    (await readdir(join(gitDirectory, folder), { recursive: true }).catch(() => [])).map((name) =>
      join(folder, name),
    );
  const names = [...(await readdir(gitDirectory).catch(() => [])), ...(await below('refs'))];
  // No reference ends so (git-check-ref-format(1)).
  const locks = names.filter((name) => name.endsWith('.lock'));
  const parts = (await below('objects/pack')).filter((name) => basename(name).startsWith('tmp_'));
  await Promise.all([...locks, ...parts].map((name) => rm(join(gitDirectory, name), { force: true })));
}
