import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { MirrorError } from '../model/errors.ts';
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

/**
 * Makes a bare mirror of another repository at a path that does not exist yet.
 * @throws MirrorError `usage.invalid` when the other repository cannot be cloned
 */
export async function mirror(git: Git, source: string, gitDirectory: string): Promise<void> {
  try {
    await git.run(null, ['clone', '--quiet', '--mirror', '--template=', '--', source, gitDirectory]);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new MirrorError('usage.invalid', `the external repository cannot be cloned: ${why}`, {
      cause: error,
      hint: 'Check the address and that this machine may read the repository.',
    });
  }
  await keepExact(gitDirectory);
}

/** Brings a mirror to what its source holds now, with the source's own choice of a default branch. */
export async function update(git: Git, source: string, gitDirectory: string): Promise<void> {
  const what = ['--quiet', '--prune', '--no-write-fetch-head', '--', source, '+refs/*:refs/*'];
  await git.run(gitDirectory, ['fetch', ...what]);
  const answer = await git.run(gitDirectory, ['ls-remote', '--symref', '--', source, 'HEAD']);
  const defaultBranch = /^ref: (refs\/heads\/\S+)\tHEAD$/m.exec(answer.toString('utf8'))?.[1];
  if (defaultBranch !== undefined) await git.run(gitDirectory, ['symbolic-ref', 'HEAD', defaultBranch]);
}

/** Writes the attributes that make archives exact, unless they are there already. */
export async function keepExact(gitDirectory: string): Promise<void> {
  const path = join(gitDirectory, 'info', 'attributes');
  const present = await readFile(path, 'utf8').catch(() => null);
  if (present === EXACT_ATTRIBUTES) return;
  await mkdir(join(gitDirectory, 'info'), { recursive: true });
  await writeFile(path, EXACT_ATTRIBUTES);
}
