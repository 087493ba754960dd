import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { syncDirectory } from '../../lib/disk/durable.ts';
import { systemCode } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type Git, settingArguments } from './git.ts';

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
 * Writes the attributes that make archives exact, unless they are there already.
 * @throws Error `ENOENT` for a repository that is not there: a folder with nothing else in it would be no repository
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

/** Whether a path in an object store is that of something unfinished, and not of something in such a thing. */
function isUnfinished(path: string): boolean {
  const segments = path.split('/');
  const isPart = (name: string): boolean => /^(?:tmp_|\.tmp-)|\.lock$/.test(name);
  return isPart(segments.pop() ?? '') && !segments.some(isPart);
}

/**
 * Removes what git programs leave behind that were ended without warning: locks of references, which would stop every change of
 * them, locks of lists of objects, and parts of downloads, pushes and packs. To be called while nothing works on the repository.
 */
export async function clearAway(gitDirectory: string): Promise<void> {
  const below = async (folder: string): Promise<string[]> =>
    (await readdir(join(gitDirectory, folder), { recursive: true }).catch(() => [])).map((name) =>
      join(folder, name),
    );
  const names = [...(await readdir(gitDirectory).catch(() => [])), ...(await below('refs'))];
  // No reference ends so (git-check-ref-format(1)).
  const locks = names.filter((name) => name.endsWith('.lock'));
  const parts = (await below('objects')).filter(isUnfinished);
  await Promise.all(
    [...locks, ...parts].map((name) => rm(join(gitDirectory, name), { recursive: true, force: true })),
  );
}

/**
 * Settings with which git writes everything through to the disk before it goes on (git-config(1), `core.fsync`): what was
 * answered is there after a power cut.
 */
export const LASTING_SETTINGS: readonly string[] = settingArguments(
  'core.fsync=all',
  'core.fsyncMethod=fsync',
);

/** A bare repository of the service that cannot be read. */
export class DamagedError extends MirrorError {
  constructor(message: string, cause?: unknown) {
    super('service.failed', message, cause === undefined ? {} : { cause });
  }
}

/** Git's words for a repository that is not whole (LC_ALL=C; git 2.39 to 2.51). */
const DAMAGE =
  /not a git repository|No such ref: HEAD|(?:missing|bad|invalid|corrupt(?:ed)?|broken) (?:object|loose object|blob|tree|commit)|unable to read|is corrupt|reference broken/i;

/** Says whether git's complaint is about a repository that is not whole, and not about the machine. */
function isDamage(complaint: string): boolean {
  return DAMAGE.test(complaint);
}

/** Passes an error on, as a DamagedError where the repository is to blame. */
export function blameRepository(error: unknown): never {
  if (error instanceof MirrorError && isDamage(error.message)) throw new DamagedError(error.message, error);
  throw error;
}
